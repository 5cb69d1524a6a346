"""Fits the weights of `nbagent/providers/prompting/grounding.py` to the odd cases of `embedded.py`, and prints them.

Each parameter of each right call is a choice among the pieces of its request, or none if it is optional. A weight is
fitted so that the right pieces become likely (multinomial logistic regression). Run it as `embedded.py` is run.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from unittest.mock import patch

import numpy as np
from embedded import cases, json_schema

from nbagent.providers.prompting import grounding
from nbagent.providers.prompting.reading import Reading

#: How much a case of each category counts. They are many of "live_multiple", in the style of "live_simple".
CATEGORIES = {"simple_python": 1.0, "multiple": 1.0, "live_simple": 1.0, "live_multiple": 0.3, "parallel": 0.4}
#: How strongly large weights are held back, and from which size one is kept.
RIDGE, LEAST = 0.003, 0.25
#: The features of the pieces, whether each is right, and how much the choice counts.
Choice = tuple[list[Mapping[str, float]], np.ndarray, float]


def same(value: Any) -> str:
    """A text as the leaderboard's checker compares it."""
    return re.sub(r"[ ,./\-_*^()'\"]", "", str(value)).lower()


def choices() -> Iterator[tuple[str, Choice]]:
    """The candidates for one table of weights."""
    for category, weight in CATEGORIES.items():
        for case, truth in cases(category, even=False):
            ((name, right),) = truth[0].items()
            tool = next(json_schema(tool) for tool in case["function"] if tool["name"] == name)
            with patch.object(grounding.Filling, "_fill"):  # nothing is taken yet
                filling = grounding.Filling(Reading(case["question"][0][-1]["content"]), tool)
            numbers = [piece for piece in filling.reading.numbers if piece.kind != "word"]
            asked, texts = filling._open("integer", "number"), filling._texts()
            for table, names in (("_NUMBER", asked), ("_TEXT", filling._open("string", None))):
                for rank, key in enumerate(names):
                    if key not in right:
                        continue
                    if table == "_TEXT":
                        features = [filling.text_features(piece, key) for piece in texts]
                        hits = [same(piece.value) in map(same, right[key]) for piece in texts]
                    else:
                        features = [filling.number_features(each, key, i == rank) for i, each in enumerate(numbers)]
                        hits = [filling._converted(piece, key).value in right[key] for piece in numbers]
                    if key not in filling.needed:
                        features, hits = [*features, {}], [*hits, "" in right[key]]
                    if any(hits):
                        yield table, (features, np.array(hits), weight)


def fitted(rows: Sequence[Choice], names: Sequence[str], steps: int = 300) -> dict[str, float]:
    """The weights of these features, by gradient descent with Adam's step sizes."""
    data = [(np.array([[float(f.get(n, 0)) for n in names] for f in rows_]), hits, w) for rows_, hits, w in rows]
    weights, mean, square = np.zeros((3, len(names)))
    total = sum(weight for *_, weight in data)
    for step in range(1, steps + 1):
        gradient = RIDGE * weights
        for matrix, hits, weight in data:
            scores = matrix @ weights
            likely = np.exp(scores - scores.max())
            right = likely * hits
            gradient += weight / total * matrix.T @ (likely / likely.sum() - right / right.sum())
        mean, square = 0.9 * mean + 0.1 * gradient, 0.999 * square + 0.001 * gradient**2
        weights -= 0.1 * mean / (1 - 0.9**step) / (np.sqrt(square / (1 - 0.999**step)) + 1e-8)
    return dict(zip(names, weights.tolist(), strict=True))


if __name__ == "__main__":
    found = list(choices())
    for table in ("_TEXT", "_NUMBER"):
        rows = [row for name, row in found if name == table]
        weights = fitted(rows, list(dict.fromkeys(name for features, *_ in rows for each in features for name in each)))
        weights = fitted(rows, [name for name, weight in weights.items() if abs(weight) >= LEAST])
        print(table, {name: round(weight, 1) for name, weight in weights.items()})
