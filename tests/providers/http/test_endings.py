"""Answers that were blocked, refused or cut off, in all four formats: the result says so in the provider's words."""

import json

import pytest
from support.loopback import Answer

from nbagent import Agent

JSON = {"content-type": "application/json"}
CHAT, RESPONSES = ("open_source", {}), ("openai", {"api": "responses"})
CLAUDE, GEMINI = ("claude", {}), ("gemini", {})


def chat(finish, text="", **message):
    return {"choices": [{"message": {"role": "assistant", "content": text, **message}, "finish_reason": finish}]}


def responses(status, content=(), **more):
    return {"id": "r1", "status": status, "output": [{"type": "message", "content": list(content)}], **more}


def claude(stop, text="", **more):
    content = [{"type": "text", "text": text}] if text else []
    return {"id": "m1", "type": "message", "role": "assistant", "content": content, "stop_reason": stop, **more}


def gemini(finish, text="", **more):
    content = {"role": "model", "parts": [{"text": text}] if text else []}
    return {"candidates": [{"content": content, "finishReason": finish, **more}]}


ENDINGS = [
    (CHAT, chat("content_filter"), "blocked", "content_filter"),
    (CHAT, chat("stop", refusal="I can't help."), "blocked", "refused"),
    (CHAT, chat("length", "On"), "truncated", "length"),
    (RESPONSES, responses("incomplete", incomplete_details={"reason": "content_filter"}), "blocked", "content_filter"),
    (RESPONSES, responses("completed", [{"type": "refusal", "refusal": "No."}]), "blocked", "refused"),
    (RESPONSES, responses("incomplete", incomplete_details={"reason": "max_output_tokens"}), "truncated", "max_output"),
    (CLAUDE, claude("refusal", stop_details={"type": "refusal", "category": "cyber"}), "blocked", "refusal: cyber"),
    (CLAUDE, claude("max_tokens", "On"), "truncated", "max_tokens"),
    (GEMINI, gemini("SAFETY", finishMessage="Too sharp."), "blocked", "SAFETY: Too sharp."),
    (GEMINI, {"promptFeedback": {"blockReason": "BLOCKLIST"}}, "blocked", "BLOCKLIST"),
    (GEMINI, gemini("MAX_TOKENS", "On"), "truncated", "MAX_TOKENS"),
]


@pytest.mark.parametrize(("who", "body", "status", "words"), ENDINGS)
async def test_an_incomplete_answer_is_not_ok(loopback, connect, who, body, status, words):
    loopback.answers = [Answer(json.dumps(body).encode(), headers=JSON)]
    agent = Agent(connect(who[0], **who[1]))
    result = await agent.chat("Hi")
    assert (result.status, words in result.status_reason) == (status, True)
    assert str(result) == (result.content or result.status_reason) != ""
    run = agent.trace.runs.iloc[0]
    assert (run["status"], run["status_reason"]) == (status, result.status_reason)
    assert status in repr(agent.trace.transcript())


@pytest.mark.parametrize("calls", [False, True])
async def test_a_refused_prompt_leaves_the_history_unless_tools_have_run(loopback, connect, calls):
    def now() -> str:
        return "noon"

    use = {"type": "tool_use", "id": "t1", "name": "now", "input": {}}
    answers = [claude("end_turn", "Yes."), claude("refusal", "I"), claude("end_turn", "Well.")]
    answers[1:1] = [claude("tool_use") | {"content": [use]}] if calls else []
    loopback.answers = [Answer(json.dumps(body).encode(), headers=JSON) for body in answers]
    agent = Agent(connect(CLAUDE[0], **CLAUDE[1]), tools=[now])
    results = [await agent.chat(question) for question in ("One?", "Two?", "Three?")]
    sent = [message["content"][0].get("text") for message in loopback.requests[-1].json["messages"]]
    assert ("agent.undo()" in results[1].status_reason, "Two?" in sent) == (calls, calls)
    assert agent.trace.runs["prompt"].tolist() == ["One?", "Two?", "Three?"]
