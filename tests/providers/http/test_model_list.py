"""`model_list`: each provider's models, with the same transport, retries and errors as its answers."""

import json
from datetime import date

import pytest
from support.loopback import Answer

from nbagent.errors import AuthenticationError, InvalidResponseError
from nbagent.providers import create_provider

#: provider -> path of the list, header with the key, response
PROVIDERS = {
    "openai": ("/v1/models", "authorization", {"object": "list", "data": [{"id": "b"}, {"id": "a"}, {"id": "a"}]}),
    "open_source": ("/v1/models", "authorization", {"object": "list", "data": [{"id": "b"}, {"id": "a"}]}),
    "claude": ("/v1/models?limit=1000", "authorization", {"data": [{"type": "model", "id": "b"}, {"id": "a"}]}),
    "gemini": ("/v1beta/models?pageSize=1000", "x-goog-api-key", {"models": [{"name": f"models/{x}"} for x in "ba"]}),
}


def listing(body, status=200) -> Answer:
    return Answer(json.dumps(body).encode(), status, {"content-type": "application/json", "x-request-id": "req_7"})


async def names(provider):
    return [each.name for each in await provider.model_list()]


@pytest.mark.parametrize("provider", PROVIDERS)
async def test_each_providers_model_list(loopback, connect, provider):
    path, header, body = PROVIDERS[provider]
    loopback.answers = [listing({}, 503), listing(body)]
    assert await names(connect(provider)) == ["a", "b"]
    request = loopback.requests[-1]
    assert (request.path, request.body) == (path, b"")
    assert request.headers[header].endswith("test-key")
    assert len(loopback.requests) == 2


async def test_model_lists_in_other_forms(loopback, connect):
    for body, expected in [([{"id": "x"}], ["x"]), ({"models": [{"name": "y"}]}, ["y"]), ({"data": []}, [])]:
        loopback.answers = [listing(body)]
        assert await names(connect()) == expected


async def test_models_are_sorted_newest_first_and_retired_ones_last(loopback, connect):
    said = [
        {"id": "undated", "created": "soon"},
        {"id": "unknown", "created_at": "1970-01-01T00:00:00Z"},
        {"id": "of-claude", "created_at": "2025-09-29T00:00:00Z"},
        {"id": "of-openai", "created": 1754524800},
        {"id": "ends", "created": 1764524800, "deprecation": "2026-03-01T12:00:00Z"},
        {"id": "gone", "active": False},
    ]
    loopback.answers = [listing({"data": said})]
    listed = await connect().model_list()
    assert [each.name for each in listed] == ["of-claude", "of-openai", "undated", "unknown", "ends", "gone"]
    assert [each.created for each in listed[:3]] == [date(2025, 9, 29), date(2025, 8, 7), None]
    assert [each.is_retired for each in listed] == [False] * 4 + [True] * 2
    loopback.answers = [listing({"data": [{"id": name, "created": 1754524800} for name in "ab"]})]
    assert {each.created for each in await connect().model_list()} == {None}, "the time of the request"


@pytest.mark.parametrize("provider", PROVIDERS)
async def test_errors_are_the_same_as_for_a_request(loopback, connect, provider):
    loopback.answers = [listing({"error": {"message": "wrong key-4711", "type": "x"}}, 401)]
    with pytest.raises(AuthenticationError) as caught:
        await connect(provider, api_key="key-4711").model_list()
    error = caught.value
    assert (error.provider, error.model, error.status, error.request_id) == (provider, "m1", 401, "req_7")
    assert "key-4711" not in str(error)


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (b"<html><title>Sign in</title>", "an HTML page"),
        (b'{"data": [7]}', "expected a list of models"),
        (b'{"data": 7}', "expected a list of models"),
        (b"7", "not a JSON object"),
    ],
)
async def test_invalid_model_lists(loopback, connect, body, says):
    loopback.answers = [Answer(body)]
    with pytest.raises(InvalidResponseError, match=f"open_source m1: .*{says}"):
        await connect().model_list()


async def test_providers_with_a_single_model():
    assert await names(create_provider("scripted")) == ["scripted"]
    local = create_provider("local")
    assert await names(local) == [local.model_name]
