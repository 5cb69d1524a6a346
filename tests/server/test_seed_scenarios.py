"""Skills over HTTP: called by a model, with wrong arguments too, and by a client."""

import pytest
from support.serving import TOKEN, served

from nbagent import Agent, FunctionCall, ScriptedProvider, SkillHost, ToolManager


@pytest.fixture(scope="module")
def skills():
    return SkillHost(builtin=True, discover=False)


def test_wrong_arguments_and_their_correction(skills, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    wrong, failing, right = {"limit": 5}, {"query": "x", "root_dir": "/no/such/folder"}, {"query": "x"}
    calls = [FunctionCall("file_search", arguments) for arguments in (wrong, failing, right)]
    agent = Agent(ScriptedProvider([*calls, "Now it worked."]))
    agent.use(skills)
    with served(agent) as server:
        data = server.client().post("/agent/chat", json={"message": "Please."}).json()
    assert set(data) == {"success", "response", "conversation_id", "trace_id", "tool_calls", "meta"}
    assert [set(each) for each in data["tool_calls"]] == [{"tool", "arguments", "validated", "result"}] * 3
    assert [each["validated"] for each in data["tool_calls"]] == [False, True, True]
    assert [each["result"]["success"] for each in data["tool_calls"]] == [False, False, True]
    told = data["tool_calls"][0]["result"]["error"]
    assert "query" in told
    assert "Correct the arguments" in told
    assert data["success"]
    assert data["meta"]["validation_retries"] == 1


def test_skills_over_http(skills):
    agent = Agent(ScriptedProvider([]))
    agent.use(skills)
    with served({"first": Agent(ScriptedProvider([])), "second": agent}) as server:
        client = server.client()
        listed = client.get("/skills").json()["skills"]
        assert {"echo", "calculator", "file-search", "log-transform"} <= {each["id"] for each in listed}
        assert client.get("/skills/calculator").json() in listed
        result = client.post("/skills/calculator/invoke", json={"arguments": {"numbers": [1, 3]}}).json()
        assert set(result) == {"success", "data", "error", "trace_id", "duration_ms"}
        assert (result["success"], result["data"]["results"], result["error"]) == (True, {"mean": 2}, None)
        wrong = client.post("/skills/calculator/invoke", json={"arguments": {"numbers": "many"}}).json()
        assert not wrong["success"]
        assert "numbers" in wrong["error"]
        for path in ("/skills/no-such", "/skills/activate_skill"):
            assert client.get(path).status_code == 404
            assert client.post(f"{path}/invoke", json={"arguments": {}}).status_code == 404

        manager = ToolManager(server.url, token=TOKEN)
        assert manager.invoke_tool("calculator", {"numbers": [1, 2, 3]}).data["results"] == {"mean": 2}
