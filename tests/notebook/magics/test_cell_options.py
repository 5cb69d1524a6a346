"""The options of `%%agent` in a real kernel: typed cells, unwatched cells, and cells under other magics."""

import pytest
from support.kernels import TIMEOUT, Kernel

pytestmark = pytest.mark.kernel

PROVIDERS = """
def register(name, answers): nbagent.register_provider(name, lambda **_: ScriptedProvider(answers, model=name + '-1'))
register('echo', lambda messages, functions: messages[0].text)
register('broken', [nbagent.errors.ServerError('no')])
"""
TOOLS = """
@tool
def size(n: int) -> int:
    '''Size of n.'''
    return n * 10
@tool
def name(n: int) -> str:
    '''Name of n.'''
    return str(n)
"""
#: An answer in each form, the value that `-o` stores, and what its HTML shows.
ANSWERS = {
    "markdown": ("**two** cities", "**two** cities", "<strong>two</strong>"),
    "text": ("**two** <b>cities</b>\n  x", "**two** <b>cities</b>\n  x", "**two** &lt;b&gt;cities&lt;/b&gt;\n  x"),
    "json": ('```json\n{"n": [1, 2]}\n```', {"n": [1, 2]}, "<summary>"),
    "code": ("```python\nx = 1\n```", "x = 1", '<span class="nbagent-number">1</span>'),
    "df": ("| city | people |\n|--|--|\n| Bonn | 331,885 |", {"city": ["Bonn"], "people": [331885]}, "<summary>"),
}


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    with Kernel(tmp_path_factory.mktemp("kernel"), env={"ANTHROPIC_API_KEY": "sk-never-sent"}) as kernel:
        kernel.ok(PROVIDERS + TOOLS + "from nbagent.notebook.display import approval\napproval.SHOWN_SOON_S = 0.05")
        yield kernel


@pytest.fixture
def kernel(shared):
    shared.ok("agent = Agent(tools=nbagent.live)\n_agent = kept = None")
    return shared


def script(kernel, *turns):
    kernel.ok(f"agent.provider = ScriptedProvider([{', '.join(turns)}])")


def answered(kernel, way, form, turn):
    """Run a cell in one of these ways. Returns its display and its result as text."""
    script(kernel, repr(turn))
    code = f"%%agent --as {form} -o kept\nx"
    if way == "capture":
        kernel.ok(f"%%capture captured\n{code}")
        *_, last, result = kernel.ok("captured.show()").displays
        return last, result["text/plain"]
    cell = kernel.ok(code, allow_stdin=way == "typed")
    return cell.displays[-1], cell.result


# -- the form of the answer -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("form", "way"), [*((form, "typed") for form in ANSWERS), ("json", "headless"), ("df", "capture")]
)
def test_each_form_is_kept_returned_and_shown(kernel, form, way):
    answer, value, html = ANSWERS[form]
    bundle, returned = answered(kernel, way, form, answer)
    assert answer.splitlines()[0] in bundle["text/plain"]
    assert html in bundle["text/html"]
    kept = "kept.to_dict('list')" if form == "df" else "kept"
    assert kernel.value(f"{kept}, _agent.content") == (value, answer)
    assert bool(returned) == (form in ("json", "df"))
    if form == "df":
        assert "331885" in returned


def test_code_goes_into_a_cell_below_and_running_again_adds_one_only_for_other_code(kernel):
    first, second = repr(ANSWERS["code"][0]), "'```python\\nx = 2\\n```'"
    script(kernel, first, first, second, second)

    def run_again(options=""):
        cell = kernel.ok(f"%%agent --as code {options}\nx", cell_id="makes code")
        return cell.reply["content"]["payload"], cell.stdout

    def made(text):
        return [{"source": "set_next_input", "text": text, "replace": False}]

    assert run_again() == (made("x = 1"), "")
    assert run_again() == ([], "The code is the same as before, so no cell was added. --keep adds one.\n")
    payload, said = run_again()
    assert payload == made("x = 2")
    assert "still there" in said
    assert run_again("--keep")[0] == made("x = 2")


