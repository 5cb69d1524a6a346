"""Providers' batch endpoints on loopback, as their documents describe them, and their live endpoints beside them.

- OpenAI: https://developers.openai.com/api/docs/guides/batch
- Claude: https://platform.claude.com/docs/en/build-with-claude/batch-processing
- Gemini: https://ai.google.dev/api/batch-api

A server refuses with a 400, and notes in `refusals`, whatever the documents don't allow. `outcome(question)` says what
becomes of a request in a batch: "ok", "error", "expired", "cancelled", "missing" (from the results) or "garbled".
"""

import asyncio
import json
import re
import time
from dataclasses import dataclass, field
from email.parser import BytesParser
from typing import ClassVar
from urllib.parse import urlsplit

from support.loopback import Answer, Loopback, claude_said, gemini_said, responses_said, said, sse

KEY = "sk-batch-0123456789"


class RefusedError(Exception):
    """A request that the documents don't allow."""


def require(condition, message):
    if not condition:
        raise RefusedError(message)


def as_json(value, status=200):
    return Answer(json.dumps(value, indent=2).encode(), status, {"content-type": "application/json"})


def as_lines(values, cut=0):
    """JSON lines. The connection breaks `cut` bytes before the end."""
    content = "".join(json.dumps(value) + "\n" for value in values).encode()
    return Answer(content[: len(content) - cut], 200, {}, "drop" if cut else "close")


@dataclass
class Batch:
    id: str
    #: `custom_id` -> the request's body.
    requests: dict
    name: str = ""
    endpoint: str = ""
    polls: int = 0
    state: str = "running"
    created: float = field(default_factory=time.time)

    @property
    def is_over(self):
        return self.state in ("ended", "cancelled")


class BatchServer(Loopback):
    """The parts that all providers' batch servers share. A batch ends at poll number `over_at`.

    `routes`: what answers "METHOD path", with the batch that the path names.
    """

    base = ""
    max_requests = 50_000
    max_bytes = 200 * 10**6
    routes: ClassVar[dict[str, str]]

    def __init__(self, outcome=lambda question: "ok", over_at=1):
        super().__init__()
        self.outcome, self.over_at = outcome, over_at
        self.batches: dict[str, Batch] = {}
        self.refusals: list[str] = []
        #: Questions that were asked live.
        self.live: list[str] = []
        #: Answers to be given before any of the server's own, by the beginning of "METHOD path".
        self.first: list[tuple[str, Answer]] = []
        #: Why a batch fails as a whole, or nothing.
        self.failure = ""
        #: Set when a batch was made, and when one was looked at.
        self.made, self.polled = asyncio.Event(), asyncio.Event()
        #: From this batch on, answers don't arrive.
        self.swallows = 10**9

    def answer_to(self, request):
        what = f"{request.method} {urlsplit(request.path).path}"
        for each in self.first:
            if what.startswith(each[0]):
                self.first.remove(each)
                return each[1]
        try:
            found = self.answer(request, what)
        except RefusedError as refused:
            self.refusals.append(f"{what}: {refused}")
            return as_json({"error": {"type": "invalid_request_error", "message": str(refused)}}, 400)
        if len(self.batches) >= self.swallows:
            return Answer(end="stall")
        return found if isinstance(found, Answer) else as_json(found)

    def answer(self, request, what):
        require(self.key(request.headers) == KEY, "no key")
        for pattern, name in self.routes.items():
            if found := re.fullmatch(pattern, what):
                batch, *more = found.groups() or (None,)
                require(batch is None or batch in self.batches, "no such batch")
                return getattr(self, name)(self.batches[batch] if batch else request, *more)
        raise RefusedError("no such address")

    def ask(self, request):
        self.live.append(self.question(request.json))
        return Answer(self.said(f"live {self.live[-1]}"))

    def take(self, requests, size, **more):
        """A new batch of `[(custom_id, body), …]`."""
        require(0 < len(requests) <= self.max_requests and size <= self.max_bytes, f"{len(requests)} requests")
        require(len(dict(requests)) == len(requests), "custom_id: not unique")
        batch = Batch(f"batch_{len(self.batches) + 1}", dict(requests), **more)
        self.batches[batch.id] = batch
        self.made.set()
        return self.object(batch)

    def list(self, _):
        return {"data": [self.object(each) for each in reversed(self.batches.values())], "has_more": False}

    def look(self, batch):
        batch.polls += 1
        self.polled.set()
        if batch.state == "cancelling":
            batch.state = "cancelled"
        elif batch.state == "running" and (self.failure or batch.polls >= self.over_at):
            batch.state = "failed" if self.failure else "ended"
        return self.object(batch)

    def cancel(self, batch):
        batch.state = "cancelling"
        return self.object(batch)

    def outcomes(self, batch):
        """`custom_id`, what became of the request, and what it asked."""
        for key, body in batch.requests.items():
            question = self.question(body)
            yield key, "cancelled" if batch.state == "cancelled" else self.outcome(question), question

    def question(self, body):
        content = body["messages"][-1]["content"]
        return content if isinstance(content, str) else content[-1]["text"]


