"""The result of a run."""

import json
import re
from collections.abc import Mapping

import pytest

from nbagent import AgentResult, Usage
from nbagent.core.content.images import Image
from nbagent.core.events import Text


def test_a_result_is_a_mapping():
    result = AgentResult("Yes.", cost=0.5)
    assert "content" in result
    assert dict(result.items())["cost"] == 0.5
    assert (result["content"], result.get("status"), result.get("nothing", 1)) == ("Yes.", "ok", 1)
    with pytest.raises(KeyError, match="'contents'.*content"):
        result["contents"]


def test_an_event_is_a_mapping():
    event = Text("Yes.", metadata={"step": 1})
    assert isinstance(event, Mapping)
    assert ("metadata" in event, "contents" in event, len(event)) == (True, False, 5)
    assert {**event} == dict(event.items()) == dict(zip(event, event.values(), strict=True)) == event.to_dict()


def test_a_result_is_json_data():
    call = {"id": "c", "name": "f", "arguments": {"when": object()}, "result": "1", "is_error": False}
    image = Image(b"GIF89a\3\0\2\0\0\0\0,\0\0\0\0\3\0\2\0\0\2", "image/gif")
    data = AgentResult("Yes.", [call], usage=Usage(3, 4), images=[image]).to_dict()
    assert json.loads(json.dumps(data)) == data
    assert data["function_calls"] == [{**call, "arguments": {"when": "object"}}]
    assert data["usage"]["input_tokens"] == 3
    assert Image.from_part(data["images"][0]) == image


def test_a_notebook_shows_the_answer_with_its_calls_folded():
    arguments = {"column": "<b>mass</b>"}
    call = {"id": "c", "name": "mean_by", "arguments": arguments, "result": "4,202 g", "is_error": False}
    failed = {"id": "d", "name": "g", "arguments": {}, "result": "ValueError: no", "is_error": True}
    image = Image(b"GIF89a\3\0\2\0\0\0\0,\0\0\0\0\3\0\2\0\0\2", "image/gif")
    result = AgentResult("It is **4,202 g**.", [call, failed], usage=Usage(1200, 62), cost=0.0012, images=[image])
    bundle = result._repr_mimebundle_()
    page = bundle["text/html"]
    assert bundle["text/plain"] == repr(result)
    assert page.count("<details") == 2
    assert "<b>mass" not in page
    assert page.index("mean_by(") < page.index("✗ error") < page.index("<strong>") < page.index("data:image/gif")
    foot = page.partition('class="nbagent-foot')[2]
    assert re.findall(r"<span>([^<]+)</span>", foot) == ["1,200 in", "62 out", "$0.0012"]
    blocked = AgentResult(status="blocked", status_reason="The model refused to answer.")._repr_mimebundle_()
    assert "The model refused to answer." in blocked["text/html"]
