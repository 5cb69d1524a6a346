"""Wrong keys, wrong names, wrong addresses, answers that are none: an error of nbagent's own says what to do."""

import gc
import json
import logging
import re
import ssl

import pytest
import trustme
from support.loopback import Answer, Loopback

from nbagent import Agent, Limits
from nbagent.core.messages import LLMMessage
from nbagent.errors import (
    AuthenticationError,
    BadRequestError,
    ConfigurationError,
    InvalidResponseError,
    ModelNotFoundError,
    NbagentError,
    ProviderConnectionError,
    ProviderError,
    ServerError,
)
from nbagent.providers import create_provider
from nbagent.providers.catalog import CATALOG
from nbagent.providers.formats import sse
from nbagent.providers.http import response as reading
from nbagent.providers.http import retry

HI = [LLMMessage("user", "hi")]
KEY = "sk-MARKER0123456789"
#: Each wire format over its transport: the name to make it by, and further options.
VENDORS = {
    "openai chat": ("openai", {"api": "chat"}),
    "openai responses": ("openai", {"api": "responses"}),
    "claude": ("claude", {}),
    "gemini": ("gemini", {}),
    "open_source": ("open_source", {}),
}
#: How each says it: message -> error body.
BODIES = {
    "openai": lambda text: {"error": {"message": text, "type": "invalid_request_error", "param": None, "code": None}},
    "claude": lambda text: {"type": "error", "error": {"type": "some_error", "message": text}, "request_id": "req_7"},
    "gemini": lambda text: {"error": {"code": 400, "message": text, "status": "INVALID_ARGUMENT"}},
    "open_source": lambda text: {"object": "error", "message": text, "code": 40000},
}
MEGABYTES = 2**20
ADD = {"name": "add", "description": "Add.", "parameters": {"type": "object", "properties": {}}}
MUL = {**ADD, "name": "multiply"}


@pytest.fixture(autouse=True)
def _short_waits(monkeypatch):
    monkeypatch.setattr(retry, "FIRST_WAIT_S", 0.001)


@pytest.fixture
def make(request, connect):
    """Makes the provider of one wire format, usually of one; further options may be given."""
    vendor, fixed = VENDORS[getattr(request, "param", "open_source")]

    def provider(**options):
        return connect(vendor, api_key=KEY, **fixed, **options)

    return provider


each_format = pytest.mark.parametrize("make", VENDORS, indirect=True)
one_of_each_transport = pytest.mark.parametrize("make", ["openai chat", "open_source"], indirect=True)


def refusal(provider, status, message) -> Answer:
    body = json.dumps(BODIES[provider.vendor](message)).encode()
    return Answer(body, status, {"content-type": "application/json", "x-request-id": "req_7"})


async def failure(provider, functions=None) -> NbagentError:
    """The error of a request, which is short, says who failed, has a remedy and never holds the key."""
    with pytest.raises(NbagentError) as caught:
        await provider.chat(HI, functions)
    error = caught.value
    shown = f"{error} {error!r} {error.args} {vars(error)}"
    assert KEY not in shown
    assert len(str(error)) < 1500
    assert error.__cause__ is None
    assert error.__context__ is None
    if isinstance(error, ProviderError):
        assert (error.vendor, error.model) == (provider.vendor, "m1")
        assert str(error).startswith(f"{provider.vendor} m1: ")
        assert error.remedy
        assert str(error).endswith(error.remedy)
    return error


@each_format
async def test_a_wrong_key(loopback, make):
    provider = make()
    loopback.answers = [refusal(provider, 401, f"Incorrect API key provided: {KEY}.")]
    error = await failure(provider)
    assert type(error) is AuthenticationError
    assert (error.status, error.request_id) == (401, "req_7")
    assert "Incorrect API key provided: ***" in str(error)
    assert "api_key=" in str(error)
    assert len(loopback.requests) == 1


async def test_a_key_that_the_cut_would_halve(loopback, make):
    """An explanation is cut to a readable length only when the key in it has been found."""
    provider = make()
    loopback.answers = [refusal(provider, 401, "x" * 490 + KEY)]
    assert KEY[:5] not in str(await failure(provider))


