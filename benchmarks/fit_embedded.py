"""Fits the weights of `nbagent/providers/prompting/grounding.py` to the odd cases of `embedded.py`: `weights.json`.

Each parameter of each right call is a choice among the pieces of its request, or none if it is optional. A weight is
fitted so that the right pieces become likely (multinomial logistic regression). Run it as `embedded.py` is run. The
word lists and the weights of "tool" in the file are written by hand.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
from embedded import cases, json_schema

from nbagent.providers.prompting import grounding
from nbagent.providers.prompting.reading import LINKS, Reading

FILE = Path(grounding.__file__).with_name("weights.json")
#: How much a case of each category counts. They are many of "live_multiple", in the style of "live_simple".
CATEGORIES = {"live_multiple": 0.3, "live_simple": 1, "multiple": 1, "parallel": 0.4, "parallel_multiple": 0.3}
CATEGORIES["simple_python"] = 1
#: How strongly large weights are held back; how much more strongly those of one word in the name of a parameter.
RIDGE, WORD = 0.002, 3.0
#: The least choices in which a feature is met, and the least weight that is kept.
MET, LEAST = 3, 0.15
#: The features of the pieces, whether each is right, and how much the choice counts.
Choice = tuple[list[Mapping[str, float]], np.ndarray, float]


def same(value: Any) -> str:
    """A text as the leaderboard's checker compares it."""
    return re.sub(r"[ ,./\-_*^()'\"]", "", str(value)).lower()


def choices() -> Iterator[tuple[str, Choice]]:
    """The candidates for each kind of parameter that has weights."""
    for category, weight in CATEGORIES.items():
        for case, truth in cases(category, even=False):
            ((name, right),) = truth[0].items()
            tool = next(json_schema(tool) for tool in case["function"] if tool["name"] == name)
            with patch.object(grounding.Filling, "_fill"):  # nothing is taken yet
                filling = grounding.Filling(Reading(case["question"][0][-1]["content"]), tool)
            ways = {
                "text": (filling.texts(), filling.text_features),
                "number": (filling.reading.numbers, filling.number_features),
            }
            for key, kind in filling.kinds.items():
                if kind not in ways or key not in right:
                    continue
                pieces, features_of = ways[kind]
                features = [features_of(piece, key) for piece in pieces]
                values = [filling.value(piece, key) for piece in pieces]
                if kind == "text":
                    hits = [same(value) in map(same, right[key]) for value in values]
                else:
                    hits = [value in right[key] for value in values]
                if key not in filling.needed:
                    features, hits = [*features, {}], [*hits, "" in right[key]]
                if any(hits):
                    yield kind, (features, np.array(hits, float), weight)


def fitted(rows: Sequence[Choice], steps: int = 300) -> dict[str, float]:
    """The weights of the features, by gradient descent with Adam's step sizes."""
    met = Counter(name for features, *_ in rows for name in {name for each in features for name in each if each[name]})
    names = [name for name, count in met.items() if count >= MET]
    place = {name: i for i, name in enumerate(names)}
    general = {"in order", "other words", "own words", *(f"link {word}" for word in ("-", "between", *LINKS))}
    ridge = np.array([RIDGE * (1 if " " not in n or n in general or n.split()[-1].isupper() else WORD) for n in names])
    matrix = np.zeros((sum(len(features) for features, *_ in rows), len(names)))
    for row, each in zip(matrix, (each for features, *_ in rows for each in features), strict=True):
        for name, value in each.items():
            if name in place:
                row[place[name]] = value
    sizes = [len(features) for features, *_ in rows]
    of = np.repeat(np.arange(len(rows)), sizes)
    starts = np.cumsum([0, *sizes[:-1]])
    hits, counts = np.concatenate([hits for _, hits, _ in rows]), np.array([weight for *_, weight in rows])
    weights, mean, square = np.zeros((3, len(names)))
    for step in range(1, steps + 1):
        scores = matrix @ weights
        likely = np.exp(scores - np.maximum.reduceat(scores, starts)[of])
        right = likely * hits
        error = likely / np.add.reduceat(likely, starts)[of] - right / np.add.reduceat(right, starts)[of]
        gradient = ridge * weights + matrix.T @ (error * (counts / counts.sum())[of])
        mean, square = 0.9 * mean + 0.1 * gradient, 0.999 * square + 0.001 * gradient**2
        weights -= 0.1 * mean / (1 - 0.9**step) / (np.sqrt(square / (1 - 0.999**step)) + 1e-8)
    found = dict(sorted(zip(names, weights.tolist(), strict=True)))
    return {name: round(weight, 1) for name, weight in found.items() if abs(weight) >= LEAST}


if __name__ == "__main__":
    found = list(choices())
    data = json.loads(FILE.read_text(encoding="utf-8"))
    data |= {kind: fitted([row for each, row in found if each == kind]) for kind in ("text", "number")}
    FILE.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
    print({kind: len(data[kind]) for kind in ("text", "number")})
