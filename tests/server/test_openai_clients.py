"""Third-party clients with a real server: they show its tool calls and never run them."""

import json
import os
import subprocess
from pathlib import Path

import openai
import pytest
from support.mcp_environment import CLIENTS, NODE
from support.serving import TOKEN, served
from support.small_agent import add, call

from nbagent import Agent, LLMResponse, ScriptedProvider

pytestmark = pytest.mark.full  # importing these frameworks takes longer than all other server tests


def answer(messages, functions):
    """Adds, then answers with the sum and the number of prompts."""
    last = messages[-1]
    if last.role == "tool":
        return f"It is {last.text}, after {sum(message.role == 'user' for message in messages)}."
    calls = [call("add", f"c{len(messages)}", a=1, b=2)]
    return LLMResponse("", calls, "tool_calls", {"thinking": "A sum."})


@pytest.fixture(scope="module")
def url():
    with served(Agent(ScriptedProvider(answer), tools=[add])) as server:
        yield f"{server.url}/v1"


@pytest.mark.parametrize("api", ["chat", "responses"])
async def test_pydantic_ai(url, api):
    from pydantic_ai import Agent as Client
    from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
    from pydantic_ai.providers.openai import OpenAIProvider

    model = {"chat": OpenAIChatModel, "responses": OpenAIResponsesModel}[api]
    async with openai.AsyncOpenAI(base_url=url, api_key=TOKEN) as sdk:
        client = Client(model("nbagent", provider=OpenAIProvider(openai_client=sdk)), instructions="Be brief.")
        first = await client.run("1 + 2?")
        assert first.output == "It is 3, after 1."
        parts = [part.part_kind for part in first.all_messages()[-1].parts]
        shown = ["builtin-tool-call", "builtin-tool-return"] if api == "responses" else []
        assert parts == ["thinking", *shown, "text"]
        assert first.usage.requests == 1
        async with client.run_stream("Again?", message_history=first.all_messages()) as second:
            assert "".join([text async for text in second.stream_text(delta=True)]) == "It is 3, after 2."


@pytest.mark.parametrize("api", ["chat", "responses"])
async def test_openai_agents(url, api):
    from agents import Agent as Client
    from agents import OpenAIChatCompletionsModel, OpenAIResponsesModel, RunConfig, Runner

    model = {"chat": OpenAIChatCompletionsModel, "responses": OpenAIResponsesModel}[api]
    quiet = RunConfig(tracing_disabled=True)
    async with openai.AsyncOpenAI(base_url=url, api_key=TOKEN) as sdk:
        client = Client(name="client", instructions="Be brief.", model=model("nbagent", sdk))
        first = await Runner.run(client, "1 + 2?", run_config=quiet)
        assert first.final_output == "It is 3, after 1."
        shown = ["tool_call_item"] if api == "responses" else []
        assert [item.type for item in first.new_items] == ["reasoning_item", *shown, "message_output_item"]
        question = [*first.to_input_list(), {"role": "user", "content": "Again?"}]
        second = Runner.run_streamed(client, question, run_config=quiet)
        async for _ in second.stream_events():
            pass
        assert second.final_output == "It is 3, after 2."
        if api == "responses":
            third = await Runner.run(
                client, "And again?", previous_response_id=second.last_response_id, run_config=quiet
            )
            assert third.final_output == "It is 3, after 3."


HERE = Path(__file__).with_name("clients")


@pytest.mark.parametrize(
    ("program", "count"),
    [([CLIENTS / "bin/python", HERE / "python_clients.py"], 6), ([NODE, HERE / "npm_clients.mjs"], 5)],
    ids=["litellm, llm, langchain", "openai and ai of npm"],
)
def test_clients_in_separate_environments(url, program, count, tmp_path):
    if not CLIENTS.exists():
        pytest.skip(f"{CLIENTS.name} is missing: `make test-all` installs it")
    offline = {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "LLM_USER_PATH": str(tmp_path)}
    environment = os.environ | offline | {"NODE_PATH": str(CLIENTS / "node_modules")}
    ran = subprocess.run([*program, url, TOKEN], capture_output=True, text=True, env=environment, timeout=300)
    assert ran.returncode == 0, ran.stderr
    answers = json.loads(ran.stdout)
    assert list(answers.values()) == [["It is 3, after 1.", "It is 3, after 2."]] * count
