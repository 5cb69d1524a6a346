"""What MCP's conformance suite expects of a server, as cells of a notebook.

The tools are live tools. Prompts, resources and completions are none of nbagent's: there the official package answers
through nbagent's server, so that the suite also runs what it asks about the transport with them.
"""

TOOLS = """
import asyncio, json
import mcp_types as types
from mcp.shared.exceptions import MCPError
from PIL import Image
from nbagent.mcp.server.tool_server import current_request

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
def test_audio_content() -> types.AudioContent:
    "A sound."
    return types.AudioContent(data="UklGRg==", mime_type="audio/wav")

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

async def log_to_client(*texts):
    request = current_request.get().context
    for text in texts:
        await request.session.send_log_message("info", text, related_request_id=request.request_id)

@tool
async def test_tool_with_logging() -> str:
    "Sends three log messages."
    await log_to_client("Tool execution started", "Tool processing data", "Tool execution completed")
    return "done"

@tool
async def test_logging_tool() -> str:
    "Sends a log message, if the client wants it."
    await log_to_client("wanted")
    return "done"

@tool
async def test_tool_with_progress() -> str:
    "Reports progress."
    for done in (0, 50, 100):
        await current_request.get().context.session.report_progress(done, 100)
    return "done"

@tool
async def test_missing_capability() -> str:
    "Needs a client that offers sampling."
    capabilities = current_request.get().context.session.client_capabilities
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
from pydantic import BaseModel, Field

def question(text):
    return types.SamplingMessage(role="user", content=types.TextContent(text=text))

@tool
async def test_sampling(prompt: str) -> str:
    "Asks the client's model."
    request = current_request.get().context
    params = types.CreateMessageRequestParams(messages=[question(prompt)], max_tokens=100)
    from mcp.shared.message import ServerMessageMetadata
    answer = await request.session.send_request(types.CreateMessageRequest(params=params), types.CreateMessageResult,
        metadata=ServerMessageMetadata(related_request_id=request.request_id))
    return f"LLM response: {answer.content.text}"

async def ask_form(message, schema):
    request = current_request.get().context
    answer = await request.session.elicit_form(message, schema, request.request_id)
    return f"action={answer.action}, content={json.dumps(answer.content)}"

def form(**properties):
    return {"type": "object", "properties": properties, "required": list(properties)}

NAME = form(name={"type": "string"})

@tool
async def test_elicitation(message: str) -> str:
    "Asks the client's user."
    return await ask_form(message, form(username={"type": "string", "description": "User's response"},
                                        email={"type": "string", "description": "User's email address"}))

@tool
async def test_elicitation_sep1034_defaults() -> str:
    "Asks with defaults."
    schema = form(
        name={"type": "string", "default": "John Doe"}, age={"type": "integer", "default": 30},
        score={"type": "number", "default": 95.5}, verified={"type": "boolean", "default": True},
        status={"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"})
    return await ask_form("Who are you?", schema)

@tool
async def test_elicitation_sep1330_enums() -> str:
    "Asks for a choice."
    plain, titled = ["option1", "option2", "option3"], [
        {"const": f"value{n}", "title": f"{word} Option"} for n, word in enumerate(("First", "Second", "Third"), 1)]
    schema = form(
        untitledSingle={"type": "string", "enum": plain}, titledSingle={"type": "string", "oneOf": titled},
        legacyEnum={"type": "string", "enum": plain, "enumNames": ["One", "Two", "Three"]},
        untitledMulti={"type": "array", "items": {"type": "string", "enum": plain}},
        titledMulti={"type": "array", "items": {"anyOf": titled}})
    return await ask_form("Choose.", schema)

def elicit(message="What is your name?", schema=NAME):
    return types.ElicitRequest(params=types.ElicitRequestFormParams(message=message, requested_schema=schema))

def sample(text="What is the capital of France?"):
    params = types.CreateMessageRequestParams(messages=[question(text)], max_tokens=100)
    return types.CreateMessageRequest(params=params)

def asks(state=None, **requests):
    return types.InputRequiredResult(input_requests=requests, request_state=state)

def answers():
    params = current_request.get().params
    return params.input_responses or {}, params.request_state

def content(answer, name):
    return (getattr(answer, "content", None) or {}).get(name)

@tool
def test_input_required_result_elicitation() -> object:
    "Asks a name."
    given, _ = answers()
    return f"Hello, {content(given['user_name'], 'name')}!" if "user_name" in given else asks(user_name=elicit())

@tool
async def test_streaming_elicitation() -> object:
    "Reports progress, and asks a name."
    await current_request.get().context.session.report_progress(1, 2)
    return asks(user_name=elicit())

@tool
def test_input_required_result_sampling() -> object:
    "Asks the client's model."
    given, _ = answers()
    return given["capital_question"].content.text if "capital_question" in given else asks(capital_question=sample())

@tool
def test_input_required_result_list_roots() -> object:
    "Asks for the client's folders."
    given, _ = answers()
    roots = asks(client_roots=types.ListRootsRequest())
    return f"{len(given['client_roots'].roots)} roots" if "client_roots" in given else roots

@tool
def test_input_required_result_request_state() -> object:
    "Leaves a state with the client."
    given, state = answers()
    done = "confirm" in given and state == "nonce"
    return "state-ok" if done else asks("nonce", confirm=elicit("Sure?", form(ok={"type": "boolean"})))

@tool
def test_input_required_result_multiple_inputs() -> object:
    "Asks three things at once."
    requests = {"user_name": elicit(), "greeting": sample("Greet."), "client_roots": types.ListRootsRequest()}
    return "All inputs received." if requests.keys() <= answers()[0].keys() else asks("several", **requests)

@tool
def test_input_required_result_multi_round() -> object:
    "Asks in three rounds."
    given, state = answers()
    if state == "1" and "step1" in given:
        return asks("2 " + content(given["step1"], "name"), step2=elicit("Colour?", form(color={"type": "string"})))
    if state and state[0] == "2" and "step2" in given:
        return f"{state[2:]} likes {content(given['step2'], 'color')}."
    return asks("1", step1=elicit())

@tool
def test_input_required_result_tampered_state() -> object:
    "Trusts its state only as it was."
    state = answers()[1]
    return f"state-ok: {state}" if state else asks("round-1", confirm=elicit("Sure?", form(ok={"type": "boolean"})))

@tool
def test_input_required_result_capabilities() -> object:
    "Asks only what the client can answer."
    can = current_request.get().context.session.client_capabilities
    requests = {} if can.sampling is None else {"sample": sample()}
    return asks("capable", **requests, **({} if can.elicitation is None else {"ask": elicit()}))
"""

