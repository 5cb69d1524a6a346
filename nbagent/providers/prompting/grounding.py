"""Finds the tool for a request, and the pieces of the request that can be arguments, without using the model.

`best_tool` chooses a tool by the words that it shares with the request, and by how well the request supplies its
arguments. `follow_up` reads a request such as "And for Oslo?", which changes the last call. A `Filling` has the
request's values for each parameter of a tool, likeliest first, such as an enum value, a number, a quotation or a name.
If several are likely, the model chooses.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import combinations, pairwise
from typing import Any

from nbagent.providers.prompting.reading import (
    COMMON,
    LINKS,
    STOP_WORDS,
    UNITS,
    Piece,
    Reading,
    has_no_spaces,
    stem,
    without_quotations,
    words,
)
from nbagent.providers.prompting.schemas import Tool, parameter_schemas

#: For each parameter with an argument, its possible values.
Choices = dict[str, list[Any]]

#: The minimum relevance for a tool to be called.
THRESHOLD = 1.5
#: The minimum fit of a piece for a required parameter.
LEAST = -4
#: The minimum fit of a piece for a parameter in a follow-up, which has no other words to go by.
LEAST_CHANGED = -1
#: How a follow-up starts. A sentence with a word of the second group is not a follow-up.
_FOLLOW_UP = re.compile(
    r"\s*(ok(ay)?,? )?(and|now for|same for|(what|how) about)\b"
    r"(?!.*\b(who|what|when|where|which|why|how|is|are|was|were|do|does|did|can|could|should|will|would"
    r"|bye|hello|hi|instead of|lol|no|not|stop|thank|thanks|without|yes)\b)",
    re.IGNORECASE | re.DOTALL,
)
#: How much likelier a leftover name or quotation is for an optional parameter.
REST = 2.0
#: The most values that the model chooses among, and how much less likely than the first they may be.
MAX_CHOICES, MARGIN = 8, 0.8


def _stems(text: str) -> frozenset[str]:
    return frozenset(map(stem, text.split()))


#: The kinds of parameters, by the words of their names.
_KINDS = {
    "place": _stems("location city country place state county address destination area region venue town origin"),
    "text": _stems(
        "body command comment content description message prompt query question sentence subject text title"
    ),
    "number": _stems("number id year season code zip phone version time age account order"),
    "date": _stems("date day"),
}
#: Parameters that differ only in such words mean the same kind of thing.
_ENDS = _stems("start end first second origin destination from to source target departure arrival one two")
#: Words of a follow-up that say nothing about the values.
_FILLERS = _stems("again instead now ok okay please same then too")
#: Words before a place.
_PLACE_LINKS = frozenset(str.split("around at for from in near to"))
_NEGATIONS = frozenset(str.split("don't exclude excluding no not without"))
_AND = (",", "and", "&", "or")
#: The kinds of pieces that are numbers.
_NUMBERS = ("number", "share", "word")

# fmt: off
#: The weights of features: of a tool's relevance, of a piece as a text parameter's value, of a number as a number
#: parameter's value. `benchmarks/fit_embedded.py` fitted the last two.
_RELEVANCE = {"named": 1.3, "known": 1.0, "covered": 1.2, "worst text": 0.5}
_TEXT = {
    "words": -1.7, "number": -1.7, "quoted": 0.6,
    "before": 3.3, "behind": 2.2, "example": 1.9, "by": 1.1, "optional": -2.4,
    "name": 1.7, "partly name": -1.3, "cut name": -2.4, "longer": 0.4,
    "other words": -3.3, "own words": -1.9,
    "place": 1.1, "name as place": 1.4, "place, place": 1.3, "words as place": -0.5,
    "number as number": 1.3, "words as number": -1.4, "date as date": 2.3, "words as date": -1.3, "date as place": -0.5,
    "words as text": -0.9,
}
_NUMBER = {"number": -1.5, "before": 3.3, "behind": 2.3, "in order": 1.7, "optional": -1.5}
# fmt: on


# -- which tool -------------------------------------------------------------------------------------------------------


def best_tool(request: str, tools: Sequence[Tool], at_least: float = THRESHOLD) -> tuple[Tool, list[Choices]] | None:
    """The most relevant tool whose arguments the request supplies, and its calls; None if none is relevant enough."""
    reading, said = Reading(request), set(words(without_quotations(request))) - COMMON
    rated = [(relevance(said, each), each) for tool in tools if (each := Filling(reading, tool)).calls]
    rating, best = max(rated, key=lambda each: each[0], default=(0.0, None))
    return (best.tool, best.calls) if best and rating >= at_least else None


def follow_up(request: str, tool: Tool, earlier: Mapping[str, Any]) -> list[Choices]:
    """The earlier call's arguments, updated with the follow-up's values, for each call that the follow-up requests.

    Empty if the request is not a follow-up, names no value, or contains a word that asks for something else.

    >>> weather = {"name": "weather", "parameters": {"properties": {"city": {"type": "string"}}, "required": ["city"]}}
    >>> follow_up("And in Oslo?", weather, {"city": "Rome"}), follow_up("And who lives in Oslo?", weather, {})
    ([{'city': ['Oslo']}], [])
    """
    if not _FOLLOW_UP.match(request):
        return []
    schemas = parameter_schemas(tool)  # all required: none is preferred
    every = {"parameters": {**tool["parameters"], "required": list(schemas)}} if schemas else {}
    return Filling(Reading(request), {**tool, **every}).changed_calls(earlier)


def relevance(said: set[str], filling: Filling) -> float:
    """How well a tool's name and words match the request, and how well the request supplies its arguments."""
    tool, schemas = filling.tool, filling.schemas
    name = set(words(tool["name"])) - COMMON
    values = " ".join(str(value) for schema in schemas.values() for value in schema.get("enum") or ())
    about = {*name, *words(f"{tool.get('description') or ''} {values}")}
    parameters = words(" ".join(f"{key} {schema.get('description') or ''}" for key, schema in schemas.items()))
    texts = [key for key in filling.needed if key in filling.fits and schemas[key].get("type") in ("string", None)]
    features = {
        "named": len(name & said) / max(1, len(name)),
        "known": min(len(said & about), 4),
        "covered": len(said & {*about, *parameters}) / max(1, len(said)),
        "worst text": max(-3, min((filling.fits[key] for key in texts), default=0)),
    }
    return _weighed(features, _RELEVANCE)


