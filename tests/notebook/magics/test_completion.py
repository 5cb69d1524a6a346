"""Tab completion in a real kernel: the requests of a front end and the replies."""

import pytest
from support.kernels import TIMEOUT

pytestmark = pytest.mark.kernel

SETUP = """
os.chdir({folder!r})
os.mkdir('data')
for name in ('talk.json', 'notes.txt', 'with space.json'): open(name, 'w').close()
import types
get_ipython().Completer.use_jedi = True
cities = types.SimpleNamespace(people=1)
cities_count = 1
@tool
def mean_by(): ...
@tool
def median_by(): ...
import pandas, pydantic
orders = pandas.DataFrame({{"city": []}})
class Order(pydantic.BaseModel): ...
def helper(): ...
class Shop:
    def price(self): ...
    @property
    def broken(self): raise RuntimeError('a property was evaluated')
    def _hidden(self): ...
shop = Shop()
agent = Agent(ScriptedProvider([]), tools=nbagent.live)
analyst = Agent(ScriptedProvider([]), tools=[mean_by])
"""


@pytest.fixture(scope="module")
def kernel(shared, tmp_path_factory):
    shared.ok(SETUP.format(folder=str(tmp_path_factory.mktemp("folder"))))
    return shared


def complete(kernel, code):
    """The matches at the `|`, and the text that they replace."""
    before, _, after = code.partition("|")
    request = kernel.client.complete(before + after, len(before))
    while (reply := kernel.client.get_shell_msg(timeout=TIMEOUT))["parent_header"]["msg_id"] != request:
        pass
    content = reply["content"]
    return content["matches"], (before + after)[content["cursor_start"] : content["cursor_end"]]


@pytest.mark.parametrize(
    ("code", "matches", "replaced"),
    [
        ("%%agent --m|", ["--model", "--max-iterations", "--map"], "--m"),
        ("%%agent --model local --m|\nhello", ["--max-iterations", "--map"], "--m"),
        ("%%agent an|", ["analyst"], "an"),
        ("%%agent --as=j|", ["json"], "j"),
        ("%%agent --thinking h|", ["high"], "h"),
        ("%%agent -m o|", ["openai", "openrouter", "ollama", "open_source"], "o"),
        ("%%agent --model=deepseek:deepseek-c|", ["deepseek:deepseek-chat"], "deepseek:deepseek-c"),
        ("%%agent --map |", ["orders"], ""),
        ("%%agent --map orders --shape |", ["Order"], ""),
        ("%%agent -t me|", ["mean_by", "median_by"], "me"),
        ("%%agent -t mean_by,me|", ["median_by"], "me"),
        ("%%agent analyst -t |", ["mean_by"], ""),
        ("%%agent\nHow many cit|", ["cit"], "cit"),
        ("%%agent\nHow many {cities_|", ["cities_count"], "cities_"),
        ("%agent t|", ["tools", "trace"], "t"),
        ("x = 1\n  y = %agent too|", ["tools"], "too"),
        ("%agent tools |", ["add", "drop", "ask"], ""),
        ("%agent tools add h|", ["helper"], "h"),
        ("%agent tools add note|", ["notebook"], "note"),
        ("%agent mode auto|", ["auto-edit", "auto"], "auto"),
        ("%agent tools add sh|", ["shop."], "sh"),
        ("%agent tools add helper shop.|", ["shop.price"], "shop."),
        ("%agent tools drop me|", ["mean_by", "median_by"], "me"),
        ("%agent model dee|", ["deepseek", "deepseek:deepseek-v4-flash"], "dee"),
        ("%agent key qw|", ["qwen"], "qw"),
        ("%agent load |", ["data/", "talk.json"], ""),
        ("%agent nest |", ["on", "off"], ""),
        ("%agent stop ana|", ["analyst"], "ana"),
    ],
)
def test_what_is_offered(kernel, code, matches, replaced):
    assert complete(kernel, code) == (matches, replaced)


def test_all_options_and_agents_are_offered_and_nothing_else(kernel):
    found, _ = complete(kernel, "%%agent |")
    assert found[:2] == ["agent", "analyst"]
    assert {"-m", "--model", "-t", "--no-tools", "--raw"} <= set(found)
    assert all(option.startswith("-") for option in found[2:])
    assert not any(option in complete(kernel, "%%agent analyst --raw |")[0] for option in ("analyst", "--raw"))


def test_without_jedi_the_same_is_offered(kernel):
    kernel.ok("get_ipython().Completer.use_jedi = False")
    try:
        assert complete(kernel, "%%agent -t me|") == (["mean_by", "median_by"], "me")
        assert complete(kernel, "%%agent\nHow many {cities_|") == (["cities_count"], "cities_")
    finally:
        kernel.ok("get_ipython().Completer.use_jedi = True")


def test_python_is_completed_as_before(kernel):
    for code in ("cities_|", "%%agent\nOf {cities.peop|"):
        assert any(match.endswith(("cities_count", "people")) for match in complete(kernel, code)[0])
    assert "%agent" in complete(kernel, "%age|")[0]


def test_after_unloading_nothing_of_ours_is_left(kernel):
    kernel.run("%reload_ext nbagent")
    kernel.run("%unload_ext nbagent")
    assert complete(kernel, "%agent nest |")[0] != ["on", "off"]
    kernel.run("%load_ext nbagent")
    assert complete(kernel, "%agent nest |")[0] == ["on", "off"]
