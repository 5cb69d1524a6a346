"""The providers' own codes: which error they become, its message, and whether the request is retried."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from support.loopback import Answer

from nbagent import Agent
from nbagent.errors import (
    AuthenticationError,
    BadRequestError,
    ContextLengthError,
    ProviderConnectionError,
    QuotaError,
    RateLimitError,
    RegionError,
)
from nbagent.providers.http import retry

OPENAI_QUOTA = {
    "message": "You exceeded your current quota, please check your plan and billing details.",
    "type": "insufficient_quota", "param": None, "code": "insufficient_quota",
}  # fmt: skip
REGION = {"code": "unsupported_country_region_territory", "message": "Country, region, or territory not supported"}
ARREARAGE = {
    "code": "Arrearage",
    "type": "Arrearage",
    "message": "Access denied, your account is not in good standing.",
}
PER_MINUTE = {"code": "insufficient_quota", "message": "Allocated quota exceeded, please increase your quota limit."}
POOR = {"type": "invalid_request_error", "message": "Your credit balance is too low to access the Anthropic API."}
NOT_HERE = {"code": 400, "message": "User location is not supported for the API use.", "status": "FAILED_PRECONDITION"}
CODES = [
    ("zhipu", 400, {"code": "1214", "message": "messages 参数非法"}, BadRequestError, "1214"),
    ("zhipu", 400, {"code": "1261", "message": "Prompt 超长"}, ContextLengthError, "1261"),
    ("zhipu", 429, {"code": "1113", "message": "您的账户已欠费,请充值后重试"}, QuotaError, "1113"),
    ("zhipu", 429, {"code": "1302", "message": "您的账户已达到速率限制"}, RateLimitError, "1302"),
    ("openai", 429, OPENAI_QUOTA, QuotaError, "insufficient_quota"),
    ("openai", 403, REGION, RegionError, "unsupported_country_region_territory"),
    ("openai", 401, {"code": "invalid_api_key", "message": "Incorrect key"}, AuthenticationError, "invalid_api_key"),
    ("qwen", 400, ARREARAGE, QuotaError, "Arrearage"),
    ("qwen", 429, PER_MINUTE, RateLimitError, "insufficient_quota"),
    ("deepseek", 402, {"message": "Insufficient Balance", "code": "invalid_request_error"}, QuotaError, None),
    ("claude", 400, POOR, QuotaError, None),
    ("gemini", 400, NOT_HERE, RegionError, "FAILED_PRECONDITION"),
]


@pytest.mark.parametrize(("provider", "status", "error", "kind", "code"), CODES)
async def test_a_providers_code_is_kept_and_decides_the_error_class(
    loopback, connect, monkeypatch, provider, status, error, kind, code
):
    monkeypatch.setattr(retry, "FIRST_WAIT_S", 0.001)
    headers = {"content-type": "application/json", "x-should-retry": "true"} if kind is QuotaError else {}
    loopback.answers = [Answer(json.dumps({"error": error}).encode(), status, headers)]
    agent = Agent(connect(provider, max_retries=1))
    with pytest.raises(kind) as caught:
        await agent.chat("Hi")
    assert type(caught.value) is kind
    assert len(loopback.requests) == (2 if kind is RateLimitError else 1)
    if code:
        assert caught.value.code == code
        assert f"code {code}" in str(caught.value)
        assert agent.trace.calls["error_code"].item() == code
    assert ("key" in caught.value.remedy) == (kind is AuthenticationError)


async def test_https_to_a_server_that_speaks_http(connect):
    with ThreadingHTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        agent = Agent(connect(base_url=f"https://127.0.0.1:{server.server_port}/v1"))
        with pytest.raises(ProviderConnectionError, match="https://, but the server speaks http") as caught:
            await agent.chat("Hi")
        server.shutdown()
        thread.join()
    assert not caught.value.retryable
