"""Interprets a provider's 400 error: the model refuses a field, or a tool is invalid.

The parameters that models accept change faster than any table could. If a model refuses one of them, the request is
sent again without it, and the provider object omits it from then on. Fields that decide what a request means (messages,
tools, formats, limits, whether it may be stored) are never omitted. Refused images are replaced by descriptions, and a
conversation that the server can't read is converted. A refused tool is omitted; otherwise every prompt would fail.
"""

from __future__ import annotations

import hashlib
import json
import logging
import re
from collections.abc import Mapping
from typing import Any

from nbagent.core.events import Retry
from nbagent.core.model_request import Functions
from nbagent.errors import BadRequestError, ImageInputError, ProviderError
from nbagent.providers.tool_names import fitting_name

log = logging.getLogger("nbagent")

#: A body's refused fields, each with its new name, or None if it is omitted. Nested fields have a dot.
Changes = Mapping[str, str | None]

#: The fields that can be omitted. Gemini's are in `generationConfig`.
TUNABLES = (
    *str.split("temperature top_p top_k min_p frequency_penalty presence_penalty repetition_penalty seed"),
    *str.split("logprobs top_logprobs stream_options parallel_tool_calls tool_stream include reasoning"),
    *str.split("reasoning_effort reasoning.summary text.verbosity verbosity enable_thinking thinking_budget"),
    *str.split("thinking thinking.display thinking.block_binding output_config output_config.effort"),
    *str.split("chat_template_kwargs service_tier prompt_cache_key prompt_cache_retention metadata user"),
    *(
        f"generationConfig.{name}"
        for name in str.split("temperature topP topK frequencyPenalty presencePenalty seed thinkingConfig logprobs")
    ),
)
#: The fields that are sent under another name instead.
RENAMED = {"max_tokens": "max_completion_tokens", "max_completion_tokens": "max_tokens"}

#: The names in `Changes` that are not fields.
IMAGES, ROLES, CALLS = "images", "messages whose roles do not alternate", "calls without tools"
#: What replaces each of them.
INSTEAD = {
    IMAGES: "short descriptions",
    ROLES: "short messages between them",
    CALLS: "the tools' names and tool_choice='none'",
}
#: Errors of servers that can't read a conversation: Mistral's and Gemma's templates, Mistral's API; LiteLLM, Bedrock.
_UNREADABLE = {
    ROLES: re.compile(r"roles must alternate|unexpected role '?(?:user|assistant)\b", re.IGNORECASE),
    CALLS: re.compile(r"without `tools=` param|toolConfig field must be defined|must define tools", re.IGNORECASE),
}
#: Images in the bodies of the four formats.
_IMAGE = re.compile(rb'"(?:image_url|input_image|inlineData|fileData)"|"type":"image"')
#: Errors about a field as such. A value out of range is for the user to correct.
_REFUSED = re.compile(
    r"un(?:supported|known|recogni[sz]ed|expected)"
    r"|not (?:be )?(?:supported|permitted|allowed|enabled|recogni[sz]ed|used)"
    r"|does ?n[o']t support|extra[_ ](?:inputs|forbidden)|extra fields|deprecated"
    r"|cannot (?:both )?be (?:specified|set|used|combined|enabled|provided)|only the default"
    r"|cannot find field|use '?max_(?:completion_)?tokens|must be verified to generate reasoning",
    re.IGNORECASE,
)
#: Errors about a message, whatever field they name: "`thinking` blocks … cannot be modified".
_OF_MESSAGE = re.compile(r"\bmessages[.\[]\d")
_OUT_OF_RANGE = re.compile(
    r"maximum|minimum|too (?:large|small|high|low|big)|at (?:most|least)|range|[<>]", re.IGNORECASE
)
#: The prefix of a change that omits a tool, and the fields that need tools.
_TOOL = "tool "
_WITH_TOOLS = ("tools", "tool_choice", "toolConfig", "parallel_tool_calls", "tool_stream")
_NAMED_TOOL = re.compile(r"invalid schema for function '([^']+)'", re.IGNORECASE)
#: Only schema, name and type are part of a tool: `tools.0.cache_control` is about the request.
_NUMBERED_TOOL = re.compile(
    r"\btools[.\[](\d+)\]?(?:\.function_?declarations[.\[](\d+)\]?)?"
    r"(?:\.(?:custom|function))?\.(?:input_?schema|parameters|(?:name|type)\b)",
    re.IGNORECASE,
)


def refused_field(error: Exception | None, body: bytes | None, changed: Changes) -> dict[str, str | None]:
    """The change to make to a refused body; empty if the error suggests none.

    >>> error = BadRequestError("Unsupported parameter: 'top_p' is not supported with this model.", status=400)
    >>> refused_field(error, b'{"model":"m1","top_p":0.9,"messages":[]}', {})
    {'top_p': None}
    """
    if isinstance(error, ImageInputError) and body and IMAGES not in changed and _IMAGE.search(body):
        return {IMAGES: None}
    if not isinstance(error, ProviderError) or not body:
        return {}
    text = error.message
    for name, words in _UNREADABLE.items():  # some servers send 500
        if words.search(text):
            return {} if name in changed else {name: None}
    if type(error) is not BadRequestError or error.status not in (400, 422):
        return {}
    if _OF_MESSAGE.search(text):
        return {}
    sent = json.loads(body)
    if tool := _refused_tool(text, sent):  # before `_OUT_OF_RANGE`: Gemini states a name's maximum length
        return {tool: None}
    if not _REFUSED.search(text) or _OUT_OF_RANGE.search(text):
        return {}
    for name, other in RENAMED.items():
        if name in sent and _first_named(text, name, other) and other not in changed:
            return {name: other}
    named = [name for name in TUNABLES if _holds(sent, name) and _position(text, name) >= 0]
    inner = [name for name in named if any(name.startswith(f"{outer}.") for outer in named)]
    named = inner or named  # the nested field, if both are named
    return {min(named, key=lambda name: _position(text, name)): None} if named else {}


