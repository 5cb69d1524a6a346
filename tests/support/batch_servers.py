"""Vendors' batch endpoints on loopback, as their documents describe them, and their live endpoints beside them.

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
from urllib.parse import parse_qs, urlsplit

from support.loopback import Answer, Loopback, claude_said, gemini_said, responses_said, said, sse

KEY = "sk-batch-0123456789"


class RefusedError(Exception):
    """A request that the documents don't allow."""


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


class BatchServer(Loopback):
    """What the vendors share. A batch is over at poll number `over_at`."""

    base = ""
    max_requests = 50_000
    max_bytes = 200 * 10**6

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
        #: The answers to batches that were made don't arrive.
        self.swallows = False

    def answer_to(self, request):
        path = urlsplit(request.path)
        what = f"{request.method} {path.path}"
        for each in self.first:
            if what.startswith(each[0]):
                self.first.remove(each)
                return each[1]
        try:
            self.check_head(request)
            found = self.answer(request, what, parse_qs(path.query))
        except RefusedError as refused:
            self.refusals.append(f"{what}: {refused}")
            return as_json({"error": {"type": "invalid_request_error", "message": str(refused)}}, 400)
        if self.swallows and self.made.is_set():
            return Answer(end="stall")
        return found if isinstance(found, Answer) else as_json(found)

    def take(self, requests, **more) -> Batch:
        """A new batch of `[(custom_id, body), …]`."""
        if not 0 < len(requests) <= self.max_requests:
            raise RefusedError(f"{len(requests)} requests")
        if len(dict(requests)) != len(requests):
            raise RefusedError("custom_id: not unique")
        batch = Batch(f"batch_{len(self.batches) + 1}", dict(requests), **more)
        self.batches[batch.id] = batch
        self.made.set()
        return batch

    def look(self, batch) -> Batch:
        """The batch at the next poll."""
        batch.polls += 1
        self.polled.set()
        if batch.state == "cancelling":
            batch.state = "cancelled"
        elif batch.state == "running" and self.failure:
            batch.state = "failed"
        elif batch.state == "running" and batch.polls >= self.over_at:
            batch.state = "ended"
        return batch

    def outcome_of(self, batch, body) -> str:
        return "cancelled" if batch.state == "cancelled" else self.outcome(self.question(body))

    @property
    def questions(self):
        """All questions that came in batches."""
        return [self.question(body) for batch in self.batches.values() for body in batch.requests.values()]


def as_json(value, status=200):
    return Answer(json.dumps(value, indent=2).encode(), status, {"content-type": "application/json"})


def as_lines(values, cut=0):
    """JSON lines; `cut` leaves out so many bytes at the end, and then the connection breaks."""
    content = "".join(json.dumps(value) + "\n" for value in values).encode()
    return Answer(content[: len(content) - cut], 200, {}, "drop" if cut else "close")


