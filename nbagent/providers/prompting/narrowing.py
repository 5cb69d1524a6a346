"""Help for a model too small to call tools alone: which tool a request means, and which values its arguments can have.

Nothing here asks the model. `shortlist` picks a tool by the words it shares with the request; `narrow` reduces the
tool's JSON schema to what the request can mean (a string is a span of the request, a number one of its numbers, an
enum keeps the values that share a word with it); `signature` shows a tool as a Python `def`.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from nbagent.providers.prompting.request_text import (
    FREE_TEXT,
    LONGEST_SPAN,
    NAMING,
    STOP_WORDS,
    enumerations,
    near,
    numbers,
    quoted,
    spans,
    stem,
    unquoted,
    words,
)

Schema = Mapping[str, Any]
Tool = Mapping[str, Any]

#: A tool is called when it reaches this score; a request that shares only one common word with it stays below.
THRESHOLD = 1.0
_TYPES = {"string": "str", "integer": "int", "number": "float", "boolean": "bool", "array": "list", "object": "dict"}


def resolve(schema: Schema, root: Schema) -> dict[str, Any]:
    """A schema without `$ref`, and "this or null" as "this": what is left describes a value that is given."""
    schema = dict(schema)
    if ref := schema.pop("$ref", None):
        target: Any = root
        for part in str(ref).removeprefix("#/").split("/"):
            target = target.get(part, {})
        return resolve({**target, **schema}, root)
    options = schema.get("anyOf") or schema.get("oneOf")
    if options:
        given = [option for option in options if option.get("type") != "null"]
        if len(given) == 1:
            rest = {key: value for key, value in schema.items() if key not in ("anyOf", "oneOf")}
            return resolve({**rest, **given[0]}, root)
    kind = schema.get("type")
    if isinstance(kind, list):
        kinds = [one for one in kind if one != "null"]
        schema["type"] = kinds[0] if len(kinds) == 1 else kinds
    if "const" in schema:
        schema["enum"] = [schema["const"]]
    return schema


def properties(tool: Tool) -> dict[str, dict[str, Any]]:
    """The resolved schemas of a tool's parameters by name."""
    parameters = tool.get("parameters") or {}
    shapes = {name: resolve(schema, parameters) for name, schema in (parameters.get("properties") or {}).items()}
    for schema in shapes.values():
        if isinstance(schema.get("items"), dict):
            schema["items"] = resolve(schema["items"], parameters)
    return shapes


def required(tool: Tool) -> list[str]:
    """The names of the parameters that must be given."""
    return list((tool.get("parameters") or {}).get("required") or [])


# ------------------------------------------------------------------ which tool


def shortlist(request: str, tools: Sequence[Tool]) -> Tool | None:
    """The tool that the request means, or None where none shares enough words with it or could be filled from it."""
    vocabularies = [_vocabulary(tool) for tool in tools]
    spread = Counter(word for vocabulary in vocabularies for word in vocabulary)
    asked = set(words(unquoted(request)))
    best, best_score = None, 0.0
    for tool, vocabulary in zip(tools, vocabularies, strict=True):
        score = sum(
            vocabulary[word] * (1 + math.log(len(tools) / spread[word]) / 2)
            for word in sorted(asked)
            if word in vocabulary
        )
        if score > best_score and fillable(request, tool):
            best, best_score = tool, score
    return best if best_score >= THRESHOLD else None


def _vocabulary(tool: Tool) -> dict[str, float]:
    """The words of a tool with their weight: its name says most, then the values it takes, then what describes it."""
    weights: dict[str, float] = {}
    texts: list[tuple[str, float]] = [(str(tool.get("description") or ""), 0.6)]
    for name, schema in properties(tool).items():
        texts.append((f"{name} {schema.get('description') or ''}", 0.5))
        texts += [(str(value), 0.8) for value in schema.get("enum") or ()]
    texts.append((str(tool["name"]), 1.0))
    for text, weight in texts:
        for word in words(text):
            weights[word] = max(weight, weights.get(word, 0.0))
    return weights


def fillable(request: str, tool: Tool) -> bool:
    """Whether the request holds something for each required argument: a number, an enum's value, words of its own."""
    shapes, left = properties(tool), _free_words(request, tool)
    choices = Counter(json.dumps(shapes[name]["enum"]) for name in required(tool) if "enum" in shapes.get(name, {}))
    if any(len(near(json.loads(values), request)) < count for values, count in choices.items()):
        return False
    for name in required(tool):
        schema = shapes.get(name, {})
        numeric = schema.get("type") in ("integer", "number") or _numeric_items(schema)
        if "enum" in schema:
            continue
        if numeric:
            if not numbers(request):
                return False
        elif schema.get("type") in ("string", "array") and not (quoted(request) or left):
            return False
    return True


