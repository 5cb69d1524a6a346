"""No secret is in the HTTP log, wherever it was sent and however a hostile server repeats it."""

import base64
import html
import json
from pathlib import Path

import httpx
import pytest
from support.loopback import Answer, claude_said, said, sse
from support.secret_forms import assert_clean, everything, forms

import nbagent
from nbagent import Agent, Trace
from nbagent.errors import NbagentError
from nbagent.providers.http import capture as http_log
from nbagent.providers.http import retry
from nbagent.providers.http.redaction import Redactor, is_telling

#: A key as no vendor makes them: with what JSON, URLs and HTML write differently.
KEY = "sk-MARKER/0123+456\"789&<a>'\\end"
PLAIN_KEY = "sk-MARKER0123456789"


@pytest.fixture(autouse=True)
def _short_waits(monkeypatch):
    monkeypatch.setattr(retry, "FIRST_WAIT_S", 0.001)


def test_each_way_to_write_a_key():
    redactor = Redactor("http://x", {}, KEY, "OPENAI_API_KEY")
    for form in forms(KEY).values():
        assert redactor.text(f"before {form} after {form}") == "before $OPENAI_API_KEY after $OPENAI_API_KEY"


def test_a_key_in_base64():
    redactor = Redactor("http://x", {}, KEY, "OPENAI_API_KEY")
    encoded = base64.b64encode(f"me:{KEY} and more".encode()).decode()
    assert_clean(redactor.text(encoded), KEY)
    assert "$OPENAI_API_KEY" in redactor.text(encoded)


def test_a_text_that_ends_in_the_middle_of_a_key():
    redactor = Redactor("http://x", {}, KEY, "OPENAI_API_KEY")
    assert redactor.text(f"cut {KEY[:20]}") == "cut $OPENAI_API_KEY"
    assert redactor.text(f"cut {KEY[:8]}") == "cut $OPENAI_API_KEY"
    assert redactor.text("cut sk-") == "cut sk-"


def test_short_keys_are_no_words_to_look_for():
    """Local servers are given keys such as "none": hidden where they are sent, and no word of the conversation."""
    headers = {"authorization": "Bearer ollama"}
    redactor = Redactor("http://x", headers, "ollama", "OPENAI_API_KEY")
    assert redactor.headers(headers) == {"authorization": "Bearer $OPENAI_API_KEY"}
    assert redactor.text("ollama is here") == "ollama is here"


async def test_a_key_that_is_a_word_leaves_what_was_said(loopback, connect, tmp_path, monkeypatch):
    key = "not-needed"
    monkeypatch.setenv("SOME_TOKEN", "thousand")
    said_all = f"A thousand words: {key} is {key}."
    loopback.answers = [Answer(sse(said(said_all)))]
    agent = Agent(connect(api_key=key), trace=Trace(record_http=True))
    with nbagent.record(tmp_path / "run.jsonl"):
        await agent.chat(f"Repeat: {said_all}")
    agent.trace.save_har(tmp_path / "run.har")
    (row,) = agent.trace.rows("http")
    for kept in (row["request_body"], row["response_body"], *map(Path.read_text, tmp_path.iterdir())):
        assert said_all in kept
    assert key not in row["request_headers"]
    assert "Bearer $OPEN_SOURCE_API_KEY" in row["request_headers"]


def test_names_that_tell():
    telling = str.split(
        "Authorization Proxy-Authorization X-API-Key api-key apikey key x-goog-api-key Cookie Set-Cookie X-Corp-Token "
        "X-Client-Secret x-amz-security-token sig X-Auth"
    )
    harmless = str.split(
        "content-type x-request-id x-ratelimit-remaining-tokens anthropic-ratelimit-tokens-limit www-authenticate "
        "idempotency-key openai-organization author design alt"
    )
    assert [name for name in telling if not is_telling(name)] == []
    assert [name for name in harmless if is_telling(name)] == []


def test_addresses():
    url = "https://me:hunter2hunter2@host:8443/v1/models?key=AIzaSECRET123&alt=sse&sig=abc%2Fdefgh"
    basic = base64.b64encode(b"me:hunter2hunter2").decode()
    headers = {"authorization": f"Basic {basic}"}
    redactor = Redactor(url, headers, None, "GEMINI_API_KEY")
    assert redactor.url(url) == "https://host:8443/v1/models?key=$GEMINI_API_KEY&alt=sse&sig=$SIG"
    assert redactor.headers(headers) == {"authorization": "Basic $GEMINI_API_KEY"}
    assert_clean(redactor.text(f"{basic} hunter2hunter2 AIzaSECRET123 abc/defgh abc%2Fdefgh"), "hunter2hunter2")
    assert "abc" not in redactor.text("abc/defgh abc%2Fdefgh")
    assert redactor.message("no route to http://u:p@proxy:3128/") == "no route to http://proxy:3128/"


STREAMS = {"claude": claude_said("Good."), "openai": sse(said("Good.")), "open_source": sse(said("Good."))}


