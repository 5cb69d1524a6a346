"""Converts tools and their results to the protocol's types."""

from __future__ import annotations

import dataclasses
import json
import logging
from collections.abc import Iterable, Mapping
from typing import Any

import mcp_types as types
from pydantic import BaseModel

from nbagent.core.messages import Content, well_formed
from nbagent.core.results import ToolOutcome
from nbagent.core.tool_output import IMAGE_TYPES
from nbagent.functions.formatting import table_data
from nbagent.functions.registry import FunctionDefinition

log = logging.getLogger("nbagent")

#: Rows and columns of a data frame in the structured content, and the characters of that content.
MAX_ROWS, MAX_COLUMNS, MAX_STRUCTURED_CHARS = 100, 100, 100_000

_BLOCKS = (types.TextContent, types.ImageContent, types.AudioContent, types.EmbeddedResource, types.ResourceLink)
#: Results in the protocol's own types, which a tool may return.
_RESULTS = (types.CallToolResult, types.InputRequiredResult)


def as_tool(definition: FunctionDefinition) -> types.Tool:
    """Describe a tool to a client."""
    schema = definition.parameters or {"type": "object", "properties": {}}
    return types.Tool(name=definition.name, description=definition.description, input_schema=schema)


def as_result(
    outcome: ToolOutcome, outputs: Iterable[Mapping[str, str]] = ()
) -> types.CallToolResult | types.InputRequiredResult:
    """Convert the outcome of a call. `outputs` are the tool's display outputs; their images follow the returned value.

    If a tool returns content blocks or a whole result from the `mcp` package, the client receives them unchanged.
    """
    value = outcome.value
    if outcome.is_error:
        return types.CallToolResult(content=_blocks(outcome.content), is_error=True)
    if isinstance(value, _RESULTS):
        return value
    own = value if isinstance(value, list) else [value]
    if own and all(isinstance(block, _BLOCKS) for block in own):
        return types.CallToolResult(content=own)
    shown = [
        types.ImageContent(data=part[kind], mime_type=kind) for part in outputs for kind in IMAGE_TYPES if kind in part
    ]
    return types.CallToolResult(content=[*_blocks(outcome.content), *shown], structured_content=_structured(outcome))


def _blocks(content: Content) -> list[types.ContentBlock]:
    if isinstance(content, str):
        return [types.TextContent(text=well_formed(content))]
    return [
        types.ImageContent(data=part["data"], mime_type=part["media_type"])
        if part["type"] == "image"
        else types.TextContent(text=well_formed(part["text"]))
        for part in content
    ]


def _structured(outcome: ToolOutcome) -> dict[str, Any] | None:
    """Data as a JSON object, which clients of all revisions accept, or None for too much data and anything else."""
    value = outcome.value
    is_instance = dataclasses.is_dataclass(value) and not isinstance(value, type)
    try:
        if (table := table_data(value, MAX_ROWS, MAX_COLUMNS)) is not None:
            return _as_json(table)
        is_record = is_instance or isinstance(value, (Mapping, BaseModel))
        return _as_json(value) if is_record and not outcome.truncated else None
    except Exception:  # a value's own code may raise anything; the text describes the value
        log.debug("a %s has no JSON form", type(value).__name__, exc_info=True)
        return None


def _as_json(data: Any) -> dict[str, Any] | None:
    from pydantic_core import to_jsonable_python

    text = well_formed(json.dumps(to_jsonable_python(data), ensure_ascii=False))
    found = json.loads(text, parse_constant=lambda _: None) if len(text) <= MAX_STRUCTURED_CHARS else None
    return found if isinstance(found, dict) else None
