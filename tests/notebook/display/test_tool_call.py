"""How a tool call looks: tables as tables, code as code, images below the call."""

import asyncio
import re

import numpy as np
import pandas as pd
from support.displays import Displays

from nbagent import Agent, FunctionCall, ScriptedProvider
from nbagent.chat.entry import turn_html
from nbagent.chat.transcript import Transcript
from nbagent.core.content.images import Image
from nbagent.notebook.display.view import CellView

GIF = Image(b"GIF89a\3\0\2\0\0\0\0,\0\0\0\0\3\0\2\0\0\2", "image/gif")


def shown(tool, **arguments):
    """Run an agent that calls the tool. Returns the agent and the displays."""
    call = FunctionCall(tool.__name__, arguments, "c")
    agent, displays = Agent(ScriptedProvider([call, "done"]), tools=[tool]), Displays()

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

    html = shown(rows)[1].html
    assert "result: 25 rows × 2 columns" in html
    assert '<tr><th></th><th class="n">n</th><th>&lt;b&gt;</th></tr>' in html
    assert html.count("<tr>") == 11
    assert "<img" not in html
    assert max(map(len, re.findall("<td>(.*?)</td>", html))) < 120


def test_code_in_arguments_reads_as_code():
    def run(code: str, times: int) -> str:
        return "ok"

    html = shown(run, code="import os\nprint('<b>', '\u202e')", times=2)[1].html
    assert '<small>code</small><pre><span class="nbagent-keyword">import</span> os\n' in html
    assert '<small>arguments</small><pre>{"times": 2}</pre>' in html
    assert "\\u202e" in html, "what would change the reading order is visible"
    assert "<b>" not in html


def test_an_image_that_a_tool_returned_stands_below_its_call():
    def draw() -> Image:
        return GIF

    agent, displays = shown(draw)
    tag = f'<img src="data:image/gif;base64,{GIF.to_base64()}" alt="[image: 3x2 gif]">'
    for html in (displays.html, turn_html(agent.conversation_history)):
        assert re.search(f"</details><p>{re.escape(tag)}</p>.*done", html, re.DOTALL)
    assert sum(tag in bundle["text/html"] for _, bundle in displays.sent) == 1, "large data is sent once"
