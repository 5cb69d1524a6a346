"""Which tool a request is about, and which of its pieces can be the arguments. Nothing here asks the model.

`best_tool` picks a tool by the words that it shares with the request and by how well the request fills it. A `Filling`
gives each parameter of a tool the piece of the request that suits it best, by a weighted sum of what speaks for it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations, pairwise
from typing import Any

from nbagent.providers.formats.tool_schema import plain_schema
from nbagent.providers.prompting.reading import COMMON, DATA, LINKS, STOP_WORDS, Piece, Reading, stem, words

Schema = Mapping[str, Any]
Tool = Mapping[str, Any]
#: The relevance from which a tool is called.
THRESHOLD = 1.3
#: How badly a piece may suit a required parameter.
LEAST = -4.0
#: How much likelier a number, quotation, date or name that no other parameter got is for an optional one.
REST = 2.0
#: Units of time by their stems: so many of the smallest one of their kind.
UNITS = (
    {"second": 1, "minut": 60, "hour": 3_600, "day": 86_400, "week": 604_800},
    {"month": 1, "year": 12, "decad": 120},
)
#: What parameters ask for, by the stems of the words of their names.
_ASKS = {kind: frozenset(map(stem, known.split())) for kind, known in DATA["kinds of parameters"].items()}
#: Parameters that differ only by such words ask for the same kind of thing.
_ENDS = frozenset(map(stem, str.split("start end first second origin destination from to source target one two")))
#: What the names of flags begin with.
_DO = frozenset(map(stem, str.split("consider enable get has include return show use with")))
_NEGATIONS = frozenset(str.split("don't exclude excluding no not without"))
_AND = (",", "and", "&", "or")


def best_tool(
    request: str, tools: Sequence[Tool], at_least: float = THRESHOLD
) -> tuple[Tool, list[dict[str, Any]]] | None:
    """The most relevant tool that the request can fill, and its calls; None if none is `at_least` so relevant."""
    reading = Reading(request)
    rated = [(relevance(each), each) for tool in tools if (each := Filling(reading, tool)).calls]
    rating, best = max(rated, key=lambda each: each[0], default=(0.0, None))
    return (best.tool, best.calls) if best and rating >= at_least else None


def relevance(filling: Filling) -> float:
    """How much of a tool's name a request says, how much of the request is the tool's, and how well it is filled."""
    tool, schemas, said = filling.tool, filling.schemas, filling.reading.said
    name = set(words(tool["name"])) - COMMON
    values = " ".join(str(value) for schema in schemas.values() for value in schema.get("enum") or ())
    about = {*name, *words(f"{tool.get('description') or ''} {values}")}
    parameters = words(" ".join(f"{key} {schema.get('description') or ''}" for key, schema in schemas.items()))
    texts = [fit for key, fit in filling.fits.items() if key in filling.needed and filling.kinds[key] == "text"]
    features = {
        "named": len(name & said) / max(1, len(name)),
        "known": min(len(said & about), 4),
        "covered": len(said & {*about, *parameters}) / max(1, len(said)),
        "worst text": max(-3, min(texts, default=0)),
    }
    return weighed("tool", features)


def weighed(kind: str, features: Mapping[str, float]) -> float:
    """The sum of the features, each times its weight."""
    weights: dict[str, float] = DATA[kind]
    return sum(weights.get(feature, 0) * value for feature, value in features.items() if value)


def parameter_schemas(tool: Tool) -> dict[str, dict[str, Any]]:
    """The schemas of a tool's parameters by name, without references, and with "this or null" as "this"."""
    properties = plain_schema(tool.get("parameters") or {}).get("properties") or {}
    return {name: _given(schema) for name, schema in properties.items()}


def _given(schema: Schema) -> dict[str, Any]:
    """The schema of a value that is given."""
    options = [option for option in schema.get("anyOf") or () if option.get("type") != "null"]
    found = {**schema, **options[0]} if len(options) == 1 else dict(schema)
    if isinstance(found.get("type"), list):
        found["type"] = next((one for one in found["type"] if one != "null"), None)
    if "const" in found:
        found["enum"] = [found["const"]]
    return found


