"""The options of `%%agent` in a real kernel: typed cells, unwatched cells, and cells under other magics."""

import pytest
from support.kernels import TIMEOUT, Kernel

pytestmark = pytest.mark.kernel

ECHO = """
nbagent.register_provider('echo', lambda **options: ScriptedProvider(lambda m, f: m[0].text, model='echo-1'))
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
#: An answer in each form, and the value that `-o` stores.
ANSWERS = {
    "markdown": ("**two** cities", "**two** cities"),
    "text": ("**two** <b>cities</b>\n  x", "**two** <b>cities</b>\n  x"),
    "json": ('```json\n{"n": [1, 2]}\n```', {"n": [1, 2]}),
    "code": ("```python\nx = 1\n```", "x = 1"),
    "df": ("| city | people |\n|--|--|\n| Bonn | 331,885 |", {"city": ["Bonn"], "people": [331885]}),
}


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    with Kernel(tmp_path_factory.mktemp("kernel"), env={"ANTHROPIC_API_KEY": "sk-never-sent"}) as kernel:
        kernel.ok(ECHO + TOOLS + "from nbagent.notebook.display import approval\napproval.SHOWN_WITHIN_S = 0.05")
        yield kernel


@pytest.fixture
def kernel(shared):
    shared.ok("agent = Agent(tools=nbagent.live)\n_agent = kept = None")
    return shared


def script(kernel, *turns):
    kernel.ok(f"agent.provider = ScriptedProvider([{', '.join(turns)}])")


def answered(kernel, way, line, turn):
    """Run a cell in one of the ways. Returns its display and the text of its result."""
    script(kernel, turn)
    if way == "capture":
        kernel.ok(f"%%capture captured\n%%agent {line}\nx")
        shown = kernel.ok("captured.show()").displays
        *_, last = (bundle for bundle in shown if '<div class="nbagent' in bundle.get("text/html", ""))
        return last, "" if shown[-1] is last else shown[-1]["text/plain"]
    cell = kernel.ok(f"%%agent {line}\nx", allow_stdin=way == "typed")
    return cell.displays[-1], cell.result


# -- the form of the answer -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("form", "way"), [*((form, "typed") for form in ANSWERS), ("json", "headless"), ("df", "capture")]
)
def test_each_form_is_kept_returned_and_shown(kernel, form, way):
    answer, value = ANSWERS[form]
    bundle, returned = answered(kernel, way, f"--as {form} -o kept", repr(answer))
    assert answer.splitlines()[0] in bundle["text/plain"]
    kept = "kept.to_dict('list')" if form == "df" else "kept"
    assert kernel.value(f"{kept}, _agent.content") == (value, answer)
    assert bool(returned) == (form in ("json", "df"))
    assert ("<summary>" in bundle["text/html"]) == (form in ("json", "df")), "the text of data is folded away"
    if form == "df":
        assert "331885" in returned


def test_markdown_is_the_default_and_text_is_not_rendered(kernel):
    answer = repr(ANSWERS["text"][0])
    assert "<strong>two</strong>" in answered(kernel, "typed", "", answer)[0]["text/html"]
    plain = answered(kernel, "typed", "--as text", answer)[0]["text/html"]
    assert "**two** &lt;b&gt;cities&lt;/b&gt;\n  x" in plain


def test_code_is_put_into_a_cell_below_and_shown_in_colours(kernel):
    script(kernel, repr(ANSWERS["code"][0]))
    cell = kernel.ok("%%agent --as code\nx")
    assert cell.reply["content"]["payload"] == [{"source": "set_next_input", "text": "x = 1", "replace": False}]
    assert '<span class="nbagent-number">1</span>' in cell.html


def test_running_again_adds_a_cell_only_for_other_code(kernel):
    first, second = repr(ANSWERS["code"][0]), "'```python\\nx = 2\\n```'"
    script(kernel, first, first, second, second, second)

    def run_again(options=""):
        cell = kernel.ok(f"%%agent --as code {options}\nx", cell_id="makes code")
        return [each["text"] for each in cell.reply["content"]["payload"]], cell.stdout

    assert run_again() == (["x = 1"], "")
    assert run_again() == ([], "The code is the same as before: no cell was added. --keep adds one.\n")
    made, said = run_again()
    assert made == ["x = 2"]
    assert "still there" in said
    assert run_again()[0] == []
    assert run_again("--keep")[0] == ["x = 2"]


def test_running_again_replaces_the_code_where_the_front_end_can(kernel):
    script(kernel, *(f"'```python\\nx = {number}\\n```'" for number in (1, 2, 3)))
    kernel.ok("%%agent --as code\nx", cell_id="replaces code")
    kernel.ok("from nbagent.notebook.display.answer_buttons import answer_buttons")
    comm = kernel.value("answer_buttons().model_id")
    kernel.tell(comm, method="custom", content={"notebook": True})
    kernel.ok("while not answer_buttons().can_change_cells: await asyncio.sleep(0.01)")
    cell = kernel.ok("%%agent --as code\nx", cell_id="replaces code")
    assert cell.reply["content"]["payload"] == []
    cell = kernel.ok("%%agent --as code\nx", cell_id="another")
    assert cell.reply["content"]["payload"] == []
    wanted = [
        {"enter": {"code": "x = 1", "below": "replaces code"}},
        {"put": {"code": "x = 2", "below": "replaces code", "before": "x = 1"}},
        {"put": {"code": "x = 3", "below": "another", "before": None}},
    ]
    kernel.until(cell, lambda: [each for each in kernel.told(comm) if not each.keys() & {"runs"}] == wanted)


def test_the_form_is_asked_for_in_the_request_and_not_kept_in_the_conversation(kernel):
    script(kernel, "'[1]'", "'fine'")
    kernel.ok("%%agent --as json -s 'Be brief.'\nx")
    kernel.ok("%%agent\ny")
    first, second = kernel.value("[messages[0].text for messages, _ in agent.provider.requests]")
    assert first.startswith("Be brief.\n\nYour final answer is one JSON value")
    assert second == "Be brief."
    texts = kernel.value("[message.text for message in agent.conversation_history]")
    assert texts == ["Be brief.", "x", "[1]", "y", "fine"]


@pytest.mark.parametrize(
    "code", ["%%agent --as df -o kept\nx", "get_ipython().run_cell_magic('agent', '--as df -o kept', 'x')"]
)
def test_an_answer_of_another_form_fails_the_cell_and_is_not_lost(kernel, code):
    script(kernel, "'There are **none**.'")
    cell = kernel.run(code)
    assert (cell.status, cell.error) == ("error", "ExtractionError")
    assert "--as df: there is no table in the answer. The answer is in _agent.content" in cell.traceback
    assert "File " not in cell.traceback
    assert "<strong>none</strong>" in cell.html
    assert kernel.value("_agent.content, kept, agent.conversation_history[-1].text") == (
        "There are **none**.", None, "There are **none**.",
    )  # fmt: skip


@pytest.mark.local_model
def test_data_from_the_embedded_model_is_what_the_tool_returned(kernel):
    kernel.ok("""