class OpenAIServer(BatchServer):
    base = "/v1"

    def __init__(self, *args, **options):
        super().__init__(*args, **options)
        self.files: dict[str, bytes] = {}

    def check_head(self, request):
        if request.headers.get("authorization") != f"Bearer {KEY}":
            raise RefusedError("no key")

    def answer(self, request, what, query):
        if what == "POST /v1/chat/completions":
            self.live.append(self.question(request.json))
            text = f"live {self.live[-1]}"
            usage = {"prompt_tokens": 1000, "completion_tokens": 100}
            return Answer(sse(said(text), {"choices": [], "usage": usage}))
        if what == "POST /v1/files":
            return self.upload(request)
        if what == "POST /v1/batches":
            return self.create(request.json)
        if what == "GET /v1/batches":
            latest = sorted(self.batches.values(), key=lambda each: -each.created)
            return {"object": "list", "data": [self.object(each) for each in latest], "has_more": False}
        if found := re.fullmatch(r"GET /v1/batches/(\w+)", what):
            return self.object(self.look(self.batch(found[1])))
        if found := re.fullmatch(r"POST /v1/batches/(\w+)/cancel", what):
            self.batch(found[1]).state = "cancelling"
            return self.object(self.batch(found[1]))
        if found := re.fullmatch(r"GET /v1/files/(\w+)_(output|error)/content", what):
            return as_lines(self.lines(self.batch(found[1]), found[2]))
        raise RefusedError("no such address")

    def batch(self, name):
        if name not in self.batches:
            raise RefusedError(f"no batch {name}")
        return self.batches[name]

    def upload(self, request):
        head = f"Content-Type: {request.headers['content-type']}\r\n\r\n".encode()
        form = BytesParser().parsebytes(head + request.body)
        if form.get_content_type() != "multipart/form-data" or form.defects:
            raise RefusedError(f"not a form: {form.defects}")
        parts = {part.get_param("name", header="content-disposition"): part for part in form.get_payload()}
        if set(parts) != {"purpose", "file"} or parts["purpose"].get_payload().strip() != "batch":
            raise RefusedError("purpose: expected batch")
        if not parts["file"].get_filename("").endswith(".jsonl"):
            raise RefusedError("file: expected a .jsonl file")
        content = parts["file"].get_payload(decode=True)
        if len(content) > self.max_bytes:
            raise RefusedError("the file is too large")
        name = f"file{len(self.files) + 1}"
        self.files[name] = content
        facts = {"bytes": len(content), "created_at": 1, "filename": "x.jsonl", "purpose": "batch"}
        return {"id": name, "object": "file", "status": "processed", **facts}

    def create(self, body):
        if set(body) - {"metadata"} != {"input_file_id", "endpoint", "completion_window"}:
            raise RefusedError(f"fields: {sorted(body)}")
        if body["completion_window"] != "24h" or body["endpoint"] not in ("/v1/chat/completions", "/v1/responses"):
            raise RefusedError("completion_window or endpoint")
        requests = []
        for line in self.files[body["input_file_id"]].decode().splitlines():
            each = json.loads(line)
            if set(each) != {"custom_id", "method", "url", "body"} or each["method"] != "POST":
                raise RefusedError(f"line: {sorted(each)}")
            if each["url"] != body["endpoint"] or each["body"].get("stream"):
                raise RefusedError("line: another endpoint, or a stream")
            requests.append((each["custom_id"], each["body"]))
        name = (body.get("metadata") or {}).get("nbagent", "")
        return self.object(self.take(requests, name=name, endpoint=body["endpoint"]))

    def object(self, batch):
        words = {"running": "in_progress", "ended": "completed"}
        is_over = batch.state in ("ended", "cancelled")
        outcomes = [self.outcome_of(batch, body) for body in batch.requests.values()]
        good = sum(each in ("ok", "garbled") for each in outcomes)
        expired = batch.state == "ended" and "expired" in outcomes
        errors = {"object": "list", "data": [{"code": "token_limit_exceeded", "message": self.failure}]}
        return {
            "id": batch.id,
            "object": "batch",
            "endpoint": batch.endpoint,
            "errors": errors if batch.state == "failed" else None,
            "input_file_id": "file1",
            "completion_window": "24h",
            "status": "expired" if expired else words.get(batch.state, batch.state),
            "output_file_id": f"{batch.id}_output" if is_over and good else None,
            "error_file_id": f"{batch.id}_error" if is_over and good < len(outcomes) else None,
            "created_at": int(batch.created),
            "request_counts": {
                "total": len(outcomes),
                "completed": good if is_over else 0,
                "failed": len(outcomes) - good if is_over else 0,
            },
            "metadata": {"nbagent": batch.name},
        }

    def lines(self, batch, kind):
        for key, body in reversed(batch.requests.items()):
            outcome = self.outcome_of(batch, body)
            line = {"id": f"batch_req_{key}", "custom_id": key, "response": None, "error": None}
            if outcome in ("ok", "garbled") and kind == "output":
                answer = self.completion(f"batch {self.question(body)}") if outcome == "ok" else {"choices": 7}
                yield {**line, "response": {"status_code": 200, "request_id": "r", "body": answer}}
            elif outcome == "error" and kind == "error":
                answer = {"error": {"message": "The server had an error."}}
                yield {**line, "response": {"status_code": 500, "request_id": "r", "body": answer}}
            elif outcome in ("expired", "cancelled") and kind == "error":
                yield {**line, "error": {"code": f"batch_{outcome}", "message": "This request could not be executed."}}

    @staticmethod
    def completion(text):
        message = {"role": "assistant", "content": text, "refusal": None}
        return {
            "id": "chatcmpl-1",
            "object": "chat.completion",
            "created": 1,
            "model": "gpt-4.1-mini",
            "choices": [{"index": 0, "message": message, "finish_reason": "stop", "logprobs": None}],
            "usage": {"prompt_tokens": 1000, "completion_tokens": 100, "total_tokens": 1100},
        }

    @staticmethod
    def question(body):
        return body["messages"][-1]["content"]