def _free_words(request: str, tool: Tool) -> set[str]:
    """The words and numbers of the request that are not the tool's own: what its string arguments can be made of."""
    return {*words(request), *re.findall(r"\d+", request)} - set(_vocabulary(tool))


# ------------------------------------------------------------------ which values


def narrow(request: str, tool: Tool) -> dict[str, Any]:
    """The tool's parameters with only those values that the request can mean.

    What the request has evidence for must be given, what it has none for is left out unless it is required. No two
    parameters are given the same piece of the request.
    """
    shapes, needed = properties(tool), required(tool)
    narrowed: dict[str, dict[str, Any]] = {}
    for name, schema in shapes.items():
        if "enum" in schema:
            narrowed[name] = {"enum": near(schema["enum"], request)}
        elif schema.get("type") == "boolean":
            narrowed[name] = {"type": "boolean"} if set(words(name)) & set(words(request)) else {}
    _share_out_choices(request, narrowed)
    _share_out_numbers(request, shapes, needed, narrowed)
    _share_out_texts(request, tool, shapes, needed, narrowed)
    kept = {name: narrowed.get(name) or {} for name in shapes}
    kept = {name: schema for name, schema in kept.items() if schema and schema.get("enum") != []}
    kept |= {name: _plain_schema(shapes[name]) for name in needed if name in shapes and name not in kept}
    ordered = {name: kept[name] for name in shapes if name in kept}
    whole = {"type": "object", "properties": ordered, "required": list(ordered), "additionalProperties": False}
    definitions = (tool.get("parameters") or {}).get("$defs")
    return {**whole, "$defs": definitions} if definitions else whole


def _plain_schema(schema: Schema) -> dict[str, Any]:
    return {key: value for key, value in schema.items() if key not in ("title", "description", "default", "examples")}


def _share_out_choices(request: str, narrowed: dict[str, dict[str, Any]]) -> None:
    """Parameters that could take the same mentioned values get them in the order of mention; "from X" is first."""
    alike: dict[str, list[str]] = {}
    for name, schema in narrowed.items():
        if len(schema.get("enum", ())) > 1:
            alike.setdefault(json.dumps(sorted(map(str, schema["enum"]))), []).append(name)
    for names in alike.values():
        values = sorted(narrowed[names[0]]["enum"], key=lambda value: _mention(str(value), request))
        if len(names) == len(values):
            for name, value in zip(names, values, strict=True):
                narrowed[name] = {"enum": [value]}


def _mention(value: str, request: str) -> tuple[int, int]:
    """Where a value comes in the order that "from" and "to" give, then in the order of the words."""
    found = re.search(rf"(\w+)?\W*\b{re.escape(value)}\b", request, re.IGNORECASE)
    if found is None:
        return 1, len(request)
    return {"from": 0, "to": 2, "into": 2}.get((found[1] or "").lower(), 1), found.start()


def _share_out_numbers(
    request: str, shapes: dict[str, dict[str, Any]], needed: Sequence[str], narrowed: dict[str, dict[str, Any]]
) -> None:
    """Lists take whole enumerations; single numbers what is left, the required parameters before the optional ones."""
    text = unquoted(request)
    for name, schema in shapes.items():
        if _numeric_items(schema):
            runs = [run for run in enumerations(text) if _fits(run, schema["items"])]
            longest = max(map(len, runs), default=0)
            narrowed[name] = {"enum": [run for run in runs if len(run) == longest]}
            text = "" if runs else text
    found = numbers(text)
    singles = [
        name for name, schema in shapes.items() if schema.get("type") in ("integer", "number") and "enum" not in schema
    ]
    wanted = [name for name in singles if name in needed]
    spare = [name for name in singles if name not in needed]
    named = [name for name in spare if set(words(name)) & set(words(request))]
    optional = [*named, *(name for name in spare if name not in named)][: max(0, len(found) - len(wanted))]
    for name in [*wanted, *optional]:
        narrowed[name] = {"enum": [n for n in found if _fits([n], shapes[name])]}
    if len(wanted) + len(optional) == len(found) and all(
        _fits([n], shapes[m]) for n, m in zip(found, singles, strict=False)
    ):
        for name, number in zip([m for m in singles if m in (*wanted, *optional)], found, strict=True):
            narrowed[name] = {"enum": [number]}


