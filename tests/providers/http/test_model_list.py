"""`model_list`: what each vendor offers, through the same transport, retries and errors as its answers."""

import json

import pytest
from support.loopback import Answer

from nbagent.errors import AuthenticationError, InvalidResponseError
from nbagent.providers import create_provider

#: vendor -> where it lists, how the key is sent, how it answers
VENDORS = {
    "openai": ("/v1/models", "authorization", {"object": "list", "data": [{"id": "b"}, {"id": "a"}, {"id": "a"}]}),
    "open_source": ("/v1/models", "authorization", {"object": "list", "data": [{"id": "b"}, {"id": "a"}]}),
    "claude": ("/v1/models?limit=1000", "authorization", {"data": [{"type": "model", "id": "b"}, {"id": "a"}]}),
    "gemini": ("/v1beta/models?pageSize=1000", "x-goog-api-key", {"models": [{"name": f"models/{x}"} for x in "ba"]}),
}


def listing(body, status=200) -> Answer:
    return Answer(json.dumps(body).encode(), status, {"content-type": "application/json", "x-request-id": "req_7"})


@pytest.mark.parametrize("vendor", VENDORS)
async def test_each_vendors_listing(loopback, connect, vendor):
    path, header, body = VENDORS[vendor]
    loopback.answers = [listing({}, 503), listing(body)]
    assert await connect(vendor).model_list() == ["a", "b"]
    request = loopback.requests[-1]
    assert (request.path, request.body) == (path, b"")
    assert request.headers[header].endswith("test-key")
    assert len(loopback.requests) == 2


async def test_other_shapes(loopback, connect):
    for body, names in [([{"id": "x"}], ["x"]), ({"models": [{"name": "y"}]}, ["y"]), ({"data": []}, [])]:
        loopback.answers = [listing(body)]
        assert await connect().model_list() == names


@pytest.mark.parametrize("vendor", VENDORS)
async def test_errors_are_those_of_a_request(loopback, connect, vendor):
    loopback.answers = [listing({"error": {"message": "wrong key-4711", "type": "x"}}, 401)]
    with pytest.raises(AuthenticationError) as caught:
        await connect(vendor, api_key="key-4711").model_list()
    error = caught.value
    assert (error.vendor, error.model, error.status, error.request_id) == (vendor, "m1", 401, "req_7")
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
async def test_what_is_no_list(loopback, connect, body, says):
    loopback.answers = [Answer(body)]
    with pytest.raises(InvalidResponseError, match=f"open_source m1: .*{says}"):
        await connect().model_list()


async def test_providers_of_one_model():
    assert await create_provider("scripted").model_list() == ["scripted"]
    local = create_provider("local")
    assert await local.model_list() == [local.model_name]
