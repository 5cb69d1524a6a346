"""Agents with checks and plans behind the HTTP API: each conversation has its plan, and failures tell what to do."""

from support.serving import served

from nbagent import Agent, FunctionCall, ScriptedProvider


def post(client, message, **more):
    return client.post("/agent/chat", json={"message": message, **more})


def test_each_conversation_has_its_own_plan():
    def plans(messages, functions):
        """Plans what the user names, then tells what it was reminded of."""
        if messages[-1].role == "user" and "plan" in messages[-1].text and "<reminder>" not in messages[-1].text:
            return FunctionCall("update_plan", {"steps": [{"step": messages[-1].text}]})
        return messages[-1].text

    with served(Agent(ScriptedProvider(plans), plan=True)) as server:
        client = server.client()
        first, second = (post(client, f"plan {name}").json() for name in "ab")
        assert "1. [doing] plan a" in first["response"]
        assert "plan a" not in second["response"]
        again = post(client, "go on", conversation_id=first["conversation_id"]).json()
        assert "1. [doing] plan a" in again["response"]
        assert "plan a" not in post(client, "hello").json()["response"]


def test_refused_questions_and_answers():
    agent = Agent(
        ScriptedProvider(["wrong"] * 3),
        validators=[lambda answer: answer != "wrong"],
        guards=[lambda question: "secret" not in question],
    )
    with served(agent) as server:
        client = server.client()
        refused = post(client, "a secret")
        assert (refused.status_code, refused.json()["success"]) == (200, False)
        assert agent.provider.requests == []
        failed = post(client, "hello")
        assert (failed.status_code, failed.json()["code"]) == (502, "answer_rejected")
