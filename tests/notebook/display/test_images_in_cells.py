"""A cell shows a model's images after checking their data, and shows nothing else as an image."""

import base64

from support.displays import Displays

from nbagent import Agent, LLMResponse, ScriptedProvider
from nbagent.chat.transcript import Transcript
from nbagent.notebook.display.view import CellView

GIF = base64.b64encode(b"GIF89a\3\0\2\0\0\0\0,\0\0\0\0\3\0\2\0\0\2").decode()
IMAGE = {"type": "image", "media_type": "image/gif", "data": GIF}
TAG = f'<img src="data:image/gif;base64,{GIF}" alt="[image: 3x2 gif]">'


def words(text):
    return {"type": "text", "text": text}


async def shown(parts):
    """The displays of an answer with these parts."""
    text = "".join(part.get("text", "") for part in parts)
    answer = LLMResponse(text, None, "stop", {"parts": parts, "thinking": "Hm."})
    displays = Displays()
    view = CellView(Transcript(timings=False), displays)
    async for event in Agent(ScriptedProvider([answer])).chat_stream("draw"):
        view.feed(event)
    view.close()
    return displays


async def test_images_are_shown_where_they_arrived():
    displays = await shown([words("**one**"), IMAGE, words("two"), IMAGE])
    html = displays.html
    assert html.count(TAG) == 2
    order = [html.index(piece) for piece in ("Thought", "<strong>one</strong>", TAG, "<p>two</p>")]
    assert order == sorted(order)
    plain = displays.text.splitlines()
    assert plain[:4] == ["**one**", "[image: 3x2 gif]", "two", "[image: 3x2 gif]"]
    assert sum(GIF in bundle["text/html"] for _, bundle in displays.sent) == 2, "large data is sent once"
