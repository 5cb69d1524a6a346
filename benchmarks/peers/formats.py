"""Encodes a script's words and tool calls as chat completions, Responses or Messages."""

import json

FINAL = "All done."
NOW = 1_700_000_000


def word(i):
    """The i-th text delta: always four characters."""
    return f"w{i % 100:02d} "


def dumps(value):
    return json.dumps(value, separators=(",", ":"))


def sse(value, event=None):
    head = f"event: {event}\n" if event else ""
    return f"{head}data: {dumps(value)}\n\n".encode()


def parse(model):
    """'text-500-d5-l20' -> ('text', 500, {'d': 5.0, 'l': 20.0})"""
    kind, count, *options = model.rsplit("/", 1)[-1].split("-")
    return kind, int(count), {o[0]: float(o[1:]) for o in options}


def plan(model, results):
    """What the model says now: (text deltas, tool calls, thinking deltas)."""
    kind, count, options = parse(model)
    think = [word(i) for i in range(int(options.get("t", 0)))]
    if kind == "text":
        return [word(i) for i in range(count)], [], think
    if kind == "json":
        return [dumps({"text": "".join(map(word, range(count)))})], [], think
    answer = kind.startswith("fa")
    if kind == "fapar" and results:  # smolagents: one text for all the results
        results = count
    kind = kind.removeprefix("fa")
    if kind == "tools" and results < count:
        return [], [(f"call_{results}_0", "add", {"a": results, "b": 1})], think
    if kind == "par" and results < count:
        return [], [(f"call_0_{i}", "add", {"a": i, "b": 1}) for i in range(count)], think
    if answer:
        return [], [("call_end", "final_answer", {"answer": FINAL})], think
    return [FINAL], [], think


def usage_of(text, calls):
    return 10, len(text) + 8 * len(calls)


# ---------------------------------------------------------------- chat completions
def chat_json(model, text, calls, think, _usage):
    got, made = usage_of(text, calls)
    message = {"role": "assistant", "content": "".join(text) or None, "refusal": None}
    if think:
        message["reasoning_content"] = "".join(think)
    if calls:
        message["tool_calls"] = [
            {"id": i, "type": "function", "function": {"name": n, "arguments": dumps(a)}} for i, n, a in calls
        ]
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": NOW,
        "model": model,
        "choices": [
            {"index": 0, "message": message, "logprobs": None, "finish_reason": "tool_calls" if calls else "stop"}
        ],
        "usage": {"prompt_tokens": got, "completion_tokens": made, "total_tokens": got + made},
    }


def chat_sse(model, text, calls, think, usage):
    base = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": NOW, "model": model}

    def chunk(delta, finish=None):
        return sse(base | {"choices": [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}]})

    yield chunk({"role": "assistant", "content": ""})
    for piece in think:
        yield chunk({"reasoning_content": piece})
    for piece in text:
        yield chunk({"content": piece})
    for index, (id_, name, args) in enumerate(calls):
        raw = dumps(args)
        yield chunk(
            {
                "tool_calls": [
                    {"index": index, "id": id_, "type": "function", "function": {"name": name, "arguments": ""}}
                ]
            }
        )
        for piece in (raw[:6], raw[6:]):
            yield chunk({"tool_calls": [{"index": index, "function": {"arguments": piece}}]})
    yield chunk({}, "tool_calls" if calls else "stop")
    if usage:
        yield sse(base | {"choices": [], "usage": chat_json(model, text, calls, (), 1)["usage"]})
    yield b"data: [DONE]\n\n"


# ---------------------------------------------------------------- responses
def response_object(model, status, output, usage):
    return {
        "id": "resp_1",
        "object": "response",
        "created_at": NOW,
        "status": status,
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "metadata": {},
        "model": model,
        "output": output,
        "parallel_tool_calls": True,
        "temperature": 1.0,
        "tool_choice": "auto",
        "tools": [],
        "top_p": 1.0,
        "usage": usage,
    }