def changed_head(head: dict[str, Any], changes: Changes) -> dict[str, Any]:
    """The body's fields after the changes.

    >>> changed_head({"max_tokens": 9, "text": {"verbosity": "low"}}, {"text.verbosity": None, "max_tokens": "limit"})
    {'limit': 9}
    """
    if head.get("tools") and any(map(tool_of, changes)):
        head = _without_tools(head, changes)
    for path, new_name in changes.items():
        name, _, inner = path.partition(".")
        if not _holds(head, path):
            continue
        value = head.pop(name)
        if new_name:
            head[new_name] = value
        elif inner and (rest := {key: item for key, item in value.items() if key != inner}):
            head[name] = rest
    return head


def tool_of(change: str) -> str:
    """The name, as sent, of the tool that a change omits; empty for other changes.

    >>> tool_of("tool add 1a2b3c4d"), tool_of("temperature")
    ('add', '')
    """
    return change.split(" ")[1] if change.startswith(_TOOL) else ""


def refusal_event(refused: Changes, error: Exception, functions: Functions | None) -> Retry:
    """The event that reports that a request is sent again without a field, with a renamed field, or without a tool."""
    ((name, other),) = refused.items()
    details = {"attempt": 1, "wait_s": 0.0, "discard_chars": 0, "error": "BadRequestError"}
    if sent := tool_of(name):
        tool = next((item["name"] for item in functions or () if fitting_name(item["name"]) == sent), sent)
        text = f"The tool {tool!r} is omitted, since the provider refuses it: {error}"
        log.warning("%s", text)
        return Retry(text, metadata={**details, "refused": f"{_TOOL}{tool}", "instead": None})
    instead = other or INSTEAD.get(name, "the default")
    text = f"This model does not accept {name}. Trying again with {instead}."
    return Retry(text, metadata={**details, "refused": name, "instead": other})


def _refused_tool(text: str, sent: Mapping[str, Any]) -> str | None:
    """The change that omits the function that an error names or numbers; None if there is none."""
    functions = [item for tool in sent.get("tools") or () for item in tool.get("functionDeclarations", [tool])]
    named, counted = _NAMED_TOOL.search(text), _NUMBERED_TOOL.search(text)
    number = int(counted[2] or counted[1]) if counted else -1
    for index, function in enumerate(functions):
        change = _omission(function)
        if change and (index == number or (named and named[1] == tool_of(change))):
            return change
    return None


def _omission(tool: Mapping[str, Any]) -> str:
    """The change that omits a function until it is redefined; empty for the provider's own tools."""
    function = {key: value for key, value in tool.get("function", tool).items() if key != "cache_control"}
    if "name" not in function or tool.get("type", "function") != "function":
        return ""
    digest = hashlib.sha256(json.dumps(function, sort_keys=True).encode()).hexdigest()[:8]
    return f"{_TOOL}{function['name']} {digest}"


def _without_tools(head: dict[str, Any], changes: Changes) -> dict[str, Any]:
    """The head without the omitted tools and any choice of one. If no tools are left, it has no tool fields."""
    kept: list[Mapping[str, Any]] = []
    omitted: set[str] = set()
    for tool in head["tools"]:
        functions = tool.get("functionDeclarations", [tool])
        declared = [item for item in functions if _omission(item) not in changes]
        omitted |= {tool_of(_omission(item)) for item in functions if item not in declared}
        if declared:
            kept.append({**tool, "functionDeclarations": declared} if "functionDeclarations" in tool else tool)
    if not kept:
        return {key: value for key, value in head.items() if key not in _WITH_TOOLS}
    head = {**head, "tools": kept}
    choice, config = head.get("tool_choice"), head.get("toolConfig") or {}
    if isinstance(choice, Mapping) and choice.get("function", choice).get("name") in omitted:
        del head["tool_choice"]
    if omitted & {*config.get("functionCallingConfig", {}).get("allowedFunctionNames", ())}:
        head["toolConfig"] = {key: value for key, value in config.items() if key != "functionCallingConfig"}
    return head


def _holds(body: Mapping[str, Any], path: str) -> bool:
    name, _, inner = path.partition(".")
    return name in body and (not inner or (isinstance(body[name], dict) and inner in body[name]))


def _position(text: str, path: str) -> int:
    """Where a text names a field, in the body's spelling or in snake case; -1 if it does not."""
    name = path.rpartition(".")[2].replace("summary", "summar(?:y|ies)")
    snake = re.sub(r"(?<=[a-z])([A-Z])", r"_\1", name)
    found = re.search(rf"(?<!\w)(?:{name}|{snake})(?!\w)", text, re.IGNORECASE)
    return found.start() if found else -1


def _first_named(text: str, name: str, other: str) -> bool:
    """Whether the text refuses `name`, rather than recommending it instead of `other`."""
    here, there = _position(text, name), _position(text, other)
    return here >= 0 and (there < 0 or here < there)
