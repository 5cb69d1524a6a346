"""The options in the line of a `%%agent` cell: their values, and the errors for wrong ones."""

import pytest
from IPython.core.error import UsageError

from nbagent.notebook.magics.agent_magic import AgentMagics
from nbagent.notebook.magics.options import parse


def parsed(line, **namespace):
    return parse(AgentMagics.agent, line, namespace)


def test_each_option_has_its_type():
    line = (
        "analyst -m a:b -t f,g -s 'Say \"yes\"' -o var --thinking low --max-iterations 3 --temperature 0.5 "
        "--new --keep --raw --approve --dry-run --map rows --shape Row"
    )
    assert vars(parsed(line)) == {
        "name": "analyst", "model": "a:b", "tools": ["f", "g"], "no_tools": False, "system": 'Say "yes"',
        "output": "var", "form": "markdown", "thinking": "low", "max_iterations": 3, "temperature": 0.5, "new": True,
        "keep": True, "raw": True, "approve": True, "write": False, "dry_run": True, "map": "rows", "shape": "Row",
    }  # fmt: skip


def test_omitted_options_are_left_to_the_agent():
    given = {name: value for name, value in vars(parsed("")).items() if value}
    assert given == {"name": "agent", "form": "markdown"}


@pytest.mark.parametrize(
    ("line", "name", "value"),
    [("--temp 0", "temperature", 0.0), ("-t 'f, g'", "tools", ["f", "g"]), ("-s ''", "system", ""),
     ("--system=brief", "system", "brief"), ("-s \"don't\"", "system", "don't"), ("--no-tools", "no_tools", True)],
)  # fmt: skip
def test_other_spellings(line, name, value):
    assert getattr(parsed(line), name) == value


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("--thinkin low --what", "there is no option --what"),
        ("--timeout 3", "there is no option --timeout"),
        ("--dryrun", "there is no option --dryrun; did you mean --dry-run?"),
        ("--as dataframe", "--as: expected one of markdown, text, json, code, df, got 'dataframe'"),
        ("--thinking hihg", "high, xhigh, max, got 'hihg'; did you mean high?"),
        ("--max-iterations many", "--max-iterations: expected a whole number, got 'many'"),
        ("--temperature hot", "--temperature: expected a number of at least 0 (most models take at most 2), got 'hot'"),
        ("-t size, name", "write the names without spaces"),
        ("-t size --no-tools", "give -t or --no-tools, not both"),
        ("-o class", "-o/--output: expected a variable name, got 'class'"),
        ("-o agent", "-o agent would overwrite the agent"),
        ("my-agent", "NAME: expected a variable name, got 'my-agent'"),
        ("agent and more", "unexpected 'and'"),
        ("-s 'open", "a quotation mark is not closed"),
        ("-o", "-o/--output: expected one argument"),
        ("--n", "ambiguous option: --n could match --no-tools, --new"),
    ],
)
def test_a_wrong_option_raises_an_error_with_a_suggestion(line, says):
    with pytest.raises(UsageError) as raised:
        parsed(line)
    assert says in str(raised.value)


@pytest.mark.parametrize(
    ("line", "text"),
    [("-s {text}", "-o math --new"), ("--system {text}", "a 'b"), ("--sys {text}", "{text}"), ("-s {text}", "")],
)
def test_a_value_s_words_are_not_options(line, text):
    given = vars(parsed(f"analyst --keep {line} --as df", text=text))
    assert given == {**vars(parsed("analyst --keep --as df")), "system": text}


def test_values_are_inserted_into_any_word():
    line = """--keep {name} -s "You know {topic!r} and {'a' + 'b'}." -m v:{model} --temperature {t} -t {f}"""
    options = parsed(line, name="analyst", topic="its", model="m", t=0.5, f="size,area")
    assert options.system == "You know 'its' and ab."
    assert (options.name, options.model, options.temperature) == ("analyst", "v:m", 0.5)
    assert options.tools == ["size", "area"]
    assert parsed("-s '{not an expression}'").system == "{not an expression}"


@pytest.mark.parametrize(("line", "says"), [("{x}", "variable name, got '-o math'"), ("-s {y}", "NameError")])
def test_a_wrong_value_raises_an_error(line, says):
    with pytest.raises(UsageError, match=says):
        parsed(line, x="-o math")