async def test_a_wrong_model(loopback, make):
    provider = make()
    loopback.answers = [refusal(provider, 404, "The model `m1` does not exist.")]
    error = await failure(provider)
    assert type(error) is ModelNotFoundError
    assert (error.status, error.request_id) == (404, "req_7")
    assert re.search(r"does not exist \(status 404, (code \d+, )?request req_7\)\. Check the model's name", str(error))


@one_of_each_transport
async def test_an_unreachable_host(make):
    error = await failure(make(base_url="http://nowhere.invalid/v1", max_retries=0))
    assert type(error) is ProviderConnectionError
    assert "no connection to nowhere.invalid (" in str(error)
    assert "base_url" in str(error)
    assert error.status is None


@one_of_each_transport
async def test_a_certificate_that_nobody_vouches_for(make, self_signed):
    """It does not get better by asking again."""
    async with Loopback(self_signed) as server:
        error = await failure(make(base_url=server.url))
        assert server.connections <= 1
    assert type(error) is ProviderConnectionError
    assert "certificate is not trusted" in str(error)
    assert "SSL_CERT_FILE" in str(error)
    assert not error.retryable


@pytest.mark.parametrize(("streaming", "status"), [(True, 200), (False, 200), (True, 400), (False, 404)])
async def test_a_web_page(loopback, make, streaming, status):
    page = b"<!DOCTYPE html>\n<html><head><title>Sign in</title></head><body>" + b"<p>" * 1000 + b"</body></html>"
    headers = {"content-type": "text/html", "x-request-id": "req_7"}
    loopback.answers = [Answer(page, status, headers)]
    error = await failure(make(streaming=streaming))
    assert "an HTML page (Sign in)" in str(error)
    assert (error.status, error.request_id) == (status, "req_7")
    assert len(loopback.requests) == 1