def test_the_form_is_asked_for_in_the_request_and_not_kept_in_the_conversation(kernel):
    script(kernel, "'[1]'", "'fine'")
    kernel.ok("%%agent --as json -s 'Be brief.'\nx")
    kernel.ok("%%agent\ny")
    first, second = kernel.value("[messages[0].text for messages, _ in agent.provider.requests]")
    assert first.startswith("Be brief.\n\nYour final answer is one JSON value")
    assert second == "Be brief."
    texts = kernel.value("[message.text for message in agent.conversation_history]")
    assert texts == ["Be brief.", "x", "[1]", "y", "fine"]


def test_an_answer_of_another_form_fails_the_cell_and_is_not_lost(kernel):
    script(kernel, "'There are **none**.'")
    cell = kernel.run("%%agent --as df -o kept\nx")
    assert (cell.status, cell.error) == ("error", "ExtractionError")
    assert "--as df: there is no table in the answer. The answer is in _agent.content" in cell.traceback
    assert "File " not in cell.traceback
    assert "<strong>none</strong>" in cell.html
    said = "There are **none**."
    assert kernel.value("_agent.content, kept, agent.conversation_history[-1].text") == (said, None, said)


# -- what would be sent -----------------------------------------------------------------------------------------------


def state(kernel):
    return kernel.value(
        "[m.text for m in agent.conversation_history], agent.system_prompt, agent.provider.provider_name, "
        "agent.trace.runs.shape, len(agent.trace.calls), kept, 'nobody' in globals(), _agent and _agent.content"
    )


def test_a_dry_run_shows_the_request_and_changes_nothing(kernel):
    script(kernel, "FunctionCall('size', {'n': 2}, 'c')", "'20 it is'", "'after'")
    kernel.ok("%%agent\nfirst {{question}}", cell_id="a")
    before = state(kernel)
    line = "-m claude:claude-sonnet-5 --thinking low -t size -s 'Be brief.' --as df -o kept --dry-run"
    cell = kernel.ok(f"%%agent {line}\nand {{1 + 1}}?", cell_id="b")
    assert len(cell.displays) == 1
    text = cell.text
    for part in (
        "nothing was sent", "system: Be brief.\n\nYour final answer is one Markdown table", "user: first {question}",
        "assistant: ▸ size(n=2)", "result of size: 20", "assistant: 20 it is", "user: and 2?", "tool: size(n)",
        "claude-sonnet-5", "thinking level low", "6 messages", "1 tool", "tokens",
    ):  # fmt: skip
        assert part in text
    assert "tool: name" not in text
    assert cell.result == ""
    assert state(kernel) == before
    kernel.ok("%%agent nobody --dry-run\nx")
    kernel.ok("%%agent --new --dry-run\nx", cell_id="a")
    assert state(kernel) == before
    assert "after" in kernel.ok("%%agent\nthen").text


def test_a_cell_s_dry_run_omits_its_own_last_turn(kernel):
    script(kernel, "'a'", "'b'")
    kernel.ok("%%agent\nold words", cell_id="cell")
    assert "old words" not in kernel.ok("%%agent --dry-run\nnew words", cell_id="cell").text
    assert "old words" in kernel.ok("%%agent --dry-run --keep\nnew words", cell_id="cell").text
    kernel.ok("%%agent\nnew words", cell_id="cell")
    assert kernel.value("[m.text for m in agent.conversation_history]") == ["new words", "b"]


# -- every other option -----------------------------------------------------------------------------------------------


def test_approve_asks_before_each_call_of_this_cell_only(kernel):
    call = "FunctionCall('size', {'n': 2}, 'c')"
    script(kernel, call, "'no'", call, "'free'")
    cell = kernel.send("%%agent --approve\nx")
    assert "size(n=2)" in kernel.client.get_stdin_msg(timeout=TIMEOUT)["content"]["prompt"]
    kernel.client.input("n")
    kernel.wait(cell)
    kernel.ok("%%agent\nx", allow_stdin=False)
    assert kernel.value("agent.trace.tool_calls['approval'].tolist()") == ["denied", "auto"]


