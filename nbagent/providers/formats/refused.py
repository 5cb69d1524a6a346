"""What a vendor's 400 says about the request: that the model does not take a field, or that a tool is wrong.

Which model takes which tuning parameter changes faster than any table. So if a request is refused for one of them, it
is sent again without it, and the provider remembers that. Fields that decide what a request means (messages, tools,
formats, limits, whether it may be stored) are never left out. Refused images are replaced by descriptions, and a
conversation that the server can't read is put into a form that it can.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from nbagent.errors import BadRequestError, ImageInputError, ProviderError

#: The refused fields of a body, each with its new name, or None if it is left out. A field in a field is written with a
#: dot.
Changes = Mapping[str, str | None]

#: The fields that can be left out. Gemini's are in `generationConfig`.
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
#: The fields that are sent under their other name instead.
RENAMED = {"max_tokens": "max_completion_tokens", "max_completion_tokens": "max_tokens"}

#: The names among `Changes` of what is no field.
IMAGES, ROLES, CALLS = "images", "messages whose roles do not alternate", "calls without tools"
#: What is sent instead of each.
INSTEAD = {
    IMAGES: "short descriptions",
    ROLES: "short messages between them",
    CALLS: "the tools' names and tool_choice='none'",
}
#: What servers say that can't read a conversation: the templates of Mistral and Gemma, Mistral's API; LiteLLM, Bedrock.
_UNREADABLE = {
    ROLES: re.compile(r"roles must alternate|unexpected role '?(?:user|assistant)\b", re.IGNORECASE),
    CALLS: re.compile(r"expects the .?tools=|toolConfig field must be defined|must define tools", re.IGNORECASE),
}
#: How images look in the bodies of the four formats.
_IMAGE = re.compile(rb'"(?:image_url|input_image|inlineData|fileData)"|"type":"image"')
#: A field is refused as such. A value out of range is for the user to correct.
_REFUSED = re.compile(
    r"un(?:supported|known|recogni[sz]ed|expected)"
    r"|not (?:be )?(?:supported|permitted|allowed|enabled|recogni[sz]ed|used)"
    r"|does ?n[o']t support|extra[_ ](?:inputs|forbidden)|extra fields|deprecated"
    r"|cannot (?:both )?be (?:specified|set|used|combined|enabled|provided)|only the default"
    r"|cannot find field|use '?max_(?:completion_)?tokens|must be verified to generate reasoning",
    re.IGNORECASE,
)
#: What is wrong with a message is no matter of fields, whatever it names: "`thinking` blocks … cannot be modified".
_OF_MESSAGE = re.compile(r"\bmessages[.\[]\d")
_OUT_OF_RANGE = re.compile(
    r"maximum|minimum|too (?:large|small|high|low|big)|at (?:most|least)|range|[<>]", re.IGNORECASE
)
_NUMBERED_TOOL = re.compile(r"\btools[.\[](\d+)\]?(?:\.function_?declarations[.\[](\d+))?", re.IGNORECASE)


def refused_field(error: Exception | None, body: bytes | None, changed: Changes) -> dict[str, str | None]:
    """The change to a body that was refused; empty unless the error names a field of it that may be changed.

    >>> error = BadRequestError("Unsupported parameter: 'top_p' is not supported with this model.", status=400)
    >>> refused_field(error, b'{"model":"m1","top_p":0.9,"messages":[]}', {})
    {'top_p': None}
    """
    if isinstance(error, ImageInputError) and body and IMAGES not in changed and _IMAGE.search(body):
        return {IMAGES: None}
    if not isinstance(error, ProviderError) or not body:
        return {}
    text = error.message
    for name, words in _UNREADABLE.items():  # some servers answer 500
        if words.search(text):
            return {} if name in changed else {name: None}
    if type(error) is not BadRequestError or error.status not in (400, 422):
        return {}
    if not _REFUSED.search(text) or _OUT_OF_RANGE.search(text) or _OF_MESSAGE.search(text):
        return {}
    sent = json.loads(body)
    for name, other in RENAMED.items():
        if name in sent and _first_named(text, name, other) and other not in changed:
            return {name: other}
    named = [name for name in TUNABLES if _holds(sent, name) and _position(text, name) >= 0]
    inner = [name for name in named if any(name.startswith(f"{outer}.") for outer in named)]
    named = inner or named  # the field in a field, if both are named
    return {min(named, key=lambda name: _position(text, name)): None} if named else {}


def changed_head(head: dict[str, Any], changes: Changes) -> dict[str, Any]:
    """The fields of a body with the changes.

    >>> changed_head({"max_tokens": 9, "text": {"verbosity": "low"}}, {"text.verbosity": None, "max_tokens": "limit"})
    {'limit': 9}
    """
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


def tool_named(message: str, functions: Sequence[Mapping[str, Any]] | None) -> str:
    """A refusal that names a tool only by its number, with the tool's name added.

    >>> tool_named("tools.0.custom.input_schema: JSON schema is invalid", [{"name": "add"}])
    "tools.0.custom.input_schema: JSON schema is invalid (tool 'add')"
    """
    found = _NUMBERED_TOOL.search(message)
    number = int(found[2] or found[1]) if found else -1
    if not functions or not 0 <= number < len(functions):
        return message
    return f"{message.rstrip('.')} (tool {functions[number]['name']!r})"


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