class ResponsesServer(OpenAIServer):
    """The same, with the Responses API."""

    def answer(self, request, what, query):
        if what == "POST /v1/responses":
            self.live.append(self.question(request.json))
            return Answer(responses_said(f"live {self.live[-1]}"))
        if what == "POST /v1/chat/completions":
            raise RefusedError("this model is for /v1/responses")
        return super().answer(request, what, query)

    @staticmethod
    def completion(text):
        content = [{"type": "output_text", "text": text, "annotations": []}]
        message = {"id": "msg_1", "type": "message", "role": "assistant", "status": "completed", "content": content}
        usage = {"input_tokens": 1000, "output_tokens": 100, "total_tokens": 1100}
        return {"id": "resp_1", "object": "response", "status": "completed", "output": [message], "usage": usage}

    @staticmethod
    def question(body):
        content = body["input"][-1]["content"]
        return content if isinstance(content, str) else content[-1]["text"]


class ClaudeServer(BatchServer):
    max_requests = 100_000
    max_bytes = 256 * 10**6

    def check_head(self, request):
        # a key has a header of its own, or is a bearer token
        if KEY not in (
            request.headers.get("x-api-key"),
            request.headers.get("authorization", "").removeprefix("Bearer "),
        ):
            raise RefusedError("no key")
        if not re.fullmatch(r"\d{4}-\d\d-\d\d", request.headers.get("anthropic-version", "")):
            raise RefusedError("anthropic-version: required")

    def answer(self, request, what, query):
        if what == "POST /v1/messages":
            self.live.append(self.question(request.json))
            return Answer(claude_said(f"live {self.live[-1]}"))
        if what == "POST /v1/messages/batches":
            return self.create(request)
        if what == "GET /v1/messages/batches":
            latest = sorted(self.batches.values(), key=lambda each: -each.created)
            return {"data": [self.object(each) for each in latest], "has_more": False, "first_id": "", "last_id": ""}
        found = re.fullmatch(r"(GET|POST) /v1/messages/batches/(\w+)(/results|/cancel|)", what)
        if not found or found[2] not in self.batches:
            raise RefusedError("no such address")
        batch = self.batches[found[2]]
        if found[3] == "/results":
            if batch.state not in ("ended", "cancelled"):
                raise RefusedError("the batch has no results yet")
            return as_lines(self.lines(batch))
        if found[3] == "/cancel":
            batch.state = "cancelling"
            return self.object(batch)
        return self.object(self.look(batch))

    def create(self, request):
        if set(request.json) != {"requests"} or len(request.body) > self.max_bytes:
            raise RefusedError("fields, or too large")
        requests = []
        for each in request.json["requests"]:
            if set(each) != {"custom_id", "params"} or not re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", each["custom_id"]):
                raise RefusedError("requests: custom_id must match ^[a-zA-Z0-9_-]{1,64}$")
            params = each["params"]
            if params.get("stream") or not params.get("max_tokens") or not params.get("model"):
                raise RefusedError("params: a stream, no max_tokens, or no model")
            requests.append((each["custom_id"], params))
        return self.object(self.take(requests))

    def object(self, batch):
        is_over = batch.state in ("ended", "cancelled")
        names = {"ok": "succeeded", "garbled": "succeeded", "cancelled": "canceled", "expired": "expired"}
        counts = dict.fromkeys(["processing", "succeeded", "errored", "canceled", "expired"], 0)
        for body in batch.requests.values():
            counts[names.get(self.outcome_of(batch, body), "errored") if is_over else "processing"] += 1
        stamp = time.strftime("%Y-%m-%dT%H:%M:%S.000000+00:00", time.gmtime(batch.created))
        return {
            "id": batch.id,
            "type": "message_batch",
            "processing_status": "ended" if is_over else "canceling" if batch.state == "cancelling" else "in_progress",
            "request_counts": counts,
            "created_at": stamp,
            "expires_at": stamp,
            "ended_at": stamp if is_over else None,
            "archived_at": None,
            "cancel_initiated_at": stamp if batch.state.startswith("cancel") else None,
            "results_url": f"{self.url}/v1/messages/batches/{batch.id}/results" if is_over else None,
        }

    def lines(self, batch):
        for key, body in reversed(batch.requests.items()):
            outcome = self.outcome_of(batch, body)
            error = {"type": "error", "error": {"type": "api_error", "message": "Broken."}, "request_id": None}
            results = {
                "ok": {"type": "succeeded", "message": self.message(f"batch {self.question(body)}")},
                "garbled": {"type": "succeeded", "message": {"content": 7}},
                "error": {"type": "errored", "error": error},
                "expired": {"type": "expired"},
                "cancelled": {"type": "canceled"},
            }
            if outcome in results:
                yield {"custom_id": key, "result": results[outcome]}

    @staticmethod
    def message(text):
        return {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "model": "claude-sonnet-5",
            "content": [{"type": "text", "text": text}],
            "stop_reason": "end_turn",
            "stop_sequence": None,
            "usage": {"input_tokens": 1000, "output_tokens": 100, "service_tier": "batch"},
        }

    @staticmethod
    def question(body):
        content = body["messages"][-1]["content"]
        return content if isinstance(content, str) else content[-1]["text"]