def test_the_model_is_switched_permanently_unless_it_does_not_answer(kernel):
    assert kernel.run("%%agent -m broken\nfirst").error == "ServerError"
    assert kernel.ok("agent.provider_or_spec").result == "", "the choice is still open"
    script(kernel, "'one'", "'two'")
    kernel.ok("%%agent\nfirst")
    assert kernel.run("%%agent -m broken\nsecond").error == "ServerError"
    assert "two" in kernel.ok("%%agent\nsecond").text
    assert kernel.run("%%agent -m echo --as json\nno JSON").error == "ExtractionError", "an answer all the same"
    assert "first" in kernel.ok("%%agent\nthird").text, "the conversation stays"
    assert kernel.value("agent.provider.model_name") == "echo-1"


def test_tools_are_chosen_for_a_cell(kernel):
    script(kernel, *(["'ok'"] * 4))
    for line in ("", "-t size", "-t 'name, size'", "--no-tools"):
        kernel.ok(f"%%agent {line}\nx")
    offered = kernel.value("[[each['name'] for each in tools] for _, tools in agent.provider.requests]")
    assert offered == [["size", "name"], ["size"], ["name", "size"], []]


def test_iterations_temperature_and_thinking_come_from_the_cell(kernel):
    script(kernel, *(["FunctionCall('size', {'n': 2}, 'c')"] * 2), "'over'")
    kernel.ok("%%agent --max-iterations 2 --temperature 0.25 --thinking high\nx")
    assert kernel.value("_agent.iterations, _agent.limit_reason") == (2, "iterations")
    kernel.ok("%%agent\nx")
    first, second, third = kernel.value("agent.trace.calls['params'].tolist()")
    assert first == second
    assert [part in first for part in ("0.25", "high")] == [True, True]
    assert [part in str(third) for part in ("0.25", "high")] == [False, False]


def test_braces_are_replaced_except_with_raw_and_new_starts_over(kernel):
    script(kernel, "'a'", "'b'")
    kernel.ok("%%agent\n{2 / 3:.2f} of {'it'.upper()!r} {missing:1}")
    failed = kernel.run("%%agent\n{agent:.2f}?")
    assert "{agent:.2f}: TypeError: unsupported format string" in failed.stderr + failed.traceback
    texts = "[m.text for m in agent.conversation_history]"
    assert kernel.value(texts) == ["0.67 of 'IT' {missing:1}", "a"]
    kernel.ok("%%agent --new --raw\n{1 + 1} {{x}} {missing}")
    assert kernel.value(texts) == ["{1 + 1} {{x}} {missing}", "b"]


def test_an_agent_with_another_name(kernel):
    kernel.ok("analyst = Agent(ScriptedProvider(['mine']))")
    kernel.ok("%%agent analyst\nx")
    assert kernel.value("len(analyst.conversation_history), len(agent.conversation_history)") == (2, 0)
    assert kernel.run("%%agent newcomer -t missing\nx").error == "ConfigurationError"
    assert kernel.value("'newcomer' in globals()") is False
    kernel.ok("%%agent newcomer -m echo\nx")
    assert kernel.value("newcomer.provider.model_name, len(newcomer.conversation_history)") == ("echo-1", 2)


def test_a_variable_in_the_line_is_one_value(kernel):
    """IPython would insert its text into the line, where its words would become options."""
    script(kernel, "'a'", "'b'")
    kernel.ok("text, math, n = '-o math --new', 1, 2")
    for prefix in ("", "%%time\n"):
        kernel.ok(prefix + "%%agent -s {text}\nIs {n} even?")
        assert kernel.value("agent.system_prompt, math") == ("-o math --new", 1)


def test_a_tool_of_the_provider_is_named_like_the_others(kernel):
    script(kernel, "'x'", "'y'")
    kernel.ok("%%agent -t web_search,size\nx")
    kernel.ok("%agent tools add web_search")
    kernel.ok("%%agent\ny")
    offered = kernel.value("[{tool['name'] for tool in tools} for _, tools in agent.provider.requests]")
    assert offered == [{"size", "web_search"}, {"size", "name", "web_search"}]
    kernel.ok("agent.function_registry.unregister('web_search')\nagent.provider = 'open_source:m'")
    refused = kernel.run("%%agent -t code_execution\nx").traceback
    assert "code_execution: open_source has no such tool of its own. Providers that have it: openai, claude" in refused