def _weighed(features: Mapping[str, float], weights: Mapping[str, float]) -> float:
    return sum(weights.get(feature, 0) * value for feature, value in features.items() if value)


# -- which values -----------------------------------------------------------------------------------------------------


class Filling:
    """The values that a request supplies for a tool's parameters, call by call. There are no calls if a required value
    is missing.
    """

    def __init__(self, reading: Reading, tool: Tool) -> None:
        self.tool, self.reading, self.schemas = tool, reading, parameter_schemas(tool)
        required = (tool.get("parameters") or {}).get("required") or ()
        self.needed = [name for name in required if name in self.schemas]
        self.names = {name: set(words(name)) or {stem(name)} for name in self.schemas}
        own = {  # a parameter's name counts twice as much as its description
            name: {
                **dict.fromkeys(words(str(schema.get("description") or "")), 1.0),
                **dict.fromkeys(self.names[name], 2.0),
            }
            for name, schema in self.schemas.items()
        }
        shared = Counter(word for vocabulary in own.values() for word in vocabulary)
        #: The words of each parameter with their weights. A word that several parameters share weighs less.
        self.vocabularies = {
            name: {word: weight / shared[word] for word, weight in each.items()} for name, each in own.items()
        }
        #: The words that name the tool or a parameter.
        self.spoken = {*COMMON, *words(tool["name"]), *words(tool.get("description") or "")}.union(*self.names.values())
        self.found: Choices = {}
        #: Each parameter's possible pieces, its chosen piece, and how well that suits it; then the tokens in use.
        self.options: dict[str, list[Piece]] = {}
        self.chosen: dict[str, Piece] = {}
        self.fits: dict[str, float] = {}
        self.taken: set[int] = set()
        self._fill()
        #: The calls, or none.
        self.calls = self._calls() if all(name in self.found for name in self.needed) else []

    def _fill(self) -> None:
        """Fill the parameters by type: enums first, whose values are certain, and lists of texts last."""
        self._assign({name: self._named(name) for name in self.schemas})
        self._choose_flags()
        numbers = [piece for piece in self.reading.numbers if piece.kind != "word"]
        self._assign_lists(numbers, "integer", "number")
        asked, free = self._open("integer", "number"), self._free(numbers)
        if not free or len(free) < len([name for name in asked if name in self.needed]):
            free = self._free(self.reading.numbers)
        self._assign(self._number_options(asked, free))
        spare, rest = self._open("integer", "number"), self._free(numbers) or self._free(self.reading.numbers)
        if len(spare) == len(rest):
            self._assign(self._number_options(spare, rest, REST))
        texts = self._free(self._texts())
        rest = [piece for piece in texts if piece.kind in ("quoted", "date") or self._is_whole(piece, True)]
        for pieces, bonus in ((texts, 0.0), (rest, REST)):
            asked = self._open("string", None)
            options = {
                name: [(_weighed(self.text_features(piece, name), _TEXT) + bonus, piece) for piece in pieces]
                for name in asked
            }
            self._assign({name: [(fit, self._dated(piece, name)) for fit, piece in options[name]] for name in asked})
        self._assign_lists(self._items(texts), "string", None)
        for name, schema in self.schemas.items():
            if name not in self.found and "properties" in schema:
                inner = Filling(self.reading, {"name": name, "parameters": schema})
                if inner.found and inner.calls:
                    self.found[name] = [{key: values[0] for key, values in inner.calls[0].items()}]

    def _open(self, *types: str | None) -> list[str]:
        """The parameters of these types without a value, required ones first."""
        names = [
            name
            for name, schema in self.schemas.items()
            if name not in self.found and schema.get("type") in types and not {"enum", "properties"} & schema.keys()
        ]
        return sorted(names, key=lambda name: name not in self.needed)

    def _free(self, pieces: Iterable[Piece]) -> list[Piece]:
        return [piece for piece in pieces if not piece.overlaps(self.taken)]

    def _assign(self, options: Mapping[str, Sequence[tuple[float, Piece]]]) -> None:
        """Assign each parameter its own piece, the best pair first. Then swap two if that is better overall.

        Parameters that differ in a number, or in words like "start" and "end", receive theirs in the request's order.
        An optional parameter receives a piece only if it suits.
        """
        fits = {
            (name, piece): fit
            for name, each in options.items()
            for fit, piece in each
            if fit > (LEAST if name in self.needed else 0) and not piece.overlaps(self.taken)
        }
        got, never = dict[str, Piece](), float("-inf")
        for name, piece in sorted(fits, key=lambda pair: -fits[pair]):
            if name not in got and not any(piece.meets(other) for other in got.values()):
                got[name] = piece
        for one, two in combinations(got, 2):
            swapped = fits.get((one, got[two]), never) + fits.get((two, got[one]), never)
            if swapped > fits[one, got[one]] + fits[two, got[two]] + 1e-6:
                got[one], got[two] = got[two], got[one]
        alike: dict[tuple[str, ...], list[str]] = {}
        for name in got:
            key = tuple(word for word in words(re.sub(r"\d", "", name)) if word not in _ENDS)
            alike.setdefault(key, []).append(name)
        for names in alike.values():
            pieces = sorted((got[name] for name in names), key=lambda piece: piece.start)
            pairs = list(zip(sorted(names, key=list(self.schemas).index), pieces, strict=True))
            if fits.keys() >= set(pairs):
                got.update(pairs)
        for name, piece in got.items():
            best = self.fits[name] = fits[name, piece]
            self.options[name] = [other for key, other in fits if key == name]
            others = [got[key] for key in got if key != name]
            near = [each for each in self.options[name] if best - MARGIN < fits[name, each] <= best]
            near = [each for each in near if not any(each.meets(other) for other in others)]
            near = [piece, *sorted(near, key=lambda each: -fits[name, each])]
            values = {repr(each.value): each.value for each in near}.values()
            self.found[name] = list(values)[: MAX_CHOICES if piece.kind not in _NUMBERS else 1]
            self.chosen[name] = piece
            self.taken |= set(piece.places)

    # -- enums and flags ----------------------------------------------------------------------------------------------

    def _named(self, name: str) -> list[tuple[float, Piece]]:
        """The enum values that the request names. For a parameter without an enum that is not free text, the values
        quoted in its description take their place.
        """
        schema = self.schemas[name]
        is_list = schema.get("type") == "array"
        given = (schema.get("items") or {} if is_list else schema).get("enum")
        if given is None and (schema.get("type") not in ("string", "array", None) or self._asks(name, "text")):
            return []
        values = given or re.findall(r"'(\w[\w -]{0,28}\w)'", str(schema.get("description") or ""))
        hits = [piece for value in dict.fromkeys(values) if (piece := self._mentioned(value))]
        hits = sorted(hits or (self._partly_mentioned(given) if given else ()), key=lambda piece: piece.start)
        if is_list and hits:
            hits = [Piece([piece.value for piece in hits], hits[0].start, hits[-1].end, "list")]
        return [(2 - 0.1 * i + sum(self._near(piece, name)), piece) for i, piece in enumerate(hits)]

    def _mentioned(self, value: Any) -> Piece | None:
        """The place where the request names a value."""
        text, stems, lower = str(value), self.reading.stems, str(value).lower()
        parts = [stem(part) for part in re.findall(r"[^\W_]+", text)]
        if not parts or (len(text) == 1 and not re.search(rf"(?<!\w){re.escape(text)}(?!\w)", self.reading.text)):
            return None
        is_in_words, is_link = has_no_spaces(text), lower in LINKS
        for i, word in enumerate(self.reading.lower):
            before = self.reading.word(i - 1).lower()
            if is_link and not before[-1:].isdigit() and before not in LINKS:
                continue  # "in" is a unit only after a number or another preposition
            if stems[i : i + len(parts)] == parts:
                return Piece(value, i, i + len(parts), "named")
            if word == lower or (is_in_words and text in word):
                return Piece(value, i, i + 1, "named")
        return None

    def _partly_mentioned(self, values: Sequence[Any]) -> list[Piece]:
        """The values that share the most words with the request."""
        stems = self.reading.stems
        at = [[stems.index(word) for word in words(str(value)) if word in stems] for value in values]
        most = max(map(len, at), default=0)
        return [
            Piece(v, min(i), min(i) + 1, "named") for v, i in zip(values, at, strict=True) if most and len(i) == most
        ]

    def _choose_flags(self) -> None:
        """Turn a flag on if the request has all words of its name, or off if "no" or "without" precedes them."""
        for name in self._open("boolean"):
            own = self.names[name] - _stems("consider enable get has include return show use with")
            at = [i for i, word in enumerate(self.reading.stems) if i not in self.reading.taken and _matches(word, own)]
            if at and all(any(_matches(word, {each}) for word in self.reading.stems) for each in own):
                before = {self.reading.word(i).lower() for i in range(at[0] - 3, at[0])}
                self.found[name] = [not before & _NEGATIONS]
            elif name in self.needed:
                self.found[name] = [self.schemas[name].get("default", True)]

    # -- numbers and lists --------------------------------------------------------------------------------------------

    def _number_options(
        self, names: Sequence[str], pieces: Sequence[Piece], bonus: float = 0
    ) -> dict[str, list[tuple[float, Piece]]]:
        """The numbers that each parameter accepts. An integer accepts no fraction."""
        options: dict[str, list[tuple[float, Piece]]] = {name: [] for name in names}
        for rank, name in enumerate(names):
            schema = self.schemas[name]
            for i, piece in enumerate(pieces):
                is_whole = isinstance(piece.value, int) and (piece.kind != "share" or "percent" in str(schema))
                if is_whole or schema["type"] == "number":
                    fit = _weighed(self.number_features(piece, name, i == rank), _NUMBER) + bonus
                    options[name].append((fit, self._converted(piece, name)))
        return options

    def number_features(self, piece: Piece, name: str, is_in_order: bool) -> dict[str, float]:
        """The features of a number as a parameter's value. `is_in_order`: whether the number's position among the
        numbers equals the parameter's position among the parameters.
        """
        before, behind = self._near(piece, name)
        return {
            "number": 1,
            "before": before,
            "behind": behind,
            "in order": is_in_order,
            "optional": name not in self.needed,
        }

    def _converted(self, piece: Piece, name: str) -> Piece:
        """A number in the parameter's unit: 5% is 0.05 unless it expects percent, and 2 weeks are 14 days."""
        schema = self.schemas[name]
        if piece.kind == "share" and schema["type"] == "number":
            in_percent = "percent" in f"{schema} {self.tool.get('description')}"
            return piece if in_percent else replace(piece, value=piece.value / 100)
        asked = list(UNITS.keys() & self.names[name] or UNITS.keys() & self.vocabularies[name].keys())
        if (said := self.reading.unit(piece.end)) and len(asked) == 1:
            (kind, factor), (asked_kind, asked_factor) = UNITS[said], UNITS[asked[0]]
            if kind == asked_kind and factor % asked_factor == 0:
                return replace(piece, value=piece.value * (factor // asked_factor))
        return piece

    def _dated(self, piece: Piece, name: str) -> Piece:
        """A date in the format that the parameter's description names, such as MM/DD/YYYY."""
        asked = re.search(r"\b([DMY]+)([-/.])([DMY]+)\2([DMY]+)\b", str(self.schemas[name].get("description")).upper())
        if piece.kind != "date" or not asked or not re.fullmatch(r"\d{4}-\d\d-\d\d", piece.value):
            return piece
        parts = dict(zip("YMD", piece.value.split("-"), strict=True))
        return replace(piece, value=asked[2].join(parts[asked[i][0]] for i in (1, 3, 4)))

    def _assign_lists(self, pieces: Sequence[Piece], *types: str | None) -> None:
        """Assign adjacent pieces to lists. If no two numbers are adjacent, all of them form one list."""
        groups = self.reading.joined(self._free(pieces), (*_AND, "to", "-"))
        if "number" in types and groups and all(len(group) == 1 for group in groups):
            groups = [[piece for group in groups for piece in group]]
        lists = [
            Piece([each.value for each in group], group[0].start, group[-1].end, "list" if group[1:] else "item")
            for group in groups
        ]
        self._assign(
            {
                name: [
                    (0.7 * min(len(each.value), 3) + sum(self._near(each, name)) - (name not in self.needed), each)
                    for each in lists
                ]
                for name in self._open("array")
                if (self.schemas[name].get("items") or {}).get("type") in types
            }
        )

    def _items(self, pieces: Sequence[Piece]) -> list[Piece]:
        """The possible pieces of a list: all quotations, else the longest runs of words that name no tool."""
        reading = self.reading

        def continues(i: int) -> bool:
            return reading.is_word(i) and i not in self.taken and reading.stems[i] not in self.spoken

        return [piece for piece in pieces if piece.kind == "quoted"] or [
            piece
            for piece in pieces
            if piece.kind == "words" and "," not in piece.value and continues(piece.start)
            if not continues(piece.start - 1) and not continues(piece.end)
        ]

    # -- texts --------------------------------------------------------------------------------------------------------

    def _texts(self) -> list[Piece]:
        """The candidates for a text. A city and its country form one, unless the tool accepts both."""
        reading, names = self.reading, self._open("string", None)
        places = {frozenset(self.names[name] - _ENDS) for name in names if self._asks(name, "place")}
        pieces = [*reading.quoted, *reading.dates, *reading.codes, *reading.arithmetic]
        pieces += [piece for piece in reading.words if len(places) < 2 or "," not in piece.value]
        pieces += [reading.span(each.start, each.end, "number") for each in reading.numbers if each.kind != "word"]
        if not reading.quoted and any(self._asks(name, "text") for name in names):
            pieces += reading.clauses(self.spoken, self.taken)
        return pieces

    def text_features(self, piece: Piece, name: str) -> dict[str, float]:
        """The features that show how well a piece fits a text parameter."""
        reading, text = self.reading, str(piece.value)
        asks = [kind for kind in _KINDS if self._asks(name, kind)]
        before, behind = self._near(piece, name)
        features: dict[str, float] = {
            piece.kind: 1,
            "before": before,
            "behind": behind,
            "optional": name not in self.needed,
            "example": len(text) > 2 and text.lower() in str(self.schemas[name].get("description")).lower(),
            **{f"{piece.kind} as {kind}": 1 for kind in asks},
        }
        if piece.kind != "words":
            return features
        said = [reading.stems[i] for i in piece.places if reading.is_word(i)]
        names = sum(reading.is_name(i) for i in piece.places) / len(said)
        links = [word for word in reading.lower[max(0, piece.start - 2) : piece.start] if word != "the"]
        return {
            **features,
            "name": names,
            "partly name": 0 < names < 1,
            "place": "place" in asks and bool(_PLACE_LINKS & set(links[-1:])),
            "name as place": "place" in asks and bool(_PLACE_LINKS & set(links[-1:])) and names > 0,
            "place, place": "place" in asks and "," in text,
            "by": links[-1:] == ["by"],
            "cut name": (reading.is_name(piece.start) and reading.is_name(piece.start - 1))
            + (reading.is_name(piece.end - 1) and reading.is_name(piece.end)),
            "longer": len(said) - 1,
            "other words": sum(word in self.spoken - self.names[name] for word in said) / len(said),
            "own words": all(word in self.names[name] for word in said),
        }

    def _asks(self, name: str, kind: str) -> bool:
        return not self.names[name].isdisjoint(_KINDS[kind])

    def _near(self, piece: Piece, name: str) -> tuple[float, float]:
        return self.reading.nearness(piece, self.vocabularies[name])

    # -- several calls ------------------------------------------------------------------------------------------------

    def _calls(self) -> list[Choices]:
        """One call, or several if the request lists several values for a parameter."""
        columns = {name: column for name in self.chosen if len(column := self._column(name)) > 1}
        count = max(map(len, columns.values()), default=1)
        numbers = [name for name, piece in self.chosen.items() if piece.kind in ("number", "share")]
        said = [piece for piece in self.reading.numbers if piece.kind != "word"]
        if count == 1 and len(numbers) > 1 and len(said) % len(numbers) == 0:
            count = len(said) // len(numbers)
        columns = {name: column for name, column in columns.items() if len(column) == count > 1}
        for name in self.chosen if count > 1 else ():
            if name not in columns and self.chosen[name].kind != "named":
                used = [piece for column in columns.values() for piece in column]
                free = [piece for piece in self._alike(name) if not any(piece.meets(other) for other in used)]
                mine = [key for key, piece in self.chosen.items() if piece in free]
                mine.sort(key=lambda key: self.chosen[key].start)
                if name in mine and len(free) == count * len(mine):
                    columns[name] = free[mine.index(name) :: len(mine)]
        found = {name: self.found[name] for name in self.schemas if name in self.found}
        return [
            {**found, **{name: [column[i].value] for name, column in columns.items()}}
            for i in range(count if columns else 1)
        ]

    def changed_calls(self, earlier: Mapping[str, Any]) -> list[Choices]:
        """See `follow_up`. A text that suits several parameters equally well changes none of them. A word does not
        replace a value of digits without letters, such as a date.
        """
        changed: set[str] = set()
        for name, piece in self.chosen.items():
            rivals = self._open("string", None) if piece.kind == "words" else []
            fit, *others = (_weighed(self.text_features(piece, each), _TEXT) for each in (name, *rivals))
            was_digits = re.fullmatch(r"(?=.*\d)[\d\W]+", str(earlier.get(name)))
            if piece.kind == "clause" or (was_digits and piece.kind == "words" and re.fullmatch(r"\D+", piece.value)):
                continue
            if self.fits[name] > LEAST_CHANGED and all(other < fit for other in others):
                changed.add(name)
        pieces = [piece for name in changed for piece in (self.chosen[name], *self._column(name))]
        used = {place for piece in pieces for place in piece.places}
        rest = {self.reading.stems[i] for i in range(len(self.reading)) if self.reading.is_word(i) and i not in used}
        if not changed or rest - self.spoken - _FILLERS:
            return []
        kept = {name: [value] for name, value in earlier.items()}
        return [{**kept, **{name: call[name] for name in changed}} for call in self._calls()]

    def _column(self, name: str) -> list[Piece]:
        """The pieces linked to a parameter's piece, by "and" or a common word such as a unit."""
        piece, alike, others = self.chosen[name], self._alike(name), [p for k, p in self.chosen.items() if k != name]
        group = next((group for group in self.reading.joined(alike, _AND) if piece in group), [piece])
        links = {word for pair in pairwise(group) for word in self.reading.between(*pair)}
        if "and" in links and "or" not in links:
            return [] if any(each.meets(other) for each in group for other in others) else group
        if piece.kind not in ("number", "share"):
            return []
        return [each for each in alike if each == piece or (each not in others and self._in_like_places(each, piece))]

    def _in_like_places(self, piece: Piece, other: Piece) -> bool:
        """Whether the same word, such as a unit, follows or precedes both."""
        pairs = [(self.reading.word(piece.end), self.reading.word(other.end))]
        pairs.append((self.reading.word(piece.start - 1), self.reading.word(other.start - 1)))
        return any(one == two and one[:1].isalpha() and one.lower() not in STOP_WORDS for one, two in pairs)

    def _alike(self, name: str) -> list[Piece]:
        """The pieces of the request that could replace a parameter's piece."""
        chosen, reading = self.chosen[name], self.reading
        alike = [piece for piece in self.options[name] if piece.kind == chosen.kind]
        if chosen.kind == "words":
            is_name = reading.is_name(chosen.start)
            if not is_name and not {reading.word(chosen.start - 1), reading.word(chosen.end)} & set(_AND):
                return [chosen]
            alike = [each for each in alike if self._is_whole(each, is_name) and not each.meets(chosen)] + [chosen]
        return sorted(alike, key=lambda piece: piece.start)

    def _is_whole(self, piece: Piece, is_name: bool) -> bool:
        """Whether a piece of words is a whole name, or a whole run of words that are not names."""
        inside = [i for i in piece.places if self.reading.is_word(i)]
        around = [i for i in (piece.start - 1, piece.end) if self.reading.is_word(i)]
        return (
            piece.kind == "words"
            and "," not in piece.value
            and all(self.reading.is_name(i) == is_name for i in inside)
            and all(self.reading.is_name(i) != is_name for i in around)
        )


def _matches(word: str, own: set[str] | frozenset[str]) -> bool:
    """Whether a stem is one of these, or has the same start as one."""
    return word in own or any(
        len(short := min(word, each, key=len)) >= 4 and each[: len(short)] == word[: len(short)] for each in own
    )
