"""Reading a request by rules, for models too small to call tools alone: which tool it means, and with which values.

Nothing here asks the model. `choose_tool` picks a tool by the words it shares with the request. `narrow` reduces the
tool's JSON schema to what the request can mean: a string is a span of the request, a number is one of its numbers, an
enum keeps the values that share a word with it. `signature` shows a tool as a Python `def`. The rules are for English.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

Schema = Mapping[str, Any]
Tool = Mapping[str, Any]

#: The score from which a tool is called. A request that shares only one common word with it stays below.
THRESHOLD = 1.0
#: A string argument has at most this many words, or runs to the end of its clause, if that is near.
LONGEST_SPAN, LONGEST_REST = 4, 60

STOP_WORDS = frozenset(
    str.split(
        "a about all an and any are as at be by can could did do does for from get give had has have how i if in into "
        "is it its list me my need of on one or our please show some tell text than that the their them then there "
        "these they this those to us value want was we were what when where which who why will with would you your"
    )
)
#: Everyday words for the same thing, each mapped to the first of its group.
_SYNONYMS = {
    word: group.split()[0]
    for group in (
        "mean average typical",
        "sum total add altogether",
        "count many",
        "find search look",
        "plot draw chart graph",
        "maximum max largest highest biggest most",
        "minimum min smallest lowest least",
        "deviation deviate",
        "stock share",
        "mail email",
        "sell sale sold",
    )
    for word in group.split()
}
_ENDINGS = {"ies": "y", "sses": "ss", "xes": "x", "ches": "ch", "ing": "", "ed": "", "es": "e", "s": ""}
#: Longer digits are not a number that a tool could take.
_NUMBER = re.compile(r"(?<![\w.-])-?\d{1,40}(?:\.\d{1,40})?(?!\w|[.-]\d)")
#: No quotation holds its own opening mark: from each of many that are never closed, all of the rest would be searched.
_QUOTED = re.compile(
    r"\"([^\"]+)\"|(?<!\w)'([^']+)'(?!\w)|[“„]([^”“„]+)[”“]|‘([^‘’]+)’|`([^`]+)`|«\s?([^«»]*[^«»\s])\s?»"
)
_TYPES = {"string": "str", "integer": "int", "number": "float", "boolean": "bool", "array": "list", "object": "dict"}


# -- words, numbers and quotations ------------------------------------------------------------------------------------


def stem(word: str) -> str:
    """A word without its plural, -ed or -ing ending. Everyday synonyms become the same word.

    >>> stem("average"), stem("sales")
    ('mean', 'sell')
    """
    word = word.lower()
    if word in _SYNONYMS:
        return _SYNONYMS[word]
    for ending, rest in _ENDINGS.items():
        if word.endswith(ending) and len(word) - len(ending) >= 3 and not word.endswith(("ss", "us", "is")):
            word = word[: len(word) - len(ending)] + rest
            break
    word = word.rstrip("e") if len(word) > 4 else word
    return _SYNONYMS.get(word, word)


#: Words that join the parts of a request: no argument begins or ends with one.
_LINKS = frozenset(str.split("and at by for from in into of on or per to with"))
#: Parameters with such a word in their name get what is quoted before others do.
_FREE_TEXT = frozenset(
    map(
        stem,
        str.split(
            "body comment content description label message note pattern phrase prompt query question sentence subject "
            "text title word"
        ),
    )
)
#: Words that introduce a name, as in "a timer called tea".
_NAMING = frozenset(map(stem, str.split("called named titled labelled labeled")))


def words(text: str) -> list[str]:
    """The stemmed words of a text in order, without stop words; `snake_case` and `camelCase` are split."""
    found = re.findall(r"[^\W\d_]+", re.sub(r"(?<=[a-z])(?=[A-Z])|_", " ", text))
    return [stem(word) for word in found if word.lower() not in STOP_WORDS]


def numbers(text: str) -> list[int | float]:
    """The numbers of a text; `1,000` is one."""
    return [_number(found) for found in _NUMBER.findall(re.sub(r"(?<=\d),(?=\d{3}(?:\D|$))", "", text))]


def _number(text: str) -> int | float:
    return float(text) if "." in text else int(text)


def number_lists(text: str) -> list[list[int | float]]:
    """The lists of numbers in a text: numbers with only commas, spaces, brackets, "and" or "or" between them."""
    lists: list[list[int | float]] = []
    end = 0
    for match in _NUMBER.finditer(text):
        if not lists or not re.fullmatch(r"(?:[\s,;&\[\]()]|\band\b|\bor\b)*", text[end : match.start()]):
            lists.append([])
        lists[-1].append(_number(match[0]))
        end = match.end()
    return lists


def quotations(request: str) -> list[str]:
    """The quoted parts of the request."""
    return [next(filter(None, groups)) for groups in _QUOTED.findall(request)]


def unquoted(request: str) -> str:
    """The request without its quotations: what is quoted is a value, not a description of the task."""
    return _QUOTED.sub(" , ", request)


def spans(text: str) -> list[str]:
    """What a string argument can be: a few words in a row, or everything from a word to the end of its clause."""
    found: list[str] = []
    for clause in re.split(r"[,?!;:()\[\]\"]+|\.(?:\s|$)", text):
        tokens = [token.strip("'") for token in clause.split()]
        count = len(tokens)
        near = [(i, j) for i in range(count) for j in range(i + 1, min(i + LONGEST_SPAN, count) + 1)]
        ends = sorted({*near, *((i, count) for i in range(max(0, count - LONGEST_REST), count))})
        found += [" ".join(tokens[i:j]) for i, j in ends if not _LINKS & {tokens[i].lower(), tokens[j - 1].lower()}]
    return list(dict.fromkeys(filter(None, found)))


def matching_values(values: Sequence[Any], request: str) -> list[Any]:
    """The values of an enum that the request names, else those that share the most words with it."""
    named = [v for v in values if re.search(rf"(?<!\w){re.escape(str(v))}(?!\w)", request, re.IGNORECASE)]
    if named:
        return named
    in_request = set(words(request))
    shared = [len(in_request & set(words(str(value)))) for value in values]
    most = max(shared, default=0)
    return [value for value, count in zip(values, shared, strict=True) if most and count == most]


# -- schemas ----------------------------------------------------------------------------------------------------------


def parameter_schemas(tool: Tool) -> dict[str, dict[str, Any]]:
    """The schemas of a tool's parameters by name, references resolved."""
    root = tool.get("parameters") or {}
    schemas = {name: _resolved(schema, root) for name, schema in (root.get("properties") or {}).items()}
    for schema in schemas.values():
        if isinstance(schema.get("items"), dict):
            schema["items"] = _resolved(schema["items"], root)
    return schemas


