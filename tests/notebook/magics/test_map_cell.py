"""`%%agent --map` accepts the options that it uses, and refuses all others by name."""

import asyncio
import json
from types import SimpleNamespace

import pandas as pd
import pytest
from IPython.core.error import UsageError

from nbagent import Agent, ScriptedProvider
from nbagent.errors import MissingDependencyError
from nbagent.notebook.magics.agent_magic import AgentMagics
from nbagent.notebook.magics.map_cell import OF_ROWS, check_map_options, map_cell
from nbagent.notebook.magics.options import parse

PARSER = AgentMagics.agent.parser
OPTIONS = {action.dest: action.option_strings for action in PARSER._actions if action.option_strings}


def given(line):
    return parse(AgentMagics.agent, line, {})


@pytest.mark.parametrize("name", sorted(OPTIONS.keys() - OF_ROWS - {"help"}))
def test_an_option_that_rows_do_not_use_is_refused_by_name(name):
    options = given("--map rows")
    setattr(options, name, "something")
    with pytest.raises(UsageError, match="can't be used with --map") as refused:
        check_map_options(options, PARSER)
    assert any(f" {option} " in str(refused.value) for option in OPTIONS[name])


async def test_what_rows_use_reaches_each_request():
    line = "--map rows -s 'Be brief.' --temperature 0.5 --thinking off --max-iterations 3 -o kept --no-tools"
    options, options_of_each = given(line), {"temperature": 0.5, "thinking": "off"}
    check_map_options(options, PARSER)
    agent = Agent(ScriptedProvider(lambda messages, tools: f"{messages[0].text} {messages[-1].text}"))
    shell = SimpleNamespace(user_ns={"rows": pd.Series(["a", "b"], name="word")})
    answers = await map_cell(shell, options, "{word}?", agent)
    assert answers["answer"].tolist() == ["Be brief. a?", "Be brief. b?"]
    assert shell.user_ns["kept"] is answers
    assert [json.loads(params) for params in agent.trace.calls["params"]] == [options_of_each] * 2


async def test_a_new_agent_with_answers_keeps_its_name_if_the_map_fails():
    async def answer(messages, tools):
        if messages[-1].text == "a":
            return "fine"
        while not agent.unfinished:
            await asyncio.sleep(0)
        raise MissingDependencyError("pip install b")

    agent = Agent(ScriptedProvider(answer))
    shell = SimpleNamespace(user_ns={"rows": pd.Series(["a", "b"], name="word")})
    with pytest.raises(MissingDependencyError, match="pip install b"):
        await map_cell(shell, given("other --map rows"), "{word}", agent)
    assert shell.user_ns.get("other") is agent