GARBAGE = {
    "letters": b"\xff\x00garbage!" * (MEGABYTES // 10),
    "lines": b"garbage\n\n" * (MEGABYTES // 9),
    "tags": b"<title" * (MEGABYTES // 6),
    "brackets": b"[" * MEGABYTES,
    "braces": b'{"a":' * (MEGABYTES // 5),
    "a line without end": b"data: " + b"x" * MEGABYTES,
    "deep data": b"data: " + b"[" * MEGABYTES + b"\n\n",
    "no data": b"id: 1\n\n" * (MEGABYTES // 7),
    "comment": b": " + b"x" * MEGABYTES,
}


@pytest.mark.parametrize("streaming", [True, False])
@pytest.mark.parametrize("garbage", GARBAGE)
async def test_megabytes_of_garbage(loopback, make, garbage, streaming):
    await is_refused(make, loopback, garbage, streaming)


@each_format
async def test_every_format_survives_garbage(loopback, make):
    await is_refused(make, loopback, "deep data", streaming=True)


async def is_refused(make, loopback, garbage, streaming):
    loopback.answers = [Answer(GARBAGE[garbage], headers={"x-request-id": "req_7"})]
    gc.collect()  # what earlier tests left would be finalized at the depth where the parser gives up
    error = await failure(make(streaming=streaming, max_retries=0))
    assert isinstance(error, ProviderError)
    assert error.request_id == "req_7"


@pytest.mark.parametrize("garbage", ["letters", "tags", "brackets"])
async def test_megabytes_of_garbage_as_an_error(loopback, make, garbage):
    loopback.answers = [Answer(GARBAGE[garbage], 400, {"x-request-id": "req_7"})]
    error = await failure(make())
    assert type(error) is BadRequestError
    assert (error.status, error.request_id) == (400, "req_7")


async def test_megabytes_of_explanation_in_a_stream(loopback, make):
    provider = make(max_retries=0)
    error = {"type": "error", **BODIES[provider.vendor]("no" * MEGABYTES)}
    loopback.answers = [Answer(b"data: " + json.dumps(error).encode() + b"\n\n")]
    await failure(provider)


async def endless(first):
    """A body without end; whoever reads too much of it fails."""
    yield first
    for _ in range(100):
        yield b"x" * 10_000
    pytest.fail("read on")


async def fed(chunks):
    splitter = sse.SSESplitter()
    return [payload async for chunk in chunks for payload in splitter.feed(chunk)]


async def test_what_never_ends_is_not_read_on(monkeypatch):
    monkeypatch.setattr(reading, "LONGEST_BODY", 500_000)
    assert len(await reading.read_up_to(endless(b"garbage"))) <= reading.LONGEST_PROSE + 10_000
    with pytest.raises(InvalidResponseError, match="more than 500000 bytes"):
        await reading.read_up_to(endless(b'{"a": "'))
    monkeypatch.setattr(sse, "LONGEST_EVENT", 500_000)
    for part in (b"data: x", b"data: x\n", b"data:\n"):
        with pytest.raises(InvalidResponseError, match="event of more than 500000 bytes"):
            await fed(endless(part))


def test_a_long_line_in_many_pieces_is_whole():
    splitter = sse.SSESplitter()
    assert [got for piece in [b"data: a", b"b", b"c\r", b"\n", b"\n"] for got in splitter.feed(piece)] == [b"abc"]


SCHEMA_REFUSALS = {
    "openai chat": "Invalid schema for function 'multiply': In context=(), 'x' is not valid.",
    "openai responses": "Invalid schema for function 'multiply': In context=(), 'x' is not valid.",
    "claude": "tools.1.custom.input_schema: JSON schema is invalid.",
    "gemini": "* GenerateContentRequest.tools[0].function_declarations[1].parameters.properties: should be non-empty",
    "open_source": "tools[1].function.parameters: 'x' is not a valid type",
}


@pytest.mark.parametrize("name", VENDORS)
async def test_a_schema_that_the_vendor_refuses(loopback, connect, name):
    """The tool is named, also where the vendor only counts."""
    vendor, options = VENDORS[name]
    provider = connect(vendor, api_key=KEY, **options)
    loopback.answers = [refusal(provider, 400, SCHEMA_REFUSALS[name])]
    error = await failure(provider, [ADD, MUL])
    assert type(error) is BadRequestError
    assert "multiply" in str(error)
    assert "'add'" not in str(error)
    assert (error.status, error.request_id) == (400, "req_7")
    assert len(loopback.requests) == 1


async def test_a_request_id_in_the_body_alone(loopback, connect):
    loopback.answers = [Answer(json.dumps(BODIES["claude"]("no")).encode(), 400)]
    assert (await failure(connect("claude", api_key=KEY))).request_id == "req_7"


@pytest.fixture(scope="module")
def self_signed():
    """A server's TLS context with a certificate of its own making."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    trustme.CA().issue_cert("127.0.0.1").configure_cert(context)
    return context


async def test_an_address_that_is_none(make):
    for address in ("localhost:8000/v1", "ftp://x/v1", "http://", "http://[::1/v1", "http://h:99999"):
        with pytest.raises(ConfigurationError, match=f"base_url: .*{re.escape(repr(address))}"):
            make(base_url=address)


async def test_an_address_that_is_none_hides_its_password(make):
    with pytest.raises(ConfigurationError) as caught:
        make(base_url="ftp://ada:s3cr3t@x/v1")
    assert "'ftp://x/v1'" in str(caught.value)


@each_format
async def test_another_server_gets_no_key_by_a_redirection(loopback, make):
    async with Loopback() as elsewhere:
        elsewhere.answers = [Answer(b"{}")]
        loopback.answers = [Answer(b"", 307, {"location": f"{elsewhere.url}/login"})]
        error = await failure(make())
    assert elsewhere.requests == []
    assert type(error) is InvalidResponseError
    assert f"redirects the request to {elsewhere.url}/login (status 307)" in str(error)
    assert len(loopback.requests) == 1


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (
            Answer(b"<title>Not here</title>", 404),
            "got an HTML page (Not here) (status 404)",
        ),
        (Answer(b"", 403), "got an empty answer (status 403)"),
        (Answer(b"no route", 404), "m1: no route (status 404)"),
        (Answer(b"Ollama is running"), "expected JSON, got the text 'Ollama is running'"),
        (Answer(bytes(range(256))), "expected JSON, got binary data"),
        (Answer(b'{"error": "slow"}', 429, {"retry-after": "500"}), "slow (status 429, retry after 500 s)"),
    ],
)
async def test_answers_that_explain_nothing(loopback, make, answer, says):
    loopback.answers = [answer]
    assert says in str(await failure(make()))


async def test_a_short_key_is_no_word_to_blot_out(loopback, connect):
    """Local servers are given keys such as "ollama"."""
    loopback.answers = [Answer(b'{"error": "not found, try ollama pull"}', 404)]
    error = await failure(connect("ollama", api_key="ollama"))
    assert "try ollama pull" in str(error)


@pytest.mark.parametrize("vendor", ["open_source", "openai"])
async def test_a_password_in_the_address_is_sent_and_never_logged(loopback, caplog, vendor):
    caplog.set_level(logging.DEBUG)
    address = loopback.url.replace("http://", "http://ada:hidden-word@")
    provider = create_provider(vendor, base_url=address, model="m1", max_retries=0)
    loopback.answers = [Answer(b"{}", 500)]
    with pytest.raises(ServerError) as caught:
        await provider.chat([LLMMessage("user", "x")])
    await provider.aclose()
    assert loopback.requests[0].headers["authorization"] == "Basic YWRhOmhpZGRlbi13b3Jk"
    assert "hidden-word" not in f"{caplog.text}{caught.value}{provider!r}"


@pytest.mark.parametrize("vendor", ["open_source", "openai"])
async def test_a_password_in_the_address_and_a_key_are_an_error(vendor, monkeypatch):
    """One of them would silently go."""
    address = "http://ada:hidden-word@127.0.0.1:1/v1"
    for more in ({"api_key": "k"}, {"headers": {"authorization": "Bearer k"}}):
        with pytest.raises(ConfigurationError, match="user and a password.*Leave one out") as caught:
            create_provider(vendor, base_url=address, **more)
        assert "hidden-word" not in str(caught.value)
    provider = create_provider(vendor, base_url=address)
    provider.check()
    if vendor != "open_source":
        variable = CATALOG[vendor].key_vars[0]
        monkeypatch.setenv(variable, "k")
        with pytest.raises(ConfigurationError, match=f"in .*{variable}"):
            provider.check()


def test_an_address_with_a_query_is_an_error():
    for address in ("http://x/v1?key=hidden-word", "https://x/v1#hidden-word"):
        with pytest.raises(ConfigurationError, match="without '[?]' and '#'.*api_key") as caught:
            create_provider("open_source", base_url=address)
        assert "hidden-word" not in str(caught.value)


#: What a user may pass by mistake where something else is meant.
KEY = "sk-proj-0123456789abcdefghij"
MISPLACED = {
    "provider": lambda: create_provider(KEY),
    "agent": lambda: Agent(KEY).provider,
    "timeout": lambda: create_provider("openai", timeout=KEY),
    "timeout in a list": lambda: create_provider("openai", timeout=["a long text before the key comes", KEY]),
    "price": lambda: create_provider("openai", price=KEY),
    "address": lambda: create_provider("openai", base_url=KEY),
    "port": lambda: create_provider("openai", base_url=f"http://x:{KEY}"),
    "thinking": lambda: create_provider("openai", thinking=KEY),
    "option": lambda: create_provider("openai", **{KEY: 1}),
    "tool": lambda: Agent("scripted", tools=[KEY]),
    "limit": lambda: Limits(max_cost=KEY),
    "file": lambda: Agent.load(KEY),
}


def test_no_error_repeats_a_key_in_the_wrong_place():
    for place, misplace in MISPLACED.items():
        with pytest.raises(ConfigurationError) as caught:
            misplace()
        assert "sk-proj" not in str(caught.value), place