def _resolved(schema: Schema, root: Schema) -> dict[str, Any]:
    """A schema without `$ref`, and with "this or null" as "this": it describes a value that is given."""
    schema = dict(schema)
    if ref := schema.pop("$ref", None):
        target: Any = root
        for part in str(ref).removeprefix("#/").split("/"):
            target = target.get(part, {})
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


def _required(tool: Tool) -> list[str]:
    return list((tool.get("parameters") or {}).get("required") or [])


def _is_number(schema: Schema) -> bool:
    return schema.get("type") in ("integer", "number")


def _is_number_list(schema: Schema) -> bool:
    return schema.get("type") == "array" and _is_number(schema.get("items") or {})


# -- which tool -------------------------------------------------------------------------------------------------------


def choose_tool(request: str, tools: Sequence[Tool]) -> Tool | None:
    """The tool that the request means, or None if none shares enough words with it or could be filled from it."""
    vocabularies = [_vocabulary(tool) for tool in tools]
    tools_with = Counter(word for vocabulary in vocabularies for word in vocabulary)
    in_request = sorted(set(words(unquoted(request))))
    best, best_score = None, 0.0
    for tool, vocabulary in zip(tools, vocabularies, strict=True):
        score = sum(
            vocabulary[word] * (1 + math.log(len(tools) / tools_with[word]) / 2)
            for word in in_request
            if word in vocabulary
        )
        if score > best_score and _can_be_filled(tool, request):
            best, best_score = tool, score
    return best if best_score >= THRESHOLD else None


def _vocabulary(tool: Tool) -> dict[str, float]:
    """The words of a tool by weight: its name weighs most, then the values it takes, then its descriptions."""
    texts: list[tuple[str, float]] = [(str(tool.get("description") or ""), 0.6), (str(tool["name"]), 1.0)]
    for name, schema in parameter_schemas(tool).items():
        texts.append((f"{name} {schema.get('description') or ''}", 0.5))
        texts += [(str(value), 0.8) for value in schema.get("enum") or ()]
    weights: dict[str, float] = {}
    for text, weight in texts:
        for word in words(text):
            weights[word] = max(weight, weights.get(word, 0.0))
    return weights


