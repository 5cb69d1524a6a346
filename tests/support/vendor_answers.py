"""Answers in which a vendor ran its own tools, as its documents describe them, for the loopback server."""

import json

from support.loopback import sse

RUBY = {"url": "https://www.ruby-lang.org/en/downloads/", "title": "Download Ruby"}
NEWS = {"url": "https://example.org/news?a=1&b=(2)", "title": 'Ruby "4.0.6" <b>'}
#: No link may lead there.
EVIL = {"url": "javascript:alert(1)", "title": "<img src=x onerror=alert(1)>"}

SEARCH = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "stable ruby"}}
FOUND = {
    "type": "web_search_tool_result",
    "tool_use_id": "srvtoolu_1",
    "content": [{"type": "web_search_result", **RUBY, "encrypted_content": "EugCCioIEhgC", "page_age": None}],
}
CITED = {"type": "web_search_result_location", **RUBY, "cited_text": "It is 4.0.6.", "encrypted_index": "Eo8BCioI"}
NEWS_CITED = {**CITED, **NEWS, "cited_text": "Ruby 4.0.6: a new stable version.", "encrypted_index": "Eo8BCioJ"}
#: The whole answer of Claude's: it searches, then cites.
BLOCKS = [
    SEARCH,
    FOUND,
    {"type": "text", "text": "It is "},
    {"type": "text", "text": "Ruby **4.0.6**", "citations": [CITED, NEWS_CITED]},
    {"type": "text", "text": "."},
]


def claude_stream(*blocks, reason="end_turn", searches=1, **told) -> bytes:
    """A Messages stream of these blocks, each in the pieces in which the API sends it; the end tells more."""
    start = {
        "id": "msg_1",
        "role": "assistant",
        "model": "claude-sonnet-5",
        "content": [],
        "usage": {"input_tokens": 9},
    }
    events = [{"type": "message_start", "message": start}]
    for index, block in enumerate(blocks):
        events += _block_events(index, block)
    usage = {"output_tokens": 5, "server_tool_use": {"web_search_requests": searches}}
    events += [
        {"type": "message_delta", "delta": {"stop_reason": reason, **told}, "usage": usage},
        {"type": "message_stop"},
    ]
    return "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events).encode()


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


ITEMS = [
    {"id": "rs_1", "type": "reasoning", "summary": [], "encrypted_content": "gAAAAABoydMo"},
    {
        "id": "ws_1",
        "type": "web_search_call",
        "status": "completed",
        "action": {"type": "search", "query": "stable ruby", "sources": [{"type": "url", "url": RUBY["url"]}]},
    },
    {
        "id": "msg_1",
        "type": "message",
        "status": "completed",
        "role": "assistant",
        "content": [
            {
                "type": "output_text",
                "text": "It is Ruby 4.0.6.",
                "logprobs": [],
                "annotations": [{"type": "url_citation", "start_index": 6, "end_index": 16, **RUBY}],
            }
        ],
    },
]


def responses_stream(*items) -> bytes:
    """A stream of the Responses API with these output items."""
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
    """A Gemini stream of these parts, each in a chunk of its own; what is told of the answer comes with the last."""
    chunks = [{"candidates": [{"content": {"parts": [part], "role": "model"}, "index": 0}]} for part in parts]
    chunks[-1]["candidates"][0] |= {"finishReason": "STOP", **candidate}
    chunks[-1]["usageMetadata"] = {"promptTokenCount": 9, "candidatesTokenCount": 5}
    return sse(*chunks, done=False)


#: Code that prints something and draws something, and a picture that the model asks for.
RAN = {"code": "print('<b>42</b>')\nplot()", "printed": "<b>42</b>\n"}


def openai_worked(drawn: str, made: str) -> bytes:
    """OpenAI searches, runs code that draws an image, and makes another one (both in Base64); the answer cites."""
    code = {
        "id": "ci_1",
        "type": "code_interpreter_call",
        "status": "completed",
        "container_id": "cntr_1",
        "code": RAN["code"],
        "outputs": [
            {"type": "logs", "logs": RAN["printed"]},
            {"type": "image", "url": f"data:image/png;base64,{drawn}"},
        ],
    }
    image = {"id": "ig_1", "type": "image_generation_call", "status": "completed", "result": made}
    image["revised_prompt"] = "A <i>Gentoo</i> that codes"
    (said,) = ITEMS[2]["content"]
    news = {"type": "url_citation", "start_index": 0, "end_index": 17, **NEWS}
    evil = {"type": "url_citation", "start_index": 0, "end_index": 17, **EVIL}
    cites = {**ITEMS[2], "content": [{**said, "annotations": [*said["annotations"], news, evil]}]}
    return responses_stream(ITEMS[0], ITEMS[1], code, image, cites)


def gemini_worked(drawn: str) -> bytes:
    """Gemini runs code that draws an image (in Base64), and searches; the answer cites."""
    parts = [
        {"executableCode": {"language": "PYTHON", "code": RAN["code"]}},
        {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": RAN["printed"]}},
        {"inlineData": {"mimeType": "image/png", "data": drawn}},
        {"text": "Né: it Ruby 4.0.6 is."},
    ]
    found = [{"web": {"uri": each["url"], "title": each["title"]}} for each in (RUBY, NEWS, EVIL)]
    support = {**GROUNDED["groundingSupports"][0], "groundingChunkIndices": [0, 1, 2]}
    told = {**GROUNDED, "groundingChunks": found, "groundingSupports": [support]}
    told["searchEntryPoint"] = {"renderedContent": "<style>body { display: none }</style><b>stable ruby</b>"}
    return gemini_stream(*parts, groundingMetadata=told)