#: Prompts, resources, completions and levels of logs: those of the official package, through nbagent's server.
OTHERS = """
import base64
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.prompts.base import UserMessage

others = MCPServer("others")

@others.prompt(description="A prompt.")
def test_simple_prompt():
    return "This is a simple prompt for testing."

@others.prompt(description="A prompt.")
def test_prompt_with_arguments(arg1: str, arg2: str):
    return f"Prompt with arguments: arg1='{arg1}', arg2='{arg2}'"

@others.prompt(description="A prompt.")
def test_prompt_with_embedded_resource(resourceUri: str):
    return [UserMessage(resource(resourceUri, "Embedded resource content for testing.")), UserMessage("Process it.")]

@others.prompt(description="A prompt.")
def test_prompt_with_image():
    return [UserMessage(types.ImageContent(data=PIXEL, mime_type="image/png")), UserMessage("Analyze it.")]

@others.prompt(description="A prompt.")
def test_input_required_result_prompt(ctx: Context):
    given = ctx.input_responses or {}
    if "user_context" in given:
        return f"Use the context: {content(given['user_context'], 'context')}"
    return asks(user_context=elicit("Which context?", form(context={"type": "string"})))

@others.resource("test://static-text", mime_type="text/plain")
def static_text() -> str:
    return "This is the content of the static text resource."

@others.resource("test://static-binary", mime_type="image/png")
def static_binary() -> bytes:
    return base64.b64decode(PIXEL)

@others.resource("test://template/{id}/data", mime_type="application/json")
def template(id: str) -> str:
    return json.dumps({"id": id, "templateTest": True, "data": f"Data for ID: {id}"})

@others.resource("test://watched-resource", mime_type="text/plain")
def watched() -> str:
    return "watched"

@others.completion()
async def complete(ref, argument, context):
    return types.Completion(values=[], total=0, has_more=False)

async def nothing(context, params):
    return types.EmptyResult()

from nbagent.notebook.magics.serve import _servings
serving = _servings[0]._serving
server = serving.tools.server
for method in ("prompts/list", "prompts/get", "resources/list", "resources/read", "resources/templates/list",
               "completion/complete"):
    known = others._lowlevel_server.get_request_handler(method)
    server.add_request_handler(method, known.params_type, known.handler)
server.add_request_handler("logging/setLevel", types.SetLevelRequestParams, nothing)
server.add_request_handler("resources/subscribe", types.SubscribeRequestParams, nothing)
server.add_request_handler("resources/unsubscribe", types.UnsubscribeRequestParams, nothing)
"""
