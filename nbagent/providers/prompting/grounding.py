"""Which tool a request is about, and which of its pieces can be the arguments. Nothing here asks the model.

`likeliest` picks a tool by the words that it shares with the request. `ground` gives the values that the request holds
for each parameter of a tool, the likeliest first: a number beside the parameter's words, a quotation, a name, one of an
enum's values. Where several are likely, the model chooses.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence, Set
from functools import cached_property
from itertools import compress, pairwise
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

Schema = Mapping[str, Any]
Tool = Mapping[str, Any]
#: For each parameter that gets an argument, the values that it can be.
Choices = dict[str, list[Any]]

#: The score from which a tool is called.
THRESHOLD = 1.16
#: The model chooses among so many values at most, none of which is this much less likely than the first.
MAX_CHOICES, MARGIN = 8, 0.8
#: How well a text must suit an optional parameter, which can be left out.
SUITS_OPTIONAL = 1.7


def _stems(text: str) -> frozenset[str]:
    return frozenset(map(stem, text.split()))


#: What parameters ask for, by the words of their names.
_PLACES = _stems("location city country place state county address destination area region venue town origin start end")
_FREE_TEXT = _stems(
    "body command comment content description input message pattern phrase prompt query question sentence subject "
    "text title word"
)
_CODES = _stems("url website site email mail to recipient path file link source domain address")
_COUNTED = _stems("number id year season code zip phone version time age account order")
_IDS = _stems("id code number")
#: Parameters that differ only by such words get their arguments in the order of the request.
_ENDS = _stems("start end first second origin destination from to source target departure arrival one two")
#: Words before a place.
_PLACE_LINKS = frozenset(str.split("around at for from in near to"))
_NEGATIONS = frozenset(str.split("don't exclude excluding no not without"))
_AND = (",", "and", "&", "or")
_TYPES = {"string": "str", "integer": "int", "number": "float", "boolean": "bool", "array": "list", "object": "dict"}


# -- which tool -------------------------------------------------------------------------------------------------------


def likeliest(request: str, tools: Sequence[Tool], at_least: float = THRESHOLD) -> Tool | None:
    """The tool with the highest score, if that is `at_least` so much, of those that the request can fill."""
    said = [word for word in dict.fromkeys(words(without_quotations(request))) if word not in COMMON]
    scores = sorted(((score(said, tool), -place) for place, tool in enumerate(tools)), reverse=True)
    likely = (tools[-place] for found, place in scores if found >= at_least)
    reading = Reading(request)
    return next((tool for tool in likely if _Grounding(reading, tool, False).calls()), None)


def score(said: Sequence[str], tool: Tool) -> float:
    """How much of a tool's name the stems hold, and how many of them are in its name, description and values."""
    schemas = parameter_schemas(tool)
    name = dict.fromkeys(word for word in words(tool["name"]) if word not in COMMON)
    values = " ".join(str(value) for schema in schemas.values() for value in schema.get("enum") or ())
    about = {*name, *words(f"{tool.get('description') or ''} {values}")}
    parameters = set(words(" ".join(f"{key} {schema.get('description') or ''}" for key, schema in schemas.items())))
    named = sum(word in said for word in name) / max(1, len(name))
    known = sum(word in about for word in said)
    covered = sum(word in about or word in parameters for word in said) / max(1, len(said))
    return 1.5 * named + min(known, 4) + 0.7 * covered


# -- schemas ----------------------------------------------------------------------------------------------------------


def parameter_schemas(tool: Tool) -> dict[str, dict[str, Any]]:
    """The schemas of a tool's parameters by name, references resolved."""
    root = tool.get("parameters") or {}
    schemas = {name: _resolved(schema, root) for name, schema in (root.get("properties") or {}).items()}
    for schema in schemas.values():
        if "items" in schema:
            schema["items"] = _resolved(schema["items"], root)
    return schemas