def _fits(values: Sequence[int | float], schema: Schema) -> bool:
    return schema.get("type") == "number" or all(isinstance(value, int) for value in values)


def _share_out_texts(
    request: str,
    tool: Tool,
    shapes: dict[str, dict[str, Any]],
    needed: Sequence[str],
    narrowed: dict[str, dict[str, Any]],
) -> None:
    """Quotations go to the parameters that are free text, spans of the rest to the others."""
    quotations, asked = quoted(request), set(words(request))
    texts = [n for n, s in shapes.items() if s.get("type") == "string" and "enum" not in s]
    required_texts = [name for name in texts if name in needed]
    spoken_of = bool(asked & NAMING) or len(quotations) > len(required_texts)
    texts = [name for name in texts if name in needed or set(words(name)) & asked or spoken_of]
    free = [name for name in texts if {stem(part) for part in name.lower().split("_")} & FREE_TEXT] or texts
    rest = spans(_unclaimed(request, narrowed))
    for name in texts:
        if quotations and (name in free or len(quotations) >= len(texts)):
            narrowed[name] = {"enum": quotations}
        elif rest:
            narrowed[name] = {"enum": rest}
    for name, schema in shapes.items():
        if schema.get("type") == "array" and not _numeric_items(schema):
            narrowed[name] = _narrow_list(request, tool, schema)


def _unclaimed(request: str, narrowed: Mapping[str, Mapping[str, Any]]) -> str:
    """The request without quotations, and broken where another parameter has its one value."""
    text = unquoted(request)
    for schema in narrowed.values():
        if len(schema.get("enum", ())) == 1 and isinstance(schema["enum"][0], (str, int, float)):
            text = re.sub(rf"(?<!\w){re.escape(str(schema['enum'][0]))}(?!\w)", " , ", text, flags=re.IGNORECASE)
    return text


def _narrow_list(request: str, tool: Tool, schema: Schema) -> dict[str, Any]:
    items = schema.get("items") or {}
    if "enum" in items:
        values = [v for v in items["enum"] if {*words(str(v))} & set(words(request))]
        return {"enum": [values] if values else []}
    if items.get("type", "string") != "string":
        return {}
    if found := quoted(request):
        return {"enum": [found]}
    return {"enum": _text_lists(request, set(_vocabulary(tool)))}


def _text_lists(request: str, own: set[str]) -> list[list[str]]:
    """What "a b, c and d e" can list: the inner parts are whole, the outer ones end somewhere in their first words.

    `own` are words of the tool, with which no item begins.
    """
    parts = [
        part.split()
        for part in re.split(r"\s*,\s*(?:and\s+|or\s+)?|\s+(?:and|or|&)\s+", request.strip(" .!?"))
        if part.strip()
    ]
    if len(parts) < 2:
        return [[span] for span in spans(request)]
    first, last = parts[0], parts[-1]
    heads = [first[-n:] for n in range(1, min(LONGEST_SPAN, len(first)) + 1)]
    tails = [last[:n] for n in range(1, min(LONGEST_SPAN, len(last)) + 1)]
    inner = [" ".join(part) for part in parts[1:-1]]
    fitting = [head for head in heads if not any(w.lower() in STOP_WORDS or stem(w) in own for w in head)] or heads[:1]
    return [[" ".join(head), *inner, " ".join(tail)] for head in fitting for tail in tails]


def _numeric_items(schema: Schema) -> bool:
    return schema.get("type") == "array" and (schema.get("items") or {}).get("type") in ("integer", "number")


# ------------------------------------------------------------------ how it is shown


def signature(tool: Tool, shown: Sequence[str]) -> str:
    """A tool as a Python `def` and its docstring, with those parameters that the request may fill."""
    needed, shapes = required(tool), properties(tool)
    parts = [f"{name}: {_annotation(shapes[name])}" + ("" if name in needed else " = None") for name in shown]
    summary = str(tool.get("description") or "").strip().split("\n")[0]
    return f'def {tool["name"]}({", ".join(parts)}):\n    """{summary}"""\n'


def _annotation(schema: Schema) -> str:
    if "enum" in schema:
        return f"Literal[{', '.join(map(repr, schema['enum']))}]"
    if schema.get("type") == "array":
        return f"list[{_annotation(schema.get('items') or {'type': 'string'})}]"
    kind = schema.get("type")
    return _TYPES.get(kind, "str") if isinstance(kind, str) else "str"