class OpenAIServer(BatchServer):
    base = "/v1"
    routes: ClassVar = {
        r"POST /v1/chat/completions": "ask",
        r"POST /v1/files": "upload",
        r"GET /v1/files/(\w+)_(output|error)/content": "results",
        r"POST /v1/batches": "create",
        r"GET /v1/batches": "list",
        r"GET /v1/batches/(\w+)": "look",
        r"POST /v1/batches/(\w+)/cancel": "cancel",
    }

    def __init__(self, *args, **options):
        super().__init__(*args, **options)
        self.files: dict[str, bytes] = {}

    def key(self, headers):
        return headers.get("authorization", "").removeprefix("Bearer ")

    def said(self, text):
        return sse(said(text))

    def upload(self, request):
        head = f"Content-Type: {request.headers['content-type']}\r\n\r\n".encode()
        form = BytesParser().parsebytes(head + request.body)
        require(form.get_content_type() == "multipart/form-data" and not form.defects, f"not a form: {form.defects}")
        parts = {part.get_param("name", header="content-disposition"): part for part in form.get_payload()}
        require(set(parts) == {"purpose", "file"}, "fields of the form")
        require(parts["purpose"].get_payload().strip() == "batch", "purpose: expected batch")
        require(parts["file"].get_filename("").endswith(".jsonl"), "file: expected a .jsonl file")
        name = f"file{len(self.files) + 1}"
        self.files[name] = parts["file"].get_payload(decode=True)
        facts = {"bytes": len(self.files[name]), "created_at": 1, "filename": "x.jsonl", "purpose": "batch"}
        return {"id": name, "object": "file", "status": "processed", **facts}

    def create(self, request):
        body = request.json
        fields = {"input_file_id", "endpoint", "completion_window"}
        require(set(body) - {"metadata"} == fields, f"fields: {sorted(body)}")
        require(body["completion_window"] == "24h", "completion_window")
        require(body["endpoint"] in ("/v1/chat/completions", "/v1/responses"), "endpoint")
        content = self.files[body["input_file_id"]]
        lines = [json.loads(line) for line in content.splitlines()]
        for each in lines:
            require(set(each) == {"custom_id", "method", "url", "body"}, f"line: {sorted(each)}")
            require((each["method"], each["url"]) == ("POST", body["endpoint"]), "line: another endpoint")
            require(not each["body"].get("stream"), "line: a stream")
        name = (body.get("metadata") or {}).get("nbagent", "")
        requests = [(each["custom_id"], each["body"]) for each in lines]
        return self.take(requests, len(content), name=name, endpoint=body["endpoint"])

    def object(self, batch):
        found = [outcome for _, outcome, _ in self.outcomes(batch)]
        good = sum(each in ("ok", "garbled") for each in found) if batch.is_over else 0
        bad = len(found) - good if batch.is_over else 0
        words = {"running": "in_progress", "ended": "expired" if "expired" in found else "completed"}
        errors = {"object": "list", "data": [{"code": "token_limit_exceeded", "message": self.failure}]}
        return {
            "id": batch.id,
            "object": "batch",
            "errors": errors if batch.state == "failed" else None,
            "status": words.get(batch.state, batch.state),
            "output_file_id": f"{batch.id}_output" if good else None,
            "error_file_id": f"{batch.id}_error" if bad else None,
            "created_at": int(batch.created),
            "request_counts": {"total": len(found), "completed": good, "failed": bad},
            "metadata": {"nbagent": batch.name},
        }

    def results(self, batch, kind):
        return as_lines(line for goes_to, line in self.lines(batch) if goes_to == kind)

    def lines(self, batch):
        for key, outcome, question in reversed(list(self.outcomes(batch))):
            line = {"id": f"batch_req_{key}", "custom_id": key, "response": None, "error": None}
            failed = {"error": {"message": "The server had an error."}}
            bodies = {"ok": self.completion(f"batch {question}"), "garbled": {"choices": 7}, "error": failed}
            if outcome in bodies:
                status = 500 if outcome == "error" else 200
                line["response"] = {"status_code": status, "request_id": "r", "body": bodies[outcome]}
            else:
                line["error"] = {"code": f"batch_{outcome}", "message": "This request could not be executed."}
            yield {"ok": "output", "garbled": "output", "missing": ""}.get(outcome, "error"), line

    def completion(self, text):
        message = {"role": "assistant", "content": text, "refusal": None}
        choices = [{"index": 0, "message": message, "finish_reason": "stop"}]
        usage = {"prompt_tokens": 1000, "completion_tokens": 100, "total_tokens": 1100}
        return {"id": "chatcmpl-1", "object": "chat.completion", "model": "m", "choices": choices, "usage": usage}


