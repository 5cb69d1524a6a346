"""The scenarios of the first plans, over HTTP: one tool, several, wrong arguments, limits, failures."""

import pytest
from support.serving import served

from nbagent import Agent, FunctionCall, ScriptedProvider, SkillHost


@pytest.fixture(scope="module")
def skills():
    return SkillHost(builtin=True, discover=False)


def call(name, **arguments):
    return FunctionCall(name, arguments)


def asked(turns, skills, body=None, **options):
    """What a served agent answers whose model takes these turns."""
    agent = Agent(ScriptedProvider(turns), **options)
    agent.use(skills)
    with served(agent) as server:
        answer = server.client().post("/agent/chat", json={"message": "Please.", **(body or {})})
    assert answer.status_code == 200, answer.text
    data = answer.json()
    assert set(data) == {"success", "response", "conversation_id", "trace_id", "tool_calls", "meta"}
    for each in data["tool_calls"]:
        assert set(each) == {"tool", "arguments", "validated", "result"}
    return data


def test_several_tools_at_once(skills):
    turns = [[call("calculator", numbers=[1, 2, 3, 4, 5]), call("echo", text="hello")], "Both."]
    data = asked(turns, skills)
    assert [each["tool"] for each in data["tool_calls"]] == ["calculator", "echo"]  # in the order of the calls


@pytest.mark.parametrize(
    ("tool", "wrong", "right", "field"),
    [
        ("calculator", {"numbers": "many"}, {"numbers": [1, 2]}, "numbers"),
        ("file_search", {}, {"query": "x"}, "query"),
        ("file_search", {"query": "x", "limit": 10_000}, {"query": "x", "limit": 5}, "limit"),
    ],
)
def test_wrong_arguments_and_their_correction(skills, tool, wrong, right, field, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    data = asked([FunctionCall(tool, wrong), FunctionCall(tool, right), "Now it worked."], skills)
    first, second = data["tool_calls"]
    assert (first["validated"], second["validated"]) == (False, True)
    assert field in first["result"]["error"]
    assert "Correct the arguments" in first["result"]["error"]
    assert second["result"]["success"]
    assert data["success"]
    assert data["meta"]["validation_retries"] == 1


def test_the_limit_of_tool_calls(skills):
    turns = [call("echo", text=str(number)) for number in range(20)]
    data = asked(turns, skills)  # five by default
    assert not data["success"]
    assert data["meta"]["limit_reason"] == "tool_calls"
    assert sum(each["result"]["success"] for each in data["tool_calls"]) == 5


def test_the_limit_of_tokens(skills):
    turns = [call("echo", text=str(number)) for number in range(20)]
    data = asked(turns, skills, {"max_total_tokens": 4})
    assert not data["success"]
    assert data["meta"]["limit_reason"] == "tokens"


def test_a_tool_that_fails(skills):
    data = asked([call("file_search", query="x", root_dir="/no/such/folder"), "I can't find that folder."], skills)
    assert data["success"]  # the run is whole: the model read the error, and answered
    made = data["tool_calls"][0]
    assert made["validated"]
    assert not made["result"]["success"]
    assert made["result"]["error"]


def test_skills_over_http(skills):
    from support.serving import TOKEN

    from nbagent import ToolManager

    agent = Agent(ScriptedProvider([]))
    agent.use(skills)
    with served(agent) as server:
        client = server.client()
        listed = client.get("/skills").json()["skills"]
        assert {"echo", "calculator", "file-search", "log-transform"} <= {each["id"] for each in listed}
        assert client.get("/skills/calculator").json() in listed
        result = client.post("/skills/calculator/invoke", json={"arguments": {"numbers": [1, 3]}}).json()
        assert set(result) == {"success", "data", "error", "trace_id", "duration_ms"}
        assert (result["success"], result["data"]["results"], result["error"]) == (True, {"mean": 2}, None)
        broken = client.post(
            "/skills/calculator/invoke",
            content=b'{"arguments": {"numbers": [1, "\\ud800"]}}',
            headers={"Content-Type": "application/json"},
        )
        assert broken.status_code == 200  # half of a character can't be encoded
        wrong = client.post("/skills/calculator/invoke", json={"arguments": {"numbers": "many"}}).json()
        assert not wrong["success"]
        assert "numbers" in wrong["error"]
        for path in ("/skills/no-such", "/skills/activate_skill"):
            assert client.get(path).status_code == 404
        assert client.post("/skills/no-such/invoke", json={"arguments": {}}).status_code == 404

        manager = ToolManager(server.url, token=TOKEN)
        assert manager.invoke_tool("calculator", {"numbers": [1, 2, 3]}).data["results"] == {"mean": 2}
        assert manager.health()["status"] == "ok"


@pytest.mark.local_model
def test_the_embedded_model_over_http(skills):
    agent = Agent("local")
    agent.use(skills)
    with served(agent) as server:
        client = server.client()
        mean = client.post("/agent/chat", json={"message": "What is the mean of [1, 2, 3, 4, 5]?"}).json()
        assert mean["success"]
        assert mean["tool_calls"][0]["tool"] == "calculator"
        assert mean["tool_calls"][0]["arguments"]["numbers"] == [1, 2, 3, 4, 5]
        assert mean["meta"]["provider"] == "local"
        echo = client.post("/agent/chat", json={"message": 'Echo the text "hello".'}).json()
        assert echo["tool_calls"][0]["tool"] == "echo"
        assert "hello" in echo["response"]
