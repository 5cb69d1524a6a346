"""Answers in which a provider ran its own tools, as documented, for the loopback server."""

import json

from support.loopback import named, sse

RUBY = {"url": "https://www.ruby-lang.org/en/downloads/", "title": "Download Ruby"}
NEWS = {"url": "https://example.org/news?a=1&b=(2)", "title": 'Ruby "4.0.6" <b>'}
#: No link may point there.
EVIL = {"url": "javascript:alert(1)", "title": "<img src=x onerror=alert(1)>"}

SEARCH = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "stable ruby"}}
FOUND = {
    "type": "web_search_tool_result",
    "tool_use_id": "srvtoolu_1",
    "content": [{"type": "web_search_result", **RUBY, "encrypted_content": "EugCCioIEhgC", "page_age": None}],
}
CITED = {"type": "web_search_result_location", **RUBY, "cited_text": "It is 4.0.6.", "encrypted_index": "Eo8BCioI"}
NEWS_CITED = {**CITED, **NEWS, "cited_text": "Ruby 4.0.6: a new stable version.", "encrypted_index": "Eo8BCioJ"}
#: Claude's whole answer: it searches, then cites.
BLOCKS = [
    SEARCH,
    FOUND,
    {"type": "text", "text": "It is "},
    {"type": "text", "text": "Ruby **4.0.6**", "citations": [CITED, NEWS_CITED]},
    {"type": "text", "text": "."},
]


def claude_stream(*blocks, reason="end_turn", searches=1, **told) -> bytes:
    """A Messages stream of these blocks, in the pieces that the API sends."""
    about = {"id": "msg_1", "role": "assistant", "model": "claude-sonnet-5", "content": []}
    usage = {"output_tokens": 5, "server_tool_use": {"web_search_requests": searches}}
    return named(
        {"type": "message_start", "message": {**about, "usage": {"input_tokens": 9}}},
        *(event for index, block in enumerate(blocks) for event in _block_events(index, block)),
        {"type": "message_delta", "delta": {"stop_reason": reason, **told}, "usage": usage},
        {"type": "message_stop"},
    )


def _block_events(index, block):
    deltas, begun = [], block
    if block["type"] == "text":
        begun = {"type": "text", "text": ""}
        deltas = [{"type": "citations_delta", "citation": each} for each in block.get("citations", ())]
        deltas.insert(0, {"type": "text_delta", "text": block["text"]})
    elif block["type"] == "server_tool_use":
        begun = {**block, "input": {}}
        deltas = [{"type": "input_json_delta", "partial_json": json.dumps(block["input"])}]
    elif block["type"] == "compaction":
        begun = {"type": "compaction", "content": None}
        deltas = [{**block, "type": "compaction_delta"}]
    return [
        {"type": "content_block_start", "index": index, "content_block": begun},
        *({"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas),
        {"type": "content_block_stop", "index": index},
    ]


_CITED = {"type": "url_citation", "start_index": 6, "end_index": 16, **RUBY}
_ANSWER = {"type": "output_text", "text": "It is Ruby 4.0.6.", "logprobs": [], "annotations": [_CITED]}
_ACTION = {"type": "search", "query": "stable ruby", "sources": [{"type": "url", "url": RUBY["url"]}]}
ITEMS = [
    {"id": "rs_1", "type": "reasoning", "summary": [], "encrypted_content": "gAAAAABoydMo"},
    {"id": "ws_1", "type": "web_search_call", "status": "completed", "action": _ACTION},
    {"id": "msg_1", "type": "message", "status": "completed", "role": "assistant", "content": [_ANSWER]},
]


def responses_stream(*items) -> bytes:
    events = []
    for index, item in enumerate(items):
        begun = {key: item[key] for key in ("id", "type") if key in item}
        events.append({"type": "response.output_item.added", "output_index": index, "item": begun})
        texts = [part["text"] for part in item["content"]] if item["type"] == "message" else []
        events += [{"type": "response.output_text.delta", "output_index": index, "delta": text} for text in texts]
        events.append({"type": "response.output_item.done", "output_index": index, "item": item})
    whole = {"id": "resp_1", "status": "completed", "model": "gpt-5.6-terra", "output": list(items)}
    usage = {"input_tokens": 9, "output_tokens": 5}
    return sse(*events, {"type": "response.completed", "response": {**whole, "usage": usage}}, done=False)


GROUNDED = {
    "webSearchQueries": ["stable ruby"],
    "groundingChunks": [{"web": {"uri": RUBY["url"], "title": RUBY["title"]}}],
    "groundingSupports": [
        # bytes: "é" is two
        {"segment": {"startIndex": 8, "endIndex": 18, "text": "Ruby 4.0.6"}, "groundingChunkIndices": [0]}
    ],
}


def gemini_stream(*parts, **candidate) -> bytes:
    """A Gemini stream of these parts, each in its own chunk. The last chunk has the grounding."""
    chunks = [{"candidates": [{"content": {"parts": [part], "role": "model"}, "index": 0}]} for part in parts]
    chunks[-1]["candidates"][0] |= {"finishReason": "STOP", **candidate}
    chunks[-1]["usageMetadata"] = {"promptTokenCount": 9, "candidatesTokenCount": 5}
    return sse(*chunks, done=False)


#: Code that prints and draws, and a picture that the model requests.
RAN = {"code": "print('<b>42</b>')\nplot()", "printed": "<b>42</b>\n"}


def openai_worked(drawn: str, made: str) -> bytes:
    """OpenAI searches, runs code that draws an image, generates another one (both in Base64), and cites."""
    outputs = [{"type": "logs", "logs": RAN["printed"]}, {"type": "image", "url": f"data:image/png;base64,{drawn}"}]
    code = {"id": "ci_1", "type": "code_interpreter_call", "container_id": "cntr_1", "code": RAN["code"]}
    image = {"id": "ig_1", "type": "image_generation_call", "revised_prompt": "A <i>Gentoo</i> that codes"}
    more = [{"type": "url_citation", "start_index": 0, "end_index": 17, **page} for page in (NEWS, EVIL)]
    cites = {**ITEMS[2], "content": [{**_ANSWER, "annotations": [_CITED, *more]}]}
    done = {"status": "completed"}
    return responses_stream(*ITEMS[:2], {**code, **done, "outputs": outputs}, {**image, **done, "result": made}, cites)
