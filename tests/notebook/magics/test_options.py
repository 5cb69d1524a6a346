"""The options in the line of a `%%agent` cell: their values, and the errors for wrong ones."""

import pytest
from IPython.core.error import UsageError

from nbagent.notebook.magics.agent_magic import AgentMagics
from nbagent.notebook.magics.options import parse


def parsed(line):
    return parse(AgentMagics.agent, line)


def test_each_option_has_its_type():
    line = (
        "analyst -m a:b -t f,g -s 'Say \"yes\"' -o var --as df --thinking low --max-iterations 3 --temperature 0.5 "
        "--new --keep --raw --approve --dry-run"
    )
    assert vars(parsed(line)) == {
        "name": "analyst", "model": "a:b", "tools": ["f", "g"], "no_tools": False, "system": 'Say "yes"',
        "output": "var", "form": "df", "thinking": "low", "max_iterations": 3, "temperature": 0.5, "new": True,
        "keep": True, "raw": True, "approve": True, "dry_run": True,
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
        ("--dryrun", "there is no option --dryrun; did you mean --dry-run?"),
        ("--aproove=1", "there is no option --aproove; did you mean --approve?"),
        ("--as dataframe", "--as: expected one of markdown, text, json, code, df, got 'dataframe'"),
        ("--as jsn", "got 'jsn'; did you mean json?"),
        (
            "--thinking hihg",
            "off, on, minimal, low, medium, high, xhigh, max, got 'hihg'; did you mean high?",
        ),
        ("--max-iterations many", "--max-iterations: expected a whole number, got 'many'"),
        ("--temperature hot", "--temperature: expected a number of at least 0 (most models take at most 2), got 'hot'"),
        ("--temperature -1", "expected a number of at least 0"),
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
