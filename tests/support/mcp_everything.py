"""What MCP's conformance suite expects of a server, as cells of a notebook.

The tools are live tools. Prompts and resources are none of nbagent's: there the official package answers through
nbagent's server, so that the suite also runs what it asks about the transport with them.
"""

import re

TOOLS = """
import asyncio, json
import mcp_types as types
from mcp.shared.exceptions import MCPError
from PIL import Image
from nbagent.core.current import current

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg=="

def resource(uri, text, kind="text/plain"):
    return types.EmbeddedResource(resource=types.TextResourceContents(uri=uri, mime_type=kind, text=text))

@tool
def test_simple_text() -> str:
    "Text."
    return "This is a simple text response for testing."

@tool
def test_image_content() -> Image.Image:
    "A picture."
    return Image.new("RGB", (1, 1))

@tool
def test_embedded_resource() -> types.EmbeddedResource:
    "A resource."
    return resource("test://embedded-resource", "This is an embedded resource content.")

@tool
def test_multiple_content_types() -> list:
    "Several."
    return [
        types.TextContent(text="Multiple content types test:"),
        types.ImageContent(data=PIXEL, mime_type="image/png"),
        resource("test://mixed-content-resource", json.dumps({"test": "data", "value": 123}), "application/json"),
    ]

@tool
def test_error_handling() -> str:
    "Fails."
    raise RuntimeError("This tool intentionally returns an error for testing")

@tool
async def test_logging_tool() -> str:
    "Sends a log message, if the client wants it."
    request = current.get().client_request.context
    await request.session.send_log_message("info", "wanted", related_request_id=request.request_id)
    return "done"

@tool
async def test_tool_with_progress() -> str:
    "Reports progress."
    for done in (0, 50, 100):
        await current.get().client_request.context.session.report_progress(done, 100)
    return "done"

@tool
async def test_missing_capability() -> str:
    "Needs a client that offers sampling."
    capabilities = current.get().client_request.context.session.client_capabilities
    if capabilities is None or capabilities.sampling is None:
        needed = {"requiredCapabilities": {"sampling": {}}}
        raise MCPError(types.MISSING_REQUIRED_CLIENT_CAPABILITY, "the client must offer sampling", needed)
    return "it does"

nbagent.live.register("json_schema_2020_12_tool", "Keeps its schema.", lambda **values: "kept", {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {"address": {"$anchor": "addressDef", "type": "object",
                          "properties": {"street": {"type": "string"}, "city": {"type": "string"}}}},
    "properties": {"name": {"type": "string"}, "address": {"$ref": "#/$defs/address"}, "phone": {"type": "string"},
                   "contactMethod": {"type": "string", "enum": ["phone", "email"]}, "email": {"type": "string"}},
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
    "then": {"required": ["phone"]},
    "else": {"required": ["email"]},
    "additionalProperties": False,
})
nbagent.live.register("test_x_mcp_header", "Has a parameter that is a header, too.", lambda region="": region, {
    "type": "object", "properties": {"region": {"type": "string", "x-mcp-header": "Region"}}})

@tool
def test_trigger_tool_change() -> str:
    "Changes the list of tools."
    if "test_dynamic_tool" in nbagent.live.names():
        nbagent.live.unregister("test_dynamic_tool")
    else:
        nbagent.live.register("test_dynamic_tool", "New.", lambda: None, {"type": "object"})
    return "changed"

@tool
async def test_trigger_prompt_change() -> str:
    "Tells that the prompts have changed."
    from mcp.server.subscriptions import PromptsListChanged
    await serving.tools._bus.publish(PromptsListChanged())
    return "changed"
"""

#: What tools ask of their client: while they run (2025-11-25), or between two calls (2026-07-28).
ASKING = """
def form(name):
    return {"type": "object", "properties": {name: {"type": "string"}}, "required": [name]}

@tool
async def test_elicitation(message: str) -> str:
    "Asks the client's user."
    request = current.get().client_request.context
    answer = await request.session.elicit_form(message, form("username"), request.request_id)
    return f"action={answer.action}, content={json.dumps(answer.content)}"

def asks(state, key, message, name):
    params = types.ElicitRequestFormParams(message=message, requested_schema=form(name))
    return types.InputRequiredResult(input_requests={key: types.ElicitRequest(params=params)}, request_state=state)

def answers():
    params = current.get().client_request.params
    return params.input_responses or {}, params.request_state

@tool
def test_input_required_result_elicitation() -> object:
    "Asks a name."
    given, _ = answers()
    if "user_name" not in given:
        return asks(None, "user_name", "What is your name?", "name")
    return f"Hello, {(given['user_name'].content or {}).get('name')}!"

@tool
async def test_streaming_elicitation() -> object:
    "Reports progress, and asks a name."
    await current.get().client_request.context.session.report_progress(1, 2)
    return asks(None, "user_name", "What is your name?", "name")

@tool
def test_input_required_result_multi_round() -> object:
    "Asks in two rounds, and keeps what it knows with the client."
    given, state = answers()
    if state == "1" and "step1" in given:
        return asks(f"2 {given['step1'].content['name']}", "step2", "Colour?", "color")
    if state and state[0] == "2" and "step2" in given:
        return f"{state[2:]} likes {given['step2'].content['color']}."
    return asks("1", "step1", "What is your name?", "name")

@tool
def test_input_required_result_tampered_state() -> object:
    "Trusts its state only as it was."
    state = answers()[1]
    return f"state-ok: {state}" if state else asks("round-1", "confirm", "Sure?", "ok")
"""

#: A prompt and a resource: those of the official package, through nbagent's server.
OTHERS = """
from mcp.server.mcpserver import MCPServer

others = MCPServer("others")

@others.prompt(description="A prompt.")
def test_simple_prompt():
    return "This is a simple prompt for testing."

@others.resource("test://static-text", mime_type="text/plain")
def static_text() -> str:
    return "This is the content of the static text resource."

from nbagent.notebook.magics.serve import _servings
serving = _servings[0]._server
for method in ("prompts/list", "prompts/get", "resources/list", "resources/read", "resources/templates/list"):
    known = others._lowlevel_server.get_request_handler(method)
    serving.tools.server.add_request_handler(method, known.params_type, known.handler)

async def nothing(context, params):
    return types.EmptyResult()

serving.tools.server.add_request_handler("logging/setLevel", types.SetLevelRequestParams, nothing)
"""

#: Scenarios about what no tool of nbagent has: more prompts and resources, a client's model and folders, tasks.
NOT_OURS = re.compile(
    r"completion-|tasks-|tools-call-(audio|with-logging)|resources-(read-binary|templates|subscribe|unsubscribe)"
    r"|prompts-get-(with|embedded)|.*(sampling|list-roots|request-state|multiple-input|non-tool|capability-check)"
    r"|elicitation-sep|http-header-validation"
)
