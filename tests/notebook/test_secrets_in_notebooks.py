"""No saved notebook contains a key, whatever failed: in cells, in code, in tracebacks, with each format."""

import os
import re

import nbformat
import pytest
from nbclient import NotebookClient
from nbformat import v4
from support.kernels import TIMEOUT, write_spec
from support.secret_forms import ARGUMENT, HEADER, KEYS, PROVIDERS, Echo, address, assert_clean

pytestmark = pytest.mark.kernel

FIRST = """%load_ext nbagent
import logging, nbagent
from nbagent import Agent, Trace, create_provider
logging.basicConfig(level=logging.DEBUG, force=True)
agent = Agent("scripted", trace=Trace(record_http=True))"""
#: One provider of each format.
ASKED = {kind: (name, options) for name, kind, options in PROVIDERS.values()}
#: For each of them: its key from the environment, then one as an argument, and a secret header.
EACH = [
    "agent.provider = create_provider({name!r}, model='m', base_url={url!r}, max_retries=0, **{options!r})",
    "%%agent\nhi",
    """more = dict(api_key=os.environ['OWN'], headers={{'X-Corp-Token': os.environ['HEADER']}}, max_retries=0)
agent.provider = create_provider({name!r}, model='m', base_url={url!r}, **more, **{options!r}); del more""",
    "agent.chat_sync('hi')",
    "agent.provider",
]
LAST = [
    "agent",
    "agent.trace",
    "agent.trace.http",
    "agent.trace.runs.to_dict()",
    "print(agent.trace.curl())",
    "%agent status",
    "%agent fix",
]


async def test_no_key_is_in_a_saved_notebook(tmp_path, monkeypatch):
    write_spec(tmp_path)
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path))
    async with Echo() as server:
        codes = [FIRST, "import os"]
        for provider, options in ASKED.values():
            codes += [code.format(name=provider, url=address(provider, server.url), options=options) for code in EACH]
        cells = [v4.new_code_cell(code, metadata={"tags": ["raises-exception"]}) for code in codes + LAST]
        notebook = v4.new_notebook(cells=cells)
        own = {**KEYS, "OWN": ARGUMENT, "HEADER": HEADER, "IPYTHONDIR": str(tmp_path / "ipython")}
        client = NotebookClient(notebook, kernel_name="tested", timeout=TIMEOUT)
        await client.async_execute(env={**os.environ, **own})
        sent = "\n".join(value for request in server.requests for value in request.headers.values())
    saved = re.sub(r"\\u001b\[[\d;]*m", "", nbformat.writes(notebook))  # colour codes may be inside words
    failed = [cell.source for cell in cells if any(each.output_type == "error" for each in cell.outputs)]
    assert len([source for source in failed if source.startswith("%%agent")]) == len(ASKED)
    assert len([source for source in failed if source.startswith("agent.chat_sync")]) == len(ASKED)
    assert {source for source in failed if not source.startswith(("%%agent", "agent.chat_sync", "%agent fix"))} == set()
    for key in (ARGUMENT, HEADER, *KEYS.values()):
        assert_clean(saved, key)
    assert [key for key in (ARGUMENT, HEADER) if key not in sent] == []