class GeminiServer(BatchServer):
    base = "/v1beta"
    max_bytes = 20 * 10**6

    def check_head(self, request):
        if request.headers.get("x-goog-api-key") != KEY:
            raise RefusedError("no key")

    def answer(self, request, what, query):
        if re.match(r"POST /v1beta/models/[\w.-]+:(stream)?[gG]enerateContent", what):
            self.live.append(self.question(request.json))
            return Answer(gemini_said(f"live {self.live[-1]}"))
        if re.fullmatch(r"POST /v1beta/models/[\w.-]+:batchGenerateContent", what):
            return self.create(request)
        if what == "GET /v1beta/batches":
            return {"operations": [self.object(each) for each in self.batches.values()]}
        found = re.fullmatch(r"(GET|POST) /v1beta/batches/(\w+)(:cancel|)", what)
        if not found or found[2] not in self.batches:
            raise RefusedError("no such address")
        batch = self.batches[found[2]]
        if found[3]:
            batch.state = "cancelling"
            return {}
        return self.object(self.look(batch))

    def create(self, request):
        batch = request.json["batch"]
        if set(request.json) != {"batch"} or set(batch) != {"displayName", "inputConfig"}:
            raise RefusedError("fields of the batch")
        if len(request.body) > self.max_bytes:
            raise RefusedError("over 20 MB inline")
        requests = []
        for each in batch["inputConfig"]["requests"]["requests"]:
            if set(each) != {"request", "metadata"} or "contents" not in each["request"]:
                raise RefusedError("fields of a request")
            requests.append((each["metadata"]["key"], each["request"]))
        return self.object(self.take(requests, name=batch["displayName"]))

    def object(self, batch):
        names = {"running": "RUNNING", "cancelling": "RUNNING", "ended": "SUCCEEDED"}
        is_over = batch.state not in ("running", "cancelling")
        count = len(batch.requests)
        stats = {"requestCount": str(count)} | ({} if is_over else {"pendingRequestCount": str(count)})
        metadata = {"displayName": batch.name, "state": f"BATCH_STATE_{names.get(batch.state, batch.state.upper())}"}
        operation = {"name": f"batches/{batch.id}", "metadata": {**metadata, "batchStats": stats}}
        if is_over:
            operation["done"] = True
        if batch.state == "failed":
            operation["error"] = {"code": 3, "message": self.failure}
        elif batch.state == "ended":
            operation["response"] = {"inlinedResponses": {"inlinedResponses": list(self.responses(batch))}}
        return operation

    def responses(self, batch):
        for key, body in batch.requests.items():
            outcome, metadata = self.outcome_of(batch, body), {"metadata": {"key": key}}
            if outcome in ("ok", "garbled"):
                content = {"parts": [{"text": f"batch {self.question(body)}"}], "role": "model"}
                usage = {"promptTokenCount": 1000, "candidatesTokenCount": 100}
                good = {"candidates": [{"content": content, "finishReason": "STOP"}], "usageMetadata": usage}
                yield {**metadata, "response": good if outcome == "ok" else {"candidates": 7}}
            elif outcome != "missing":
                yield {**metadata, "error": {"code": 13, "message": "Broken."}}

    @staticmethod
    def question(body):
        return body["contents"][-1]["parts"][-1]["text"]


SERVERS = {
    "openai:gpt-4.1-mini": OpenAIServer,
    "claude:claude-sonnet-5": ClaudeServer,
    "gemini:gemini-2.5-flash": GeminiServer,
}