def _resolved(schema: Schema, root: Schema) -> dict[str, Any]:
    """A schema without `$ref`, and with "this or null" as "this": it describes a value that is given.

    One that says nothing, as `true` or an array's list of schemas, is `{}` here.
    """
    schema = dict(schema) if isinstance(schema, Mapping) else {}
    if ref := schema.pop("$ref", None):
        target: Any = root
        for part in str(ref).removeprefix("#/").split("/"):
            target = target[int(part)] if isinstance(target, list) else target.get(part, {})
        return _resolved({**target, **schema}, root)
    options = [option for option in schema.get("anyOf") or schema.get("oneOf") or () if option.get("type") != "null"]
    if len(options) == 1:
        rest = {key: value for key, value in schema.items() if key not in ("anyOf", "oneOf")}
        return _resolved({**rest, **options[0]}, root)
    if isinstance(schema.get("type"), list):
        types = [one for one in schema["type"] if one != "null"]
        schema["type"] = types[0] if len(types) == 1 else types
    if "const" in schema:
        schema["enum"] = [schema["const"]]
    return schema


def signature(tool: Tool, names: Sequence[str]) -> str:
    """A tool as a Python `def` with its docstring, and with the parameters of these names."""
    needed, schemas = (tool.get("parameters") or {}).get("required") or (), parameter_schemas(tool)
    parts = [f"{name}: {_annotation(schemas[name])}" + ("" if name in needed else " = None") for name in names]
    lines = [str(tool.get("description") or "").strip().split("\n")[0]]
    for name in names:
        about = re.split(r"\. |\(", str(schemas[name].get("description") or ""))[0].strip()
        lines += [f"    {name}: {about[:80]}"] if about else []
    return f'def {tool["name"]}({", ".join(parts)}):\n    """{chr(10).join(lines)}"""\n'


def _annotation(schema: Schema) -> str:
    kind = schema.get("type")
    if "enum" in schema:
        return f"Literal[{', '.join(map(repr, schema['enum']))}]"
    if kind == "array":
        return f"list[{_annotation(schema.get('items') or {'type': 'string'})}]"
    return _TYPES.get(kind, "str") if isinstance(kind, str) else "str"


# -- which values -----------------------------------------------------------------------------------------------------


def ground(request: str, tool: Tool, *, optional: bool = False) -> list[Choices]:
    """What the request holds for the tool's parameters, once for each call that it asks for; none if it lacks a value.

    Parameters that the request says nothing about are left out, unless they are required; with `optional` none is.
    """
    return _Grounding(Reading(request), tool, optional).calls()