def mean_mass(group: str) -> dict:
    '''Mean mass by group'''
    return {"Adelie": 3700.7, "Gentoo": 5076.0}
agent = Agent('local', tools=[mean_mass])
""")
    cell = kernel.ok("%%agent --as df -o kept\nmean mass by group species")
    assert kernel.value("kept.to_dict('records')") == [{"Adelie": 3700.7, "Gentoo": 5076.0}]
    assert "3700.7" in cell.result
    assert "gives **Adelie** 3700.7" in cell.text


# -- what would be sent -----------------------------------------------------------------------------------------------


def state(kernel):
    return kernel.value(
        "[m.text for m in agent.conversation_history], agent.system_prompt, agent.provider.vendor, "
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


def test_a_dry_run_shows_what_is_sent_later(kernel):
    script(kernel, "FunctionCall('size', {'n': 2}, 'c')", "'20'", "'b'", "'c'")
    kernel.ok("agent.context.max_messages = 5")
    kernel.ok("%%agent -s 'Be brief.'\nfirst")
    kernel.ok("%%agent\nsecond")
    kernel.ok("foreseen = agent.chat_stream('third', tools=['size'], instructions='In French.').preview()")
    kernel.ok("result = await agent.chat('third', tools=['size'], instructions='In French.')")
    assert kernel.ok("(foreseen.messages, foreseen.functions) == agent.provider.requests[-1]").result == "True"
    assert kernel.value("foreseen.notes") == ["trimmed 4 old messages"]
    kernel.ok("agent.conversation_history.append(nbagent.LLMMessage('tool', 'orphan', tool_call_id='none'))")
    assert "Before it is sent: repaired the history" in kernel.ok("%%agent --dry-run\nx").text


def test_a_dry_run_of_a_cell_leaves_out_its_own_last_turn(kernel):
    script(kernel, "'a'", "'b'")
    kernel.ok("%%agent\nold words", cell_id="cell")
    assert "old words" not in kernel.ok("%%agent --dry-run\nnew words", cell_id="cell").text
    assert "old words" in kernel.ok("%%agent --dry-run --keep\nnew words", cell_id="cell").text
    kernel.ok("%%agent\nnew words", cell_id="cell")
    assert kernel.value("[m.text for m in agent.conversation_history]") == ["new words", "b"]


# -- every other option -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("prefix", ["", "%%time\n"])
def test_approve_asks_before_each_call_of_this_cell_only(kernel, prefix):
    call = "FunctionCall('size', {'n': 2}, 'c')"
    script(kernel, call, "'yes'", call, "'no'", call, "'free'")
    for answer in ("y", "n"):
        cell = kernel.send(f"{prefix}%%agent --approve\nx")
        assert "size(n=2)" in kernel.client.get_stdin_msg(timeout=TIMEOUT)["content"]["prompt"]
        kernel.client.input(answer)
        kernel.wait(cell)
    kernel.ok("%%agent\nx", allow_stdin=False)
    assert kernel.value("agent.trace.tool_calls['approval'].tolist()") == ["approved", "denied", "auto"]


def test_the_model_is_switched_permanently_and_the_conversation_stays(kernel):
    script(kernel, "'one'")
    kernel.ok("%%agent\nfirst")
    assert "echo-1" in kernel.ok("%%agent -m echo\nsecond").text
    assert "first" in kernel.ok("%%agent\nthird").text
    assert kernel.value("agent.trace.calls['model'].tolist()") == ["scripted", "echo-1", "echo-1"]


def test_a_model_that_does_not_answer_is_not_kept(kernel):
    script(kernel, "'one'", "'two'")
    kernel.ok(
        "nbagent.register_provider('broken', lambda **options: ScriptedProvider([nbagent.errors.ServerError('no')]))"
    )
    kernel.ok("nbagent.register_provider('buggy', lambda **options: ScriptedProvider([ZeroDivisionError('no')]))")
    assert kernel.run("%%agent -m buggy\nfirst").error == "ZeroDivisionError"
    assert kernel.run("%%agent -m broken\nfirst").error == "ServerError"
    assert "one" in kernel.ok("%%agent\nsecond").text
    assert kernel.run("%%agent -m echo --as json\nno JSON").error == "ExtractionError"
    assert kernel.value("agent.provider.model_name") == "echo-1"


def test_a_model_that_does_not_answer_leaves_the_choice_open(kernel):
    kernel.ok(
        "nbagent.register_provider('broken', lambda **options: ScriptedProvider([nbagent.errors.ServerError('no')]))"
    )
    assert kernel.run("%%agent -m broken\nfirst").error == "ServerError"
    assert kernel.ok("agent.provider_or_spec").result == ""


def test_tools_are_chosen_for_a_cell(kernel):
    script(kernel, *(["'ok'"] * 4))
    for line in ("", "-t size", "-t 'name, size'", "--no-tools"):
        kernel.ok(f"%%agent {line}\nx")
    offered = kernel.value("[[each['name'] for each in tools] for _, tools in agent.provider.requests]")
    assert offered == [["size", "name"], ["size"], ["name", "size"], []]


def test_the_system_prompt_is_set_and_taken_away(kernel):
    script(kernel, "'a'", "'b'", "'c'")
    kernel.ok("""%%agent -s "Say 'yes'"\nx""")
    assert kernel.value("agent.system_prompt") == "Say 'yes'"
    kernel.ok("%%agent\nx")
    assert kernel.value("agent.system_prompt") == "Say 'yes'"
    kernel.ok("%%agent -s ''\nx")
    assert kernel.ok("agent.system_prompt is None").result == "True"


def test_iterations_and_temperature_are_those_of_the_cell(kernel):
    script(kernel, *(["FunctionCall('size', {'n': 2}, 'c')"] * 3), "'over'")
    kernel.ok("%%agent --max-iterations 2 --temperature 0.25 --thinking high\nx")
    assert kernel.value("_agent.iterations, _agent.limit_reason") == (2, "iterations")
    kernel.ok("%%agent --temp 0\nx")
    first, second, third, _ = kernel.value("agent.trace.calls['params'].tolist()")
    assert first == second
    assert "0.25" in str(first)
    assert "high" in str(first)
    assert "0.25" not in str(third)
    assert "high" not in str(third)


def test_values_are_formatted_as_in_an_f_string(kernel):
    script(kernel, "'a'")
    kernel.ok("%%agent --new\n{2 / 3:.2f} of {'it'.upper()!r} {missing:1}")
    assert kernel.value("agent.conversation_history[0].text") == "0.67 of 'IT' {missing:1}"
    failed = kernel.run("%%agent\n{agent:.2f}?")
    assert (failed.status, failed.error) == ("error", "UsageError")
    assert "{agent:.2f}: TypeError: unsupported format string" in failed.stderr + failed.traceback
    assert kernel.value("len(agent.conversation_history)") == 2


def test_new_forgets_and_raw_leaves_braces(kernel):
    script(kernel, "'a'", "'b'")
    kernel.ok("%%agent\nx")
    kernel.ok("%%agent --new --raw\n{1 + 1} {{x}} {missing}")
    assert kernel.value("[m.text for m in agent.conversation_history]") == ["{1 + 1} {{x}} {missing}", "b"]


def test_an_agent_of_another_name(kernel):
    kernel.ok("analyst = Agent(ScriptedProvider(['mine']))")
    kernel.ok("%%agent analyst\nx")
    assert kernel.value("len(analyst.conversation_history), len(agent.conversation_history)") == (2, 0)
    assert kernel.run("%%agent newcomer -t missing\nx").error == "ConfigurationError"
    assert kernel.value("'newcomer' in globals()") is False
    kernel.ok("%%agent newcomer -m echo\nx")
    assert kernel.value("newcomer.provider.model_name, len(newcomer.conversation_history)") == ("echo-1", 2)


@pytest.mark.parametrize("prefix", ["", "%%time\n"])
def test_a_wrong_option_raises_an_error_with_a_suggestion(kernel, prefix):
    script(kernel, "'x'")
    cell = kernel.run(f"{prefix}%%agent --as jsn\nx")
    assert "got 'jsn'; did you mean json?" in cell.stderr + cell.traceback
    assert kernel.value("agent.conversation_history, len(agent.provider.requests)") == ([], 0)


def test_an_option_that_the_model_refuses_raises_before_anything_changes(kernel):
    script(kernel, "'x'")
    cell = kernel.run("%%agent -m claude:claude-3-haiku -s 'New.' --thinking high\nx")
    assert "does not think" in cell.traceback
    assert kernel.value("agent.provider.vendor, agent.system_prompt, agent.conversation_history") == (
        "scripted", None, [],
    )  # fmt: skip


def test_a_variable_in_the_line_is_one_value(kernel):
    """IPython would put its text into the line, where its words would be options."""
    script(kernel, "'a'", "'b'")
    kernel.ok("text, math, n = '-o math --new', 1, 2")
    for cell in ("%%agent -s {text}\nIs {n} even?", "%%time\n%%agent -s {text}\nIs {n} even?"):
        kernel.ok(cell)
        assert kernel.ok("agent.system_prompt, math").result == "('-o math --new', 1)"


def test_a_tool_of_the_vendor_is_named_like_the_others(kernel):
    script(kernel, "'x'", "'y'", "'z'")
    kernel.ok("%%agent -t web_search,size\nx")
    assert kernel.ok("[tool['name'] for tool in agent.provider.requests[-1][1]]").result == "['size', 'web_search']"
    kernel.ok("%%agent\ny")
    assert "web_search" not in kernel.ok("[tool['name'] for tool in agent.provider.requests[-1][1]]").result
    kernel.ok("%agent tools add web_search")
    kernel.ok("%%agent\nz")
    assert "web_search" in kernel.ok("[tool['name'] for tool in agent.provider.requests[-1][1]]").result
    kernel.ok("agent.function_registry.unregister('web_search')\nagent.provider = 'open_source:m'")
    failed = kernel.run("%%agent -t code_execution\nx")
    assert (
        "code_execution: open_source has no such tool of its own. Vendors that have it: openai, claude, gemini"
        in failed.traceback
    )