def _can_be_filled(tool: Tool, request: str) -> bool:
    """Whether the request holds something for each required argument: a number, an enum's value, its own words."""
    schemas = parameter_schemas(tool)
    needed = [schemas.get(name, {}) for name in _required(tool)]
    for values, count in Counter(json.dumps(schema["enum"]) for schema in needed if "enum" in schema).items():
        if len(matching_values(json.loads(values), request)) < count:
            return False
    # words and numbers that are not the tool's own, of which string arguments can be made
    own_words = {*words(request), *re.findall(r"\d+", request)} - set(_vocabulary(tool))
    for schema in needed:
        if "enum" in schema:
            continue
        if _is_number(schema) or _is_number_list(schema):
            if not numbers(request):
                return False
        elif schema.get("type") in ("string", "array") and not (quotations(request) or own_words):
            return False
    return True


# -- which values -----------------------------------------------------------------------------------------------------


def narrow(request: str, tool: Tool) -> dict[str, Any]:
    """The tool's parameters with only those values that the request can mean.

    Parameters that the request says something about become required; others are left out unless they are required. No
    two parameters get the same piece of the request.
    """
    schemas, needed = parameter_schemas(tool), _required(tool)
    narrowed: dict[str, dict[str, Any]] = {}
    for name, schema in schemas.items():
        if "enum" in schema:
            narrowed[name] = {"enum": matching_values(schema["enum"], request)}
        elif schema.get("type") == "boolean":
            narrowed[name] = {"type": "boolean"} if set(words(name)) & set(words(request)) else {}
    _assign_choices(request, narrowed)
    _assign_numbers(request, schemas, needed, narrowed)
    _assign_texts(request, tool, schemas, needed, narrowed)
    properties: dict[str, dict[str, Any]] = {}
    for name, schema in schemas.items():
        if narrowed.get(name) and narrowed[name].get("enum") != []:
            properties[name] = narrowed[name]
        elif name in needed:
            unused = ("title", "description", "default", "examples")
            properties[name] = {key: value for key, value in schema.items() if key not in unused}
    whole = {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}
    definitions = (tool.get("parameters") or {}).get("$defs")
    return {**whole, "$defs": definitions} if definitions else whole


def _assign_choices(request: str, narrowed: dict[str, dict[str, Any]]) -> None:
    """Parameters that could take the same values get them in the order of the request; the value after "from" first."""

    def position(value: Any) -> tuple[int, int]:
        found = re.search(rf"(\w+)?\W*\b{re.escape(str(value))}\b", request, re.IGNORECASE)
        if found is None:
            return 1, len(request)
        return {"from": 0, "to": 2, "into": 2}.get((found[1] or "").lower(), 1), found.start()

    names_by_values: dict[str, list[str]] = {}
    for name, schema in narrowed.items():
        if len(schema.get("enum", ())) > 1:
            names_by_values.setdefault(json.dumps(sorted(map(str, schema["enum"]))), []).append(name)
    for names in names_by_values.values():
        values = sorted(narrowed[names[0]]["enum"], key=position)
        if len(names) == len(values):
            for name, value in zip(names, values, strict=True):
                narrowed[name] = {"enum": [value]}


def _assign_numbers(
    request: str, schemas: dict[str, dict[str, Any]], needed: Sequence[str], narrowed: dict[str, dict[str, Any]]
) -> None:
    """Lists get whole lists of numbers; single parameters get the rest, required ones before optional ones."""
    text = unquoted(request)
    for name, schema in schemas.items():
        if _is_number_list(schema):
            lists = [found for found in number_lists(text) if _fit(found, schema["items"])]
            longest = max(map(len, lists), default=0)
            narrowed[name] = {"enum": [found for found in lists if len(found) == longest]}
            text = "" if lists else text
    found = numbers(text)
    singles = [name for name, schema in schemas.items() if _is_number(schema) and "enum" not in schema]
    wanted = [name for name in singles if name in needed]
    spare = [name for name in singles if name not in needed]
    spare.sort(key=lambda name: not set(words(name)) & set(words(request)))  # those that the request names come first
    wanted += spare[: max(0, len(found) - len(wanted))]
    for name in wanted:
        narrowed[name] = {"enum": [n for n in found if _fit([n], schemas[name])]}
    if len(wanted) == len(found) and all(_fit([n], schemas[m]) for n, m in zip(found, singles, strict=False)):
        for name, number in zip([m for m in singles if m in wanted], found, strict=True):
            narrowed[name] = {"enum": [number]}