def responses_json(model, text, calls, think, _usage):
    got, made = usage_of(text, calls)
    usage = {
        "input_tokens": got,
        "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
        "output_tokens": made,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": got + made,
    }
    output = []
    if text:
        output.append(
            {
                "id": "msg_1",
                "type": "message",
                "role": "assistant",
                "status": "completed",
                "content": [{"type": "output_text", "text": "".join(text), "annotations": []}],
            }
        )
    output += [
        {
            "id": f"fc_{i}",
            "type": "function_call",
            "status": "completed",
            "call_id": i,
            "name": n,
            "arguments": dumps(a),
        }
        for i, n, a in calls
    ]
    return response_object(model, "completed", output, usage)


def responses_sse(model, text, calls, think, usage):
    done = responses_json(model, text, calls, think, usage)
    count = 0

    def event(type_, **fields):
        nonlocal count
        count += 1
        return sse({"type": type_, "sequence_number": count - 1, **fields}, type_)

    started = response_object(model, "in_progress", [], None)
    yield event("response.created", response=started)
    yield event("response.in_progress", response=started)
    for index, item in enumerate(done["output"]):
        at = {"output_index": index}
        if item["type"] == "message":
            at |= {"item_id": item["id"]}
            yield event(
                "response.output_item.added", output_index=index, item=item | {"status": "in_progress", "content": []}
            )
            part = {"type": "output_text", "text": "", "annotations": []}
            yield event("response.content_part.added", content_index=0, part=part, **at)
            for piece in text:
                yield event("response.output_text.delta", content_index=0, delta=piece, logprobs=[], **at)
            whole = "".join(text)
            yield event("response.output_text.done", content_index=0, text=whole, logprobs=[], **at)
            yield event("response.content_part.done", content_index=0, part=part | {"text": whole}, **at)
        else:
            at |= {"item_id": item["id"]}
            yield event(
                "response.output_item.added", output_index=index, item=item | {"status": "in_progress", "arguments": ""}
            )
            raw = item["arguments"]
            for piece in (raw[:6], raw[6:]):
                yield event("response.function_call_arguments.delta", delta=piece, **at)
            yield event("response.function_call_arguments.done", arguments=raw, name=item["name"], **at)
        yield event("response.output_item.done", output_index=index, item=item)
    yield event("response.completed", response=done)


# ---------------------------------------------------------------- anthropic messages
def messages_json(model, text, calls, think, _usage):
    got, made = usage_of(text, calls)
    content = []
    if think:
        content.append({"type": "thinking", "thinking": "".join(think), "signature": "sig"})
    if text:
        content.append({"type": "text", "text": "".join(text)})
    content += [{"type": "tool_use", "id": i, "name": n, "input": a} for i, n, a in calls]
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": content,
        "stop_reason": "tool_use" if calls else "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": got, "output_tokens": made},
    }


def messages_sse(model, text, calls, think, _usage):
    whole = messages_json(model, text, calls, think, _usage)

    def event(type_, **fields):
        return sse({"type": type_, **fields}, type_)

    yield event(
        "message_start",
        message=whole | {"content": [], "stop_reason": None, "usage": {"input_tokens": 10, "output_tokens": 1}},
    )
    for index, block in enumerate(whole["content"]):
        kind = block["type"]
        if kind == "thinking":
            start = {"type": kind, "thinking": "", "signature": ""}
            deltas = [{"type": "thinking_delta", "thinking": p} for p in think]
            deltas.append({"type": "signature_delta", "signature": "sig"})
        elif kind == "text":
            start = {"type": kind, "text": ""}
            deltas = [{"type": "text_delta", "text": p} for p in text]
        else:
            start = block | {"input": {}}
            raw = dumps(block["input"])
            deltas = [{"type": "input_json_delta", "partial_json": p} for p in ("", raw[:6], raw[6:])]
        yield event("content_block_start", index=index, content_block=start)
        for delta in deltas:
            yield event("content_block_delta", index=index, delta=delta)
        yield event("content_block_stop", index=index)
    yield event(
        "message_delta",
        delta={"stop_reason": whole["stop_reason"], "stop_sequence": None},
        usage={"output_tokens": whole["usage"]["output_tokens"]},
    )
    yield event("message_stop")


JSON = {"chat": chat_json, "responses": responses_json, "messages": messages_json}
SSE = {"chat": chat_sse, "responses": responses_sse, "messages": messages_sse}
