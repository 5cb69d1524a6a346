"""Search by meaning: finds the notes that are closest to a query, with an embedding function."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from nbagent.errors import ConfigurationError
from nbagent.memory.store import Note

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

#: Returns a vector for each text. All vectors have the same length.
Embed = Callable[[list[str]], Sequence[Sequence[float]]]
#: How many texts are embedded in one call, and how many characters of a note.
BATCH, MAX_CHARS = 100, 8_000
#: Reciprocal rank fusion sums 1 / (this + rank) over the lists that contain a note: Cormack, Clarke, Büttcher, 2009.
FUSION = 60


class Meaning:
    """The notes' vectors, in memory. Each version of a note is embedded once per process."""

    def __init__(self, embed: Embed) -> None:
        self._embed = embed
        self._vectors: dict[tuple[str, int], NDArray[np.float64]] = {}

    def nearest(self, query: str, notes: Iterable[Note]) -> list[Note]:
        """Return the notes sorted by cosine similarity to the query, closest first.

        Raises the embedding function's errors, and `ConfigurationError` if it does not return a vector for each text.
        """
        by_key = {(note.path, note.version): note for note in notes}
        missing = [key for key in by_key if key not in self._vectors]
        texts = [f"{by_key[key].path}\n{by_key[key].text}"[:MAX_CHARS] for key in missing]
        of_query, *of_notes = self._embedded([query, *texts])
        self._vectors = {key: vector for key, vector in self._vectors.items() if key in by_key}
        self._vectors |= zip(missing, of_notes, strict=True)
        return sorted(by_key.values(), key=lambda note: -of_query @ self._vectors[note.path, note.version])

    def _embedded(self, texts: list[str]) -> list[NDArray[np.float64]]:
        """Return a vector of length 1 for each text."""
        import numpy as np

        batches = [texts[start : start + BATCH] for start in range(0, len(texts), BATCH)]
        rows = [row for batch in batches for row in self._embed(batch)]
        vectors = [np.asarray(row, dtype=float) for row in rows]
        if len(rows) != len(texts) or len({each.shape for each in vectors}) != 1 or vectors[0].ndim != 1:
            raise ConfigurationError(
                f"embed returned {len(rows)} vectors for {len(texts)} texts. It must return a list of numbers for each "
                "text, all of the same length."
            )
        return [vector / (np.linalg.norm(vector) or 1.0) for vector in vectors]


def fused(*rankings: Sequence[str]) -> list[str]:
    """Merge rankings: items near the top of several rankings come first.

    >>> fused(["a", "b"], ["b", "c"])
    ['b', 'a', 'c']
    """
    scores: dict[str, float] = {}
    for ranking in rankings:
        for rank, item in enumerate(ranking):
            scores[item] = scores.get(item, 0.0) + 1 / (FUSION + rank)
    return sorted(scores, key=lambda item: -scores[item])