def _fit(values: Sequence[int | float], schema: Schema) -> bool:
    return schema.get("type") == "number" or all(isinstance(value, int) for value in values)


def _assign_texts(
    request: str,
    tool: Tool,
    schemas: dict[str, dict[str, Any]],
    needed: Sequence[str],
    narrowed: dict[str, dict[str, Any]],
) -> None:
    """Parameters that are free text get the quotations; the others get spans of the rest."""
    quoted, in_request = quotations(request), set(words(request))
    texts = [name for name, schema in schemas.items() if schema.get("type") == "string" and "enum" not in schema]
    names_something = bool(in_request & _NAMING) or len(quoted) > sum(name in needed for name in texts)
    texts = [name for name in texts if name in needed or set(words(name)) & in_request or names_something]
    free = [name for name in texts if {stem(part) for part in name.lower().split("_")} & _FREE_TEXT] or texts
    rest = unquoted(request)
    for schema in narrowed.values():  # a value that another parameter got is not part of a span
        if len(schema.get("enum", ())) == 1 and isinstance(schema["enum"][0], (str, int, float)):
            rest = re.sub(rf"(?<!\w){re.escape(str(schema['enum'][0]))}(?!\w)", " , ", rest, flags=re.IGNORECASE)
    rest_spans = spans(rest)
    for name in texts:
        if quoted and (name in free or len(quoted) >= len(texts)):
            narrowed[name] = {"enum": quoted}
        elif rest_spans:
            narrowed[name] = {"enum": rest_spans}
    for name, schema in schemas.items():
        if schema.get("type") == "array" and not _is_number_list(schema):
            narrowed[name] = _narrowed_list(request, tool, schema.get("items") or {})


def _narrowed_list(request: str, tool: Tool, items: Schema) -> dict[str, Any]:
    if "enum" in items:
        values = [value for value in items["enum"] if set(words(str(value))) & set(words(request))]
        return {"enum": [values] if values else []}
    if items.get("type", "string") != "string":
        return {}
    if quoted := quotations(request):
        return {"enum": [quoted]}
    return {"enum": _text_lists(request, set(_vocabulary(tool)))}


def _text_lists(request: str, own: set[str]) -> list[list[str]]:
    """The lists that "a b, c and d e" can mean: inner parts are whole, outer ones end somewhere in their first words.

    `own` are words of the tool, with which no item begins.
    """
    clauses = re.split(r"\s*,\s*(?:and\s+|or\s+)?|\s+(?:and|or|&)\s+", request.strip(" .!?"))
    parts = [clause.split() for clause in clauses if clause.strip()]
    if len(parts) < 2:
        return [[span] for span in spans(request)]
    first, last = parts[0], parts[-1]
    heads = [first[-n:] for n in range(1, min(LONGEST_SPAN, len(first)) + 1)]
    tails = [last[:n] for n in range(1, min(LONGEST_SPAN, len(last)) + 1)]
    inner = [" ".join(part) for part in parts[1:-1]]
    fitting = [head for head in heads if not any(w.lower() in STOP_WORDS or stem(w) in own for w in head)] or heads[:1]
    return [[" ".join(head), *inner, " ".join(tail)] for head in fitting for tail in tails]


# -- how a tool is shown ----------------------------------------------------------------------------------------------


def signature(tool: Tool, names: Sequence[str]) -> str:
    """A tool as a Python `def` with its docstring, and with the parameters of these names."""
    needed, schemas = _required(tool), parameter_schemas(tool)
    parts = [f"{name}: {_annotation(schemas[name])}" + ("" if name in needed else " = None") for name in names]
    summary = str(tool.get("description") or "").strip().split("\n")[0]
    return f'def {tool["name"]}({", ".join(parts)}):\n    """{summary}"""\n'


def _annotation(schema: Schema) -> str:
    kind = schema.get("type")
    if "enum" in schema:
        return f"Literal[{', '.join(map(repr, schema['enum']))}]"
    if kind == "array":
        return f"list[{_annotation(schema.get('items') or {'type': 'string'})}]"
    return _TYPES.get(kind, "str") if isinstance(kind, str) else "str"