def _kind(schema: Schema) -> str:
    """How the values of a parameter are found."""
    if schema.get("type") == "array":
        return f"{_kind(schema.get('items') or {'type': 'object'})}s"
    if "properties" in schema or schema.get("enum"):
        return "object" if "properties" in schema else "enum"
    kinds = {"string": "text", None: "text", "integer": "number", "number": "number", "boolean": "flag"}
    return kinds.get(schema.get("type"), "none")


class Filling:
    """What a request holds for a tool's parameters, once for each call that it asks for; no call if it lacks a value.

    Parameters that the request says nothing about are left out, unless they are required.
    """

    def __init__(self, reading: Reading, tool: Tool) -> None:
        self.tool, self.reading, self.schemas = tool, reading, parameter_schemas(tool)
        self.kinds = {name: _kind(schema) for name, schema in self.schemas.items()}
        required = (tool.get("parameters") or {}).get("required") or ()
        self.needed = [name for name in required if name in self.schemas]
        self.names = {name: set(words(name)) or {stem(name)} for name in self.schemas}
        #: The same, and what it asks for: what the weights of some features depend on.
        self.asks = {
            name: [*own, *(kind for kind, known in _ASKS.items() if known & own)] for name, own in self.names.items()
        }
        own = {name: _vocabulary(self.names[name], schema) for name, schema in self.schemas.items()}
        shared = Counter(word for vocabulary in own.values() for word in vocabulary)
        #: The words of each parameter by weight; one that several have weighs less.
        self.vocabularies = {
            name: {word: weight / shared[word] for word, weight in each.items()} for name, each in own.items()
        }
        #: The words that say which tool is meant, and which parameter.
        self.spoken = {*COMMON, *words(tool["name"]), *words(tool.get("description") or "")}.union(*self.names.values())
        #: The pieces that each parameter could get and how well they suit it, and the one it got.
        self.options: dict[str, list[tuple[float, Piece]]] = {}
        self.chosen: dict[str, Piece] = {}
        self.fits: dict[str, float] = {}
        self.kinds |= dict.fromkeys((name for name in self.schemas if self._named(name)), "named")
        self._fill()
        #: The calls, or none.
        self.calls = self._calls() if self.chosen.keys() >= set(self.needed) else []

    def _fill(self) -> None:
        """Each kind of parameter in its turn: first those whose values are certain, then what is left."""
        self.options = {name: self._options(name) for name in self.schemas}
        for kinds in (("named", "flag"), ("number", "numbers"), ("text",), ("texts", "object")):
            self._assign([name for name, kind in self.kinds.items() if kind in kinds])
            spare = [name for name, kind in self.kinds.items() if kind in kinds and name not in self.chosen]
            free = [piece for piece in self.reading.numbers if self._is_free(piece)]
            free = [piece for piece in free if piece.kind != "numeral"] or free
            if "number" not in kinds or len(spare) == len(free):
                self._assign(spare, REST)

    # -- which values -------------------------------------------------------------------------------------------------

    def _options(self, name: str) -> list[tuple[float, Piece]]:
        """The pieces that a parameter could get, as it takes them, and how well each suits it."""
        kind, schema = self.kinds[name], self.schemas[name]
        if kind == "text":
            return [(weighed(kind, self.text_features(piece, name)), piece) for piece in self.texts()]
        if kind == "number":
            pieces = [each for each in self.reading.numbers if schema["type"] == "number" or type(each.value) is int]
            return [(weighed(kind, self.number_features(piece, name)), piece) for piece in pieces]
        if kind == "object":
            inner = Filling(self.reading, {"name": name, "parameters": schema})
            return [(1, Piece(inner.calls[0], 0, 0, kind))] if any(inner.calls) else []
        ways = {"named": self._named, "flag": self._flag, "numbers": self._lists, "texts": self._lists}
        return ways[kind](name) if kind in ways else []

    def texts(self) -> list[Piece]:
        """What a text can be; a city and its country are one, unless the tool asks for both."""
        places = {frozenset(self.names[name] - _ENDS) for name, asks in self.asks.items() if "PLACE" in asks}
        pieces = self.reading.texts + self.reading.clauses(self.spoken)
        return [piece for piece in pieces if piece.kind != "words" or "," not in piece.value or len(places) < 2]

    def _near(self, piece: Piece, name: str) -> dict[str, float]:
        before, behind = self.reading.nearness(piece, self.vocabularies[name])
        return {"before": before, "behind": behind, "optional": name not in self.needed}

    def number_features(self, piece: Piece, name: str) -> dict[str, float]:
        """What speaks for and against a number as the value of a parameter."""
        alike = [each for each, kind in self.kinds.items() if kind == "number"]
        alike.sort(key=lambda each: each not in self.needed)
        return {
            **self._near(piece, name),
            piece.kind: 1,
            **{f"{piece.kind} {word}": 1 for word in self.asks[name]},
            "in order": self.reading.ranks.get(piece.start) == alike.index(name),
        }

    def text_features(self, piece: Piece, name: str) -> dict[str, float]:
        """What speaks for and against a piece as the value of a text parameter."""
        reading, text, inside = self.reading, str(piece.value), range(piece.start, piece.end)
        said = [reading.stems[i] for i in inside if reading.is_word(i)] or [""]
        names = sum(reading.is_name(i) for i in inside) / len(said)
        kind = "name" if piece.kind == "words" and names == 1 else piece.kind
        links = [word for word in reading.lower[max(0, piece.start - 2) : piece.start] if word != "the"]
        features: dict[str, float] = {
            **self._near(piece, name),
            kind: 1,
            **{f"{kind} {word}": 1 for word in self.asks[name]},
            "example": len(text) > 2 and text.lower() in str(self.schemas[name].get("description")).lower(),
        }
        if piece.kind != "words":
            return features
        link = links[-1] if links and links[-1] in (*LINKS, "between") else "-"
        return features | {
            f"link {link}": 1,
            **{f"link {link} {word}": 1 for word in self.asks[name]},
            "cut": (reading.is_name(piece.start) and reading.is_name(piece.start - 1))
            + (reading.is_name(piece.end - 1) and reading.is_name(piece.end)),
            **{f"comma {word}": "," in text for word in self.asks[name]},
            "longer": min(len(said) - 1, 5),
            "other words": sum(word in self.spoken - self.names[name] for word in said) / len(said),
            "own words": all(word in self.names[name] for word in said),
        }

    def _named(self, name: str) -> list[tuple[float, Piece]]:
        """The values of an enum that the request names, and those that the description of a text quotes."""
        schema = self.schemas[name]
        is_list = schema.get("type") == "array"
        given = (schema.get("items") or {} if is_list else schema).get("enum")
        if not given and (self.kinds[name] not in ("text", "texts", "named") or "TEXT" in self.asks[name]):
            return []
        values = given or re.findall(r"'(\w[\w -]{0,28}\w)'", str(schema.get("description") or ""))
        hits = [piece for value in dict.fromkeys(values) if (piece := self._said(value))]
        hits = sorted(hits or self._partly_said(given or ()), key=lambda piece: piece.start)
        if is_list and hits:
            hits = [Piece([piece.value for piece in hits], hits[0].start, hits[-1].end, "list")]
        near = [sum(self.reading.nearness(piece, self.vocabularies[name])) for piece in hits]
        return [(2 - 0.1 * i + near[i], piece) for i, piece in enumerate(hits)]

    def _said(self, value: Any) -> Piece | None:
        """Where the request names a value."""
        reading, lower = self.reading, str(value).lower()
        parts = [stem(part) for part in re.findall(r"[^\W_]+", lower)]
        for i, word in enumerate(reading.lower):
            before = reading.word(i - 1).lower()
            if lower in LINKS and not before[-1:].isdigit() and before not in LINKS:
                continue  # "in" is a unit only behind a number or another preposition
            if len(lower) == 1 and reading.word(i) != str(value):
                continue
            if word == lower or (lower in word and not lower.isascii()):
                return Piece(value, i, i + 1, "named")
            if parts and reading.stems[i : i + len(parts)] == parts:
                return Piece(value, i, i + len(parts), "named")
        return None

    def _partly_said(self, values: Sequence[Any]) -> list[Piece]:
        """The values that share the most words with the request."""
        stems = self.reading.stems
        at = [[stems.index(word) for word in words(str(value)) if word in stems] for value in values]
        most = max(map(len, at), default=0)
        return [Piece(v, min(i), min(i) + 1, "named") for v, i in zip(values, at, strict=True) if i and len(i) == most]

    def _flag(self, name: str) -> list[tuple[float, Piece]]:
        """A flag is on if the request has all words of its name, and off if "no" or "without" stands before them."""
        own = self.names[name] - _DO
        at = [i for i, word in enumerate(self.reading.stems) if self.reading.kinds[i] == "word" and _speaks(word, own)]
        if at and all(any(_speaks(word, {each}) for word in self.reading.stems) for each in own):
            before = {self.reading.word(i).lower() for i in range(at[0] - 3, at[0])}
            return [(1, Piece(not before & _NEGATIONS, 0, 0, "flag"))]
        return [(0, Piece(self.schemas[name].get("default", True), 0, 0, "flag"))]

    def _lists(self, name: str) -> list[tuple[float, Piece]]:
        """Lists get pieces that stand together; numbers of which no two do are one list."""
        reading, kind = self.reading, self.kinds[name]
        if kind == "texts":
            items = [piece for piece in reading.texts if piece.kind == "quoted"]
            items = items or [piece for piece in reading.texts if piece.kind == "words" and self._is_item(piece)]
        else:
            items = [piece for piece in reading.numbers if piece.kind != "numeral"]
        groups = reading.joined(items, (*_AND, "to", "-"))
        if kind == "numbers" and all(len(group) == 1 for group in groups):
            groups = [[piece for group in groups for piece in group]] if groups else []
        found = []
        for group in groups:
            values, is_optional = [piece.value for piece in group], name not in self.needed
            piece = Piece(values, group[0].start, group[-1].end, "list")
            near = sum(reading.nearness(piece, self.vocabularies[name]))
            found.append((0.7 * min(len(values), 3) + near - is_optional, piece))
        return found

    def _is_item(self, piece: Piece) -> bool:
        """Whether a piece is a whole name, or a whole row of words that name no tool."""
        said = self.reading.stems[piece.start : piece.end]
        return self.reading.is_whole(piece) and (self.reading.is_name(piece.start) or self.spoken.isdisjoint(said))

    # -- as the parameter takes them ----------------------------------------------------------------------------------

    def _unit(self, piece: Piece) -> str:
        """The stem of the word behind a number."""
        return next((each for each in self.reading.stems[piece.end : piece.end + 2] if each != "-"), "")

    def value(self, piece: Piece, name: str) -> Any:
        """A piece as a parameter takes it: 5% is 0.05 where no percent are asked for, and 2 weeks are 14 days."""
        schema = self.schemas[name]
        if piece.kind == "date":
            return _dated(piece.value, str(schema.get("description")).upper())
        if piece.kind == "share" and schema.get("type") == "number":
            in_percent = "percent" in f"{schema} {self.tool.get('description')}"
            return piece.value if in_percent else piece.value / 100
        said = self._unit(piece)
        for units in UNITS:
            asked = list(units.keys() & self.names[name] or units.keys() & self.vocabularies[name].keys())
            if (
                self.kinds[name] == "number"
                and said in units
                and len(asked) == 1
                and units[said] % units[asked[0]] == 0
            ):
                return piece.value * (units[said] // units[asked[0]])
        return piece.value

    # -- who gets what ------------------------------------------------------------------------------------------------

    def _assign(self, names: Iterable[str], bonus: float = 0) -> None:
        """Each parameter gets a piece of its own: the best pair first; then two swap if both together gain by it.

        An optional parameter gets none that does not suit it, unless no other parameter got it.
        """
        fits = {
            (name, piece): fit + bonus
            for name in names
            for fit, piece in self.options[name]
            if fit + bonus > (LEAST if name in self.needed else 0) and self._is_free(piece)
            if not bonus
            or piece.kind in ("quoted", "date", "number", "numeral")
            or self._sort(piece) == ("words", True)
        }
        got, never = dict[str, Piece](), float("-inf")
        for name, piece in sorted(fits, key=lambda pair: -fits[pair]):
            if name not in got and not any(piece.meets(other) for other in got.values()):
                got[name] = piece
        for one, two in combinations(got, 2):
            swapped = fits.get((one, got[two]), never) + fits.get((two, got[one]), never)
            if swapped > fits[one, got[one]] + fits[two, got[two]] + 1e-6:
                got[one], got[two] = got[two], got[one]
        self.chosen |= got
        self.fits |= {name: fits[name, piece] for name, piece in got.items()}

    def _is_free(self, piece: Piece) -> bool:
        return not any(piece.meets(other) for other in self.chosen.values())

    # -- several calls ------------------------------------------------------------------------------------------------

    def _calls(self) -> list[dict[str, Any]]:
        """One call, or as many as the request lists values for a parameter, or has whole rows of numbers."""
        kinds: dict[tuple[str, bool], list[str]] = {}
        for name, piece in sorted(self.chosen.items(), key=lambda each: each[1].start):
            if piece.end and piece.kind not in ("list", "clause"):
                kinds.setdefault(self._sort(piece), []).append(name)
        columns, count = dict[str, list[Piece]](), 1
        for sort, names in kinds.items():
            free = {piece for name in names for _, piece in self.options[name] if self._sort(piece) == sort}
            chosen = {self.chosen[name] for name in names}
            free -= {each for each in free - chosen if any(each.meets(other) for other in self.chosen.values())}
            for name in names:
                if len(listed := self._listed(self.chosen[name], free - chosen)) > 1:
                    columns[name] = listed
                    count = max(count, len(listed))
            rest = [name for name in names if name not in columns]
            row = sorted(free.difference(*columns.values()), key=lambda piece: piece.start)
            if rest and len(row) % len(rest) == 0:
                columns |= {name: row[i :: len(rest)] for i, name in enumerate(rest)}
                if len(rest) > 1 and sort[0] in ("number", "share"):
                    count = max(count, len(row) // len(rest))
        columns = {name: column for name, column in columns.items() if len(column) == count}
        rows = [{name: column[i] for name, column in columns.items()} for i in range(count if columns else 1)]
        return [{name: self.value(piece, name) for name, piece in (self.chosen | row).items()} for row in rows]

    def _sort(self, piece: Piece) -> tuple[str, bool]:
        """What pieces that mean the same kind of thing have in common: their kind, and whether they are names."""
        if piece.kind == "words" and not self.reading.is_whole(piece):
            return "part", False
        return piece.kind, piece.kind == "words" and self.reading.is_name(piece.start)

    def _listed(self, piece: Piece, free: set[Piece]) -> list[Piece]:
        """The pieces that "and" joins to one, or beside which the same word stands, such as a unit."""
        reading = self.reading
        group = next(group for group in reading.joined([piece, *free], _AND) if piece in group)
        between = {word for one, two in pairwise(group) for word in reading.lower[one.end : two.start]}
        if "and" in between and "or" not in between:
            return group
        if piece.kind not in ("number", "share"):
            return [piece]
        return sorted([piece, *(each for each in free if self._stand_alike(each, piece))], key=lambda each: each.start)

    def _stand_alike(self, piece: Piece, other: Piece) -> bool:
        """Whether the same word, such as a unit, stands behind or before both."""
        word = self.reading.word
        pairs = [(word(piece.end), word(other.end)), (word(piece.start - 1), word(other.start - 1))]
        return any(one == two and one.isalpha() and one.lower() not in STOP_WORDS for one, two in pairs)


def _vocabulary(own: Iterable[str], schema: Schema) -> dict[str, float]:
    """The words of a parameter: those of its name weigh twice those of its description."""
    return {**dict.fromkeys(words(str(schema.get("description") or "")), 1.0), **dict.fromkeys(own, 2.0)}


def _speaks(word: str, own: set[str]) -> bool:
    """Whether a stem is one of these, or begins like one."""
    return word in own or any(
        len(short := min(word, each, key=len)) >= 4 and each[: len(short)] == word[: len(short)] for each in own
    )


def _dated(text: str, asked: str) -> str:
    """A date in the format that a description asks for, such as MM/DD/YYYY, else as in ISO 8601.

    It stays as it is if day and month can't be told apart.
    """
    if re.match(r"\d{1,2}[-/]", text):
        return text
    import pandas as pd

    try:
        date = pd.Timestamp(text.replace(" of ", " "))
    except ValueError:
        return text
    found = re.search(r"\b([DMY]+)([-/.])([DMY]+)\2([DMY]+)\b", asked)
    form = found[2].join(f"%{found[i][0]}" for i in (1, 3, 4)) if found else "%Y-%m-%d"
    return date.strftime(form.replace("%D", "%d").replace("%M", "%m"))