class ResponsesServer(OpenAIServer):
    """The same, with the Responses API alone."""

    routes: ClassVar = {"POST /v1/responses": "ask"} | dict(list(OpenAIServer.routes.items())[1:])

    def said(self, text):
        return responses_said(text)

    def completion(self, text):
        content = [{"type": "output_text", "text": text, "annotations": []}]
        message = {"id": "msg_1", "type": "message", "role": "assistant", "status": "completed", "content": content}
        usage = {"input_tokens": 1000, "output_tokens": 100, "total_tokens": 1100}
        return {"id": "resp_1", "object": "response", "status": "completed", "output": [message], "usage": usage}

    def question(self, body):
        return super().question({"messages": body["input"]})


class ClaudeServer(BatchServer):
    max_requests = 100_000
    max_bytes = 256 * 10**6
    routes: ClassVar = {
        r"POST /v1/messages": "ask",
        r"POST /v1/messages/batches": "create",
        r"GET /v1/messages/batches": "list",
        r"GET /v1/messages/batches/(\w+)": "look",
        r"GET /v1/messages/batches/(\w+)/results": "results",
        r"POST /v1/messages/batches/(\w+)/cancel": "cancel",
    }

    def key(self, headers):
        """It has a header of its own, or is a bearer token."""
        require(re.fullmatch(r"\d{4}-\d\d-\d\d", headers.get("anthropic-version", "")), "anthropic-version: required")
        return headers.get("x-api-key") or headers.get("authorization", "").removeprefix("Bearer ")

    def said(self, text):
        return claude_said(text)

    def create(self, request):
        require(set(request.json) == {"requests"}, "fields")
        for each in request.json["requests"]:
            require(set(each) == {"custom_id", "params"}, "fields of a request")
            require(re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", each["custom_id"]), "custom_id")
            params = each["params"]
            require(params.get("max_tokens") and params.get("model"), "params: no max_tokens, or no model")
            require(not params.get("stream"), "params: a stream")
        requests = [(each["custom_id"], each["params"]) for each in request.json["requests"]]
        return self.take(requests, len(request.body))

    def object(self, batch):
        words = {"ok": "succeeded", "garbled": "succeeded", "cancelled": "canceled", "expired": "expired"}
        counts = dict.fromkeys(["processing", "succeeded", "errored", "canceled", "expired"], 0)
        for _, outcome, _ in self.outcomes(batch):
            counts[words.get(outcome, "errored") if batch.is_over else "processing"] += 1
        states = {"running": "in_progress", "cancelling": "canceling"}
        return {
            "id": batch.id,
            "type": "message_batch",
            "processing_status": states.get(batch.state, "ended"),
            "request_counts": counts,
            "created_at": time.strftime("%Y-%m-%dT%H:%M:%S.000000+00:00", time.gmtime(batch.created)),
            "results_url": f"{self.url}/v1/messages/batches/{batch.id}/results" if batch.is_over else None,
        }

    def results(self, batch):
        require(batch.is_over, "the batch has no results yet")
        outcomes = reversed(list(self.outcomes(batch)))
        results = [(key, self.result(outcome, question)) for key, outcome, question in outcomes]
        return as_lines({"custom_id": key, "result": result} for key, result in results if result)

    def result(self, outcome, question):
        about = {"id": "msg_1", "type": "message", "role": "assistant", "model": "claude-sonnet-5"}
        usage = {"input_tokens": 1000, "output_tokens": 100, "service_tier": "batch"}
        content = [{"type": "text", "text": f"batch {question}"}]
        error = {"type": "error", "error": {"type": "api_error", "message": "Broken."}, "request_id": None}
        return {
            "ok": {
                "type": "succeeded",
                "message": {**about, "content": content, "stop_reason": "end_turn", "usage": usage},
            },
            "garbled": {"type": "succeeded", "message": {"content": 7}},
            "error": {"type": "errored", "error": error},
            "expired": {"type": "expired"},
            "cancelled": {"type": "canceled"},
        }.get(outcome)


class GeminiServer(BatchServer):
    base = "/v1beta"
    max_bytes = 20 * 10**6
    routes: ClassVar = {
        r"POST /v1beta/models/[\w.-]+:(?:stream)?[gG]enerateContent": "ask",
        r"POST /v1beta/models/[\w.-]+:batchGenerateContent": "create",
        r"GET /v1beta/batches": "list",
        r"GET /v1beta/batches/(\w+)": "look",
        r"POST /v1beta/batches/(\w+):cancel": "cancel",
    }

    def key(self, headers):
        return headers.get("x-goog-api-key")

    def said(self, text):
        return gemini_said(text)

    def list(self, request):
        return {"operations": super().list(request)["data"]}

    def create(self, request):
        batch = request.json["batch"]
        require(set(batch) == {"displayName", "inputConfig"}, "fields of the batch")
        requests = batch["inputConfig"]["requests"]["requests"]
        for each in requests:
            require(set(each) == {"request", "metadata"} and "contents" in each["request"], "fields of a request")
        requests = [(each["metadata"]["key"], each["request"]) for each in requests]
        return self.take(requests, len(request.body), name=batch["displayName"])

    def object(self, batch):
        words = {"running": "RUNNING", "cancelling": "RUNNING", "ended": "SUCCEEDED"}
        state = f"BATCH_STATE_{words.get(batch.state, batch.state.upper())}"
        stats = {"requestCount": str(len(batch.requests))}
        metadata = {"displayName": batch.name, "state": state, "batchStats": stats}
        done = batch.is_over or batch.state == "failed"
        operation = {"name": f"batches/{batch.id}", "metadata": metadata, "done": done}
        if batch.state == "failed":
            operation["error"] = {"code": 3, "message": self.failure}
        elif batch.state == "ended":
            operation["response"] = {"inlinedResponses": {"inlinedResponses": list(self.responses(batch))}}
        return operation

    def responses(self, batch):
        usage = {"promptTokenCount": 1000, "candidatesTokenCount": 100}
        for key, outcome, question in self.outcomes(batch):
            content = {"parts": [{"text": f"batch {question}"}], "role": "model"}
            good = {"candidates": [{"content": content, "finishReason": "STOP"}], "usageMetadata": usage}
            bodies = {"ok": {"response": good}, "garbled": {"response": {"candidates": 7}}}
            if outcome != "missing":
                yield {"metadata": {"key": key}} | bodies.get(outcome, {"error": {"code": 13, "message": "Broken."}})

    def question(self, body):
        return body["contents"][-1]["parts"][-1]["text"]


SERVERS = {
    "openai:gpt-4.1-mini": OpenAIServer,
    "claude:claude-sonnet-5": ClaudeServer,
    "gemini:gemini-2.5-flash": GeminiServer,
}