class _Grounding:
    """Fills one tool from one request."""

    def __init__(self, reading: Reading, tool: Tool, optional: bool) -> None:
        self.tool, self.reading, self.schemas = tool, reading, parameter_schemas(tool)
        required = (tool.get("parameters") or {}).get("required") or ()
        self.needed = [] if optional else [name for name in required if name in self.schemas]
        own = {name: _vocabulary(name, schema) for name, schema in self.schemas.items()}
        shared = Counter(word for vocabulary in own.values() for word in vocabulary)
        #: The words of each parameter by weight; one that several have weighs less.
        self.vocabularies = {
            name: {word: weight / shared[word] for word, weight in each.items()} for name, each in own.items()
        }
        self.found: Choices = {}
        #: The values of parameters that the request lists several of, for as many calls.
        self.listed: Choices = {}
        #: The tokens that are used.
        self.taken: set[int] = set()

    def calls(self) -> list[Choices]:
        self._choose_values()
        self._choose_flags()
        self._choose_number_lists()
        self._choose_numbers()
        self._choose_texts()
        for name in self.needed:
            if name not in self.found and "default" in self.schemas[name]:
                self.found[name] = [self.schemas[name]["default"]]
        if any(not self.found.get(name) for name in self.needed):
            return []
        found = {name: self.found[name] for name in self.schemas if self.found.get(name)}
        count = max((len(values) for name, values in self.listed.items() if name in found), default=1)
        several = {name: values for name, values in self.listed.items() if name in found and len(values) == count > 1}
        return [{**found, **{name: [values[i]] for name, values in several.items()}} for i in range(count)]

    def _open(self, *types: str | None) -> list[str]:
        """The parameters of these types that have no value yet, in their order."""
        return [
            name
            for name, schema in self.schemas.items()
            if name not in self.found and schema.get("type") in types and not {"enum", "properties"} & schema.keys()
        ]

    def _free(self, pieces: Sequence[Piece]) -> list[Piece]:
        return [piece for piece in pieces if not piece.overlaps(self.taken)]

    def _near(self, piece: Piece, name: str) -> float:
        return self.reading.nearness(piece, self.vocabularies[name])

    # -- enums and flags ----------------------------------------------------------------------------------------------

    def _choose_values(self) -> None:
        """The values of an enum that the request names, and those that the description of no free text quotes."""
        for name, schema in self.schemas.items():
            is_list = schema.get("type") == "array"
            given = (schema.get("items") or {} if is_list else schema).get("enum")
            is_free = schema.get("type") not in ("string", "array", None) or set(words(name)) & _FREE_TEXT
            if given is None and is_free:
                continue
            values = given or re.findall(r"'([\w -]{2,30})'", str(schema.get("description") or ""))
            hits = [piece for value in dict.fromkeys(values) if (piece := self._said(value))]
            hits = [piece for piece in hits if not self._only_links(piece)] or hits
            hits = sorted(hits or (self._partly_said(given) if given else ()), key=lambda piece: piece.start)
            if not hits:
                continue
            said = [piece.value for piece in hits]
            self.found[name] = [said] if is_list else said
            links = {word for pair in pairwise(hits) for word in self.reading.between(*pair)}
            if not is_list and links & {",", "and"}:
                self.listed[name] = said
            self.taken |= {i for piece in hits for i in range(piece.start, piece.end)}
        alike: dict[str, list[str]] = {}
        for name, values in self.found.items():
            alike.setdefault(repr(sorted(map(str, values))), []).append(name)
        for names in alike.values():
            values = self.found[names[0]]
            for name in names[len(values) :] if "enum" in self.schemas[names[0]] else ():  # none is meant twice
                del self.found[name]
            if len(names) == len(values) > 1:  # in the order of the request
                for name, value in zip(names, values, strict=True):
                    self.found[name] = [value]
                    self.listed.pop(name, None)

    def _said(self, value: Any) -> Piece | None:
        """Where the request names a value."""
        text, stems, lower = str(value), self.reading.stems, str(value).lower()
        parts = [stem(part) for part in re.findall(r"[^\W_]+", text)]
        if not parts or (len(text) == 1 and not re.search(rf"(?<!\w){re.escape(text)}(?!\w)", self.reading.text)):
            return None
        is_in_words = has_no_spaces(text)
        for i, word in enumerate(self.reading.lower):
            if stems[i] == parts[0] and stems[i : i + len(parts)] == parts:
                return Piece(value, i, i + len(parts), "name")
            if word == lower or (is_in_words and text in word):
                return Piece(value, i, i + 1, "name")
        return None

    def _only_links(self, piece: Piece) -> bool:
        """Whether a value, such as the unit "in", is a mere preposition: neither a number nor another precedes it."""
        before = self.reading.word(piece.start - 1)
        return str(piece.value).lower() in LINKS and not before[-1:].isdigit() and before.lower() not in LINKS

    def _partly_said(self, values: Sequence[Any]) -> list[Piece]:
        """The values that share the most words with the request."""
        stems = self.reading.stems
        at = [[stems.index(word) for word in words(str(value)) if word in stems] for value in values]
        most = max(map(len, at), default=0)
        return [
            Piece(v, min(i), min(i) + 1, "name") for v, i in zip(values, at, strict=True) if most and len(i) == most
        ]

    def _choose_flags(self) -> None:
        """A flag is on if the request has all words of its name, and off if "no" or "without" stands before them."""
        for name in self._open("boolean"):
            own = set(words(name)) - _stems("consider enable get has include return show use with")
            at = [i for i, word in enumerate(self.reading.stems) if i not in self.reading.taken and _speaks(word, own)]
            if at and all(any(_speaks(word, {each}) for word in self.reading.stems) for each in own):
                before = {self.reading.word(i).lower() for i in range(at[0] - 3, at[0])}
                self.found[name] = [not before & _NEGATIONS]
            elif name in self.needed:
                self.found[name] = [self.schemas[name].get("default", True)]

    # -- numbers ------------------------------------------------------------------------------------------------------

    def _choose_number_lists(self) -> None:
        """Numbers that stand together are a list; if none do, all of them are."""
        names = [
            name for name in self._open("array") if _kind(self.schemas[name].get("items")) in ("integer", "number")
        ]
        names = [name for name in names if name in self.needed] or names[:1]
        free = self._free(self.reading.numbers)
        if not names or not free:
            return
        groups = self.reading.joined(free, (*_AND, "-", "to"))
        lists = [group for group in groups if len(group) > 1] or ([free] if len(names) == 1 else groups)
        if len(names) == 1 and len(lists) > 1:
            self.listed[names[0]] = [[piece.value for piece in group] for group in lists]
        for name, group in zip(names, lists, strict=False):
            self.found[name] = [[piece.value for piece in group]]
            self.taken |= {piece.start for piece in group}

    def _choose_numbers(self) -> None:
        """Numbers go to the parameters whose words stand nearest, to required ones first."""
        names, free = self._open("integer", "number"), self._free(self.reading.numbers)
        needed = [name for name in names if name in self.needed]
        spare = [name for name in names if name not in self.needed]
        if len(free) < len(needed):
            free = sorted([*free, *self._free(self.reading.number_words)], key=lambda piece: piece.start)
        given = self._assign(needed, free, at_least=None)
        rest = [piece for piece in free if piece not in given.values()]
        if 0 < len(rest) == len(spare) <= 2:  # then nothing else can be meant
            given |= self._assign(spare, rest, at_least=None)
        else:
            rest += [piece for piece in self._free(self.reading.number_words) if piece not in free]
            given |= self._assign(spare, rest, at_least=0.3)
        rest = [piece for piece in rest if piece not in given.values()]
        if len(needed) > 1 and given.keys() == set(needed) and len(free) > len(free) % len(needed) == 0 < len(rest):
            columns = {name: free[i :: len(needed)] for i, name in enumerate(needed)}  # all of them, several times
            for name, column in columns.items():
                if all(_fits(piece, self.schemas[name]) for piece in column):
                    self.listed[name] = [self._number(piece, name) for piece in column]
            return
        for name, source in given.items():
            is_again = [self._stand_alike(source, each) and _fits(each, self.schemas[name]) for each in rest]
            again = list(compress(rest, is_again))
            rest = list(compress(rest, (not one for one in is_again)))
            column = sorted([source, *again], key=lambda piece: piece.start)
            self.listed[name] = [self._number(piece, name) for piece in column]

    def _assign(self, names: Sequence[str], pieces: Sequence[Piece], at_least: float | None) -> dict[str, Piece]:
        """Each parameter gets a number of its own, the nearest pair first, as long as they are `at_least` so near."""
        given: dict[str, Piece] = {}
        while True:
            pairs = [
                (self._near(piece, name) + _year(piece, name), name, piece)
                for name in names
                if name not in given
                for piece in pieces
                if piece not in given.values() and _fits(piece, self.schemas[name])
            ]
            near, name, piece = max(pairs, key=lambda pair: pair[0], default=(0.0, "", None))
            if piece is None or (at_least is not None and near < at_least):
                return given
            if near < 0.05:  # nothing speaks for any of them: in the order of the request
                _, name, piece = pairs[0]
            given[name] = piece
            self.found[name] = [self._number(piece, name)]
            self.taken.add(piece.start)

    def _number(self, piece: Piece, name: str) -> int | float:
        """A number as the parameter takes it: 5% is 0.05 where no percent are asked for, and 2 weeks are 14 days."""
        value: int | float = piece.value
        if piece.kind == "share":
            in_percent = "percent" in f"{self.schemas[name]} {self.tool.get('description')}"
            return value if in_percent or self.schemas[name]["type"] == "integer" else value / 100
        asked = [word for word in words(name) if word in UNITS] or [w for w in self.vocabularies[name] if w in UNITS]
        if (said := self.reading.unit(piece.end)) and len(asked) == 1:
            (kind, factor), (asked_kind, asked_factor) = UNITS[said], UNITS[asked[0]]
            if kind == asked_kind and factor % asked_factor == 0:
                return value * (factor // asked_factor)
        return value

    @cached_property
    def _lists(self) -> dict[int, int]:
        """The lists of numbers: which one a number's token belongs to."""
        groups = self.reading.joined(self.reading.numbers, _AND)
        return {piece.start: i for i, group in enumerate(groups) for piece in group}

    def _stand_alike(self, piece: Piece, other: Piece) -> bool:
        """Whether two numbers are of one list, or the same word, such as a unit, stands after or before both."""
        if self._lists.get(piece.start, -1) == self._lists.get(other.start):
            return True
        pairs = [(self.reading.word(piece.end), self.reading.word(other.end))]
        pairs.append((self.reading.word(piece.start - 1), self.reading.word(other.start - 1)))
        return any(one == two and one[:1].isalpha() and one.lower() not in STOP_WORDS for one, two in pairs)

    # -- texts --------------------------------------------------------------------------------------------------------

    def _choose_texts(self) -> None:
        """Texts are quotations, names and phrases of the request, each used once; the most fitting pair comes first."""
        names = self._open("string", None)
        pieces = self._text_pieces(names)
        ranked: list[tuple[float, str, Piece]] = []
        for name in names:
            units = self._units() if {"unit", "units"} & set(name.lower().split("_")) else []
            if units:
                self.found[name] = units
                continue
            least = 0.0 if name in self.needed else SUITS_OPTIONAL
            ranked += [(fit, name, piece) for piece in pieces if (fit := self._fitness(piece, name)) >= least]
        ranked.sort(key=lambda each: -each[0])
        chosen: dict[str, Piece] = {}
        for fit, name, piece in ranked:
            if name in self.found or piece.overlaps(self.taken):
                continue
            near = [p for f, n, p in ranked if n == name and f > fit - MARGIN and not p.overlaps(self.taken)]
            self.found[name] = list(dict.fromkeys(each.value for each in near))[:MAX_CHOICES]
            chosen[name] = piece
            self.taken |= set(range(piece.start, piece.end))
        self._repeat_texts(chosen, pieces)
        self._put_in_order([name for name in names if name in chosen])
        for name in self._open("array"):
            if _kind(self.schemas[name].get("items")) in ("string", None):
                self._choose_text_list(name, self._free(pieces))

    def _text_pieces(self, names: Sequence[str]) -> list[Piece]:
        reading = self.reading
        own = {*COMMON, *words(self.tool["name"]), *(word for name in self.schemas for word in words(name))}
        places = {
            tuple(word for word in words(name) if word not in _ENDS) for name in names if _PLACES & set(words(name))
        }
        pieces = [*reading.quoted, *reading.dates, *reading.codes]
        pieces += [] if len(places) > 1 else reading.places  # else a city and its country are two arguments
        pieces += [*reading.names, *reading.phrases(own)]
        pieces += [reading.span(number.start, number.end, "number") for number in reading.numbers]
        if not reading.quoted and any(_FREE_TEXT & set(words(name)) for name in names):
            pieces += reading.clauses(own, self.taken)
        return pieces

    def _units(self) -> list[str]:
        """The words after numbers."""
        after = [self.reading.word(number.end) for number in self.reading.numbers]
        return list(dict.fromkeys(word for word in after if word[:1].isalpha() and word.lower() not in STOP_WORDS))

    def _fitness(self, piece: Piece, name: str) -> float:
        """How well a piece suits a text parameter. The figures are tuned on requests, see `benchmarks/embedded.py`."""
        near, asks = self._near(piece, name), set(words(name))
        is_place, is_free = bool(asks & _PLACES), bool(asks & _FREE_TEXT)
        match piece.kind:
            case "date":
                return 3.0 if "date" in name.lower() or "day" in asks else -1.0
            case "number":
                return 1.5 + near + _year(piece, name) if asks & _COUNTED else -1.0
            case "quoted":
                return near + (2.8 if is_free else 1.7)
            case "code":
                return near + (2.2 if asks & _CODES else 1.0)
            case "clause":
                return near + 1.0 if is_free else -1.0
            case "name":
                text, before = str(piece.value), self.reading.word(piece.start - 1).lower()
                before = self.reading.word(piece.start - 2).lower() if before == "the" else before
                near += 0.5 * (text in str(self.schemas[name].get("description")))  # an example
                near += 0.6 * bool(asks & set(words(text)))
                near += 1.0 * bool(asks & _IDS and re.search(r"\d", text))
                near += 0.4 * ("," in text)
                if before in _PLACE_LINKS:
                    return near + (2.2 if is_place else 0.9)
                return near + (0.7 if is_place else 1.2)
        return near + (0.2 if is_place else 0.8) - 0.05 * len(str(piece.value).split())

    def _repeat_texts(self, chosen: Mapping[str, Piece], pieces: Sequence[Piece]) -> None:
        """Texts that the request lists with "and", or as many as the calls that its numbers ask for."""
        for name, piece in chosen.items():
            alike = [each for each in pieces if each.kind == piece.kind]
            group = next((g for g in self.reading.joined(alike, _AND) if piece in g), [piece])
            links = {word for pair in pairwise(group) for word in self.reading.between(*pair)}
            is_list = piece.kind != "part" and "and" in links and "or" not in links
            if is_list and not any(other in group for key, other in chosen.items() if key != name):
                self.listed[name] = [each.value for each in group]
        count = max(map(len, self.listed.values()), default=1)
        for name, piece in chosen.items():
            mine = [key for key, other in chosen.items() if other.kind == piece.kind]
            alike = sorted({p.start: p for p in pieces if p.kind == piece.kind}.values(), key=lambda p: p.start)
            is_shared = name in self.listed or piece.kind not in ("quoted", "name", "date")
            if not is_shared and count > 1 and len(alike) == count * len(mine):
                self.listed[name] = [each.value for each in alike[mine.index(name) :: len(mine)]]

    def _put_in_order(self, names: Sequence[str]) -> None:
        """Parameters that differ by a number, or by words like "start" and "end", get their values as they are said."""
        alike: dict[tuple[str, ...], list[str]] = {}
        for name in names:
            key = tuple(word for word in words(re.sub(r"\d", "", name)) if word not in _ENDS)
            alike.setdefault(key, []).append(name)
        for group in alike.values():
            values = sorted((self.found[name] for name in group), key=lambda each: self.reading.text.find(str(each[0])))
            self.found.update(zip(group, values, strict=True))

    def _choose_text_list(self, name: str, free: Sequence[Piece]) -> None:
        """A list is all quotations, else what commas and "and" join: the longest and nearest first."""
        if quoted := [piece.value for piece in free if piece.kind == "quoted"]:
            self.found[name] = [quoted]
            return
        pieces = [piece for piece in free if piece.kind != "number" and "," not in str(piece.value)]
        if name not in self.needed and not any(self._near(piece, name) > 0.5 for piece in pieces):
            return
        widest = {piece.start: piece for piece in sorted(pieces, key=lambda each: each.end)}

        def fitness(group: Sequence[Piece]) -> float:
            near = max(self._near(piece, name) for piece in group)
            return near + 0.7 * min(len(group), 3) + 0.3 * (group[0].kind == "name")

        groups = sorted(self.reading.joined(list(widest.values()), _AND), key=fitness, reverse=True)
        self.found[name] = [[piece.value for piece in group] for group in groups][:MAX_CHOICES]


def _vocabulary(name: str, schema: Schema) -> dict[str, float]:
    """The words of a parameter: those of its name weigh twice those of its description."""
    about = dict.fromkeys(words(str(schema.get("description") or "")), 1.0)
    return {**about, **dict.fromkeys(words(name) or [stem(name)], 2.0)}


def _speaks(word: str, own: Set[str]) -> bool:
    """Whether a stem is one of these, or begins like one."""
    return word in own or any(
        len(short := min(word, each, key=len)) >= 4 and each[: len(short)] == word[: len(short)] for each in own
    )


def _kind(schema: Schema | None) -> Any:
    return (schema or {}).get("type")


def _fits(piece: Piece, schema: Schema) -> bool:
    is_whole = isinstance(piece.value, int) and (piece.kind != "share" or "percent" in str(schema))
    return schema.get("type") == "number" or is_whole


def _year(piece: Piece, name: str) -> float:
    """How much it speaks for or against a number that it is a year."""
    is_year = re.fullmatch(r"1[89]\d\d|20\d\d", str(piece.value)) is not None
    return (1.0 if is_year else -0.3) if "year" in name.lower().split("_") else -0.3 * is_year
