"""Search by meaning: finds the notes closest to a query, by vectors from an embedding function."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from nbagent.errors import ConfigurationError
from nbagent.memory.store import Note

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

#: Makes a vector of each text; all vectors have the same length.
Embed = Callable[[list[str]], Sequence[Sequence[float]]]
#: Texts of one call, and characters of a note, that embedding models accept.
BATCH, MAX_CHARS = 100, 8_000
#: Reciprocal rank fusion adds 1 / (this + rank) of each list that a note is in: Cormack, Clarke, Büttcher, SIGIR 2009.
FUSION = 60


class Meaning:
    """The vectors of notes, kept in memory: each version of a note is embedded once in a process."""

    def __init__(self, embed: Embed) -> None:
        self._embed = embed
        self._vectors: dict[tuple[str, int], NDArray[np.float64]] = {}

    def nearest(self, query: str, notes: Iterable[Note]) -> list[Note]:
        """The notes by cosine similarity to the query, the closest first.

        Raises the embedding function's errors, and `ConfigurationError` if it does not return a vector for each text.
        """
        wanted = {(note.path, note.version): note for note in notes}
        missing = [key for key in wanted if key not in self._vectors]
        texts = [f"{wanted[key].path}\n{wanted[key].text}"[:MAX_CHARS] for key in missing]
        of_query, *of_notes = self._embedded([query, *texts])
        self._vectors = {key: known for key, known in self._vectors.items() if key in wanted}
        self._vectors |= zip(missing, of_notes, strict=True)
        return sorted(wanted.values(), key=lambda note: -of_query @ self._vectors[note.path, note.version])

    def _embedded(self, texts: list[str]) -> list[NDArray[np.float64]]:
        """A vector of length 1 for each text."""
        import numpy as np

        batches = [texts[start : start + BATCH] for start in range(0, len(texts), BATCH)]
        rows = [row for batch in batches for row in self._embed(batch)]
        vectors = [np.asarray(row, dtype=float) for row in rows]
        if len(rows) != len(texts) or len({each.shape for each in vectors}) != 1 or vectors[0].ndim != 1:
            raise ConfigurationError(
                f"embed returned {len(rows)} vectors for {len(texts)} texts: expected one list of numbers for each "
                "text, all of the same length."
            )
        return [vector / (np.linalg.norm(vector) or 1.0) for vector in vectors]


def fused(*rankings: Sequence[str]) -> list[str]:
    """Several rankings as one: first the items near the top of most.

    >>> fused(["a", "b"], ["b", "c"])
    ['b', 'a', 'c']
    """
    scores: dict[str, float] = {}
    for ranking in rankings:
        for rank, each in enumerate(ranking):
            scores[each] = scores.get(each, 0.0) + 1 / (FUSION + rank)
    return sorted(scores, key=lambda each: -scores[each])