@pytest.mark.parametrize(("vendor", "key"), [("claude", PLAIN_KEY), ("openai", PLAIN_KEY), ("open_source", KEY)])
async def test_a_server_that_repeats_the_key(loopback, connect, vendor, key):
    corp = "corp-0123456789abcdef"
    headers = {"x-echo": key, "set-cookie": f"session={key}", "x-request-id": f"req-{key}", "x-corp": corp}
    in_json = json.dumps({"error": {"message": f"wrong key {key}, {corp}", "got": forms(key)}}).encode()
    in_html = f"<html><title>{html.escape(key)}</title>{' '.join(forms(key).values())}</html>".encode()
    comments = "".join(f": {form}\n\n" for form in forms(key).values())
    unknown = f"event: echo\ndata: {json.dumps({'type': 'echo', 'choices': [], 'said': forms(key)})}\n\n"
    loopback.answers = [
        Answer(in_json, 429, {"retry-after": "0", **headers}),
        Answer(in_html, 500, {"content-type": "text/html", **headers}),
        Answer((comments + unknown).encode() + STREAMS[vendor], headers=headers),
        Answer(in_json, 401, headers),
        Answer(in_html, 200, {"content-type": "text/html", **headers}),
        Answer(f"data: {key[:12]}".encode(), end="drop", headers=headers),
    ]
    agent = Agent(connect(vendor, api_key=key, headers={"X-Corp-Token": corp}), trace=Trace(record_http=True))
    assert (await agent.chat("hi")).content == "Good."
    for _ in range(2):
        with pytest.raises(NbagentError):
            await agent.chat("hi")
    agent.provider.max_retries = 0
    with pytest.raises(NbagentError):
        await agent.chat("hi")
    assert agent.trace.http["status"].tolist() == [429, 500, 200, 401, 200, 200]
    sent = [value for request in loopback.requests for value in request.headers.values()]
    assert any(key in value for value in sent)
    text = everything(agent.trace)
    assert_clean(text, key)
    assert_clean(text, corp)
    assert json.loads(agent.trace.http["request_headers"].iloc[0])["x-corp-token"] == "$X_CORP_TOKEN"
    assert "wrong key $" in text


async def test_a_key_in_the_answer_itself(loopback, connect):
    loopback.answers = [Answer(sse(said(f"Your key is {PLAIN_KEY}.")))]
    agent = Agent(connect(api_key=PLAIN_KEY), trace=Trace(record_http=True))
    assert (await agent.chat("hi")).content == "Your key is $OPEN_SOURCE_API_KEY."
    assert "Your key is $OPEN_SOURCE_API_KEY." in agent.trace.rows("http")[0]["response_body"]
    assert PLAIN_KEY not in str(agent.trace.rows("http"))


async def test_a_key_that_the_cap_would_halve(loopback, connect, monkeypatch):
    monkeypatch.setattr(http_log, "LONGEST_KEPT", 1000)
    loopback.answers = [Answer(b"<html>" + b"x" * (1000 - 6 - 12) + PLAIN_KEY.encode(), 401)]
    agent = Agent(connect(api_key=PLAIN_KEY), trace=Trace(record_http=True))
    with pytest.raises(NbagentError):
        await agent.chat("hi")
    (row,) = agent.trace.rows("http")
    assert row["truncated"]
    assert row["response_body"].endswith("x$OPEN_SOURCE_API_KEY")


def own_clients(url):
    """Clients of the user's own, each with its own way to send a key, and where the log shows its name."""
    import anthropic
    import openai

    basic = httpx.BasicAuth("user-name", PLAIN_KEY)
    return {
        "openai": ("openai", openai.AsyncOpenAI(api_key=PLAIN_KEY, base_url=f"{url}/v1", max_retries=0)),
        "azure": (
            "openai",
            openai.AsyncAzureOpenAI(api_key=PLAIN_KEY, azure_endpoint=url, api_version="1", max_retries=0),
        ),
        "anthropic": ("claude", anthropic.AsyncAnthropic(api_key=PLAIN_KEY, base_url=url, max_retries=0)),
        "httpx, query": ("open_source", httpx.AsyncClient(params={"key": PLAIN_KEY})),
        "httpx, cookie": ("open_source", httpx.AsyncClient(cookies={"session": PLAIN_KEY})),
        "httpx, basic": ("open_source", httpx.AsyncClient(auth=basic)),
        "httpx, header": ("gemini", httpx.AsyncClient(headers={"X-Gateway-Secret": PLAIN_KEY})),
    }


@pytest.mark.parametrize(
    "kind", ["openai", "azure", "anthropic", "httpx, query", "httpx, cookie", "httpx, basic", "httpx, header"]
)
async def test_clients_of_the_users_own(loopback, connect, kind):
    vendor, client = own_clients(loopback.url)[kind]
    loopback.answers = [Answer(f'{{"error": {{"message": "I saw {PLAIN_KEY}, too"}}}}'.encode(), 400)]
    provider = connect(vendor, api_key=None, client=client)
    agent = Agent(provider, trace=Trace(record_http=True))
    with pytest.raises(NbagentError):
        await agent.chat("hi")
    (request,) = loopback.requests
    told = [request.path, *request.headers.values()]
    assert any(
        PLAIN_KEY in text or base64.b64encode(f"user-name:{PLAIN_KEY}".encode()).decode() in text for text in told
    )
    (row,) = agent.trace.rows("http")
    assert row["status"] == 400
    assert "I saw $" in row["response_body"]
    assert_clean(str(row), PLAIN_KEY)
    assert base64.b64encode(PLAIN_KEY[:12].encode()).decode()[:12] not in str(row)
    assert row["request_body"]
    await (client.aclose() if hasattr(client, "aclose") else client.close())
