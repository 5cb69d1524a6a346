"""How a tool call looks: tables as tables, code as code, images below the call."""

import asyncio
import re

import numpy as np
import pandas as pd
from support.displays import Displays
from support.hostile import PAYLOADS

from nbagent import Agent, FunctionCall, ScriptedProvider
from nbagent.core.content.images import Image
from nbagent.notebook.display.transcript import Transcript
from nbagent.notebook.display.view import CellView
from nbagent.notebook.panel.entry import turn_html

GIF = Image(b"GIF89a" + bytes([3, 0, 2, 0]), "image/gif")


def shown(*turns, tools):
    """Run an agent once. Returns the agent and the displays."""
    agent, displays = Agent(ScriptedProvider([*turns, "done"]), tools=tools), Displays()

    async def run():
        view = CellView(Transcript(timings=False), displays)
        async for event in agent.chat_stream("question"):
            view.feed(event)
        view.close()

    asyncio.run(run())
    return agent, displays


def test_a_data_frame_is_a_table():
    def rows() -> pd.DataFrame:
        return pd.DataFrame({"n": range(25), "<b>": ["<img src=x>" + "y" * 200] * 25}, index=np.arange(25) * 2)

    _, displays = shown(FunctionCall("rows", {}, "c"), tools=[rows])
    html = displays.html
    assert "result: 25 rows × 2 columns" in html
    assert '<tr><th></th><th class="n">n</th><th>&lt;b&gt;</th></tr>' in html
    assert html.count("<tr>") == 11
    assert "<img" not in html
    assert max(map(len, re.findall("<td>(.*?)</td>", html))) < 120


def test_hostile_values_of_a_table_are_text():
    frame = pd.DataFrame({payload.text: [payload.text] for payload in PAYLOADS[:12]}, index=[PAYLOADS[0].text])

    def rows() -> pd.DataFrame:
        return frame

    html = shown(FunctionCall("rows", {}, "c"), tools=[rows])[1].html
    assert not re.search("<(script|img|svg|noscript)", html, re.IGNORECASE)


def test_code_in_arguments_reads_as_code():
    def run(code: str, times: int) -> str:
        return "ok"

    _, displays = shown(FunctionCall("run", {"code": "import os\nprint('<b>')", "times": 2}, "c"), tools=[run])
    html = displays.html
    assert '<small>code</small><pre><span class="nbagent-keyword">import</span> os\n' in html
    assert '<small>arguments</small><pre>{"times": 2}</pre>' in html


def test_an_image_that_a_tool_returned_stands_below_its_call():
    def draw() -> Image:
        return GIF

    agent, displays = shown(FunctionCall("draw", {}, "c"), tools=[draw])
    tag = f'<img src="data:image/gif;base64,{GIF.to_base64()}" alt="[image: 3x2 gif]">'
    for html in (displays.html, turn_html(agent.conversation_history)):
        assert re.search(f"</details><p>{re.escape(tag)}</p>.*done", html, re.DOTALL)
    assert sum(tag in bundle["text/html"] for _, bundle in displays.sent) == 1, "large data is sent once"


def test_arguments_show_characters_that_change_the_reading_order():
    def run(code: str) -> str:
        return code

    _, displays = shown(FunctionCall("run", {"code": "if user != 'admin\u202e \u2066':"}, "c"), tools=[run])
    html = displays.html
    assert "admin\\u202e \\u2066" in html
    assert "admin⟨U+202E⟩ ⟨U+2066⟩" in html  # the result
