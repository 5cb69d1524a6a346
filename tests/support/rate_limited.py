"""A server that enforces a limit of requests."""

import asyncio
import json
from collections import Counter

from support.loopback import Answer, Loopback, claude_said, said, sse


class RateLimited(Loopback):
    """Answers `limit` requests in each `window_s` seconds, and refuses the others with `status`.

    `waits`: a refusal says when to come back. At least one is refused, however slow those who ask are.
    """

    def __init__(self, limit, window_s, waits=True, status=429):
        super().__init__()
        self.limit, self.window_s, self.waits, self.status = limit, window_s, waits, status
        self._begun, self._counted = -window_s, 0
        #: How often each question was answered, and how many were refused.
        self.answered, self.refused = Counter(), 0

    def answer_to(self, request):
        now = asyncio.get_running_loop().time()
        must_refuse = self._counted >= self.limit and not self.refused
        if now >= self._begun + self.window_s and not must_refuse:
            self._begun, self._counted = now, 0
        reset = max(0.0, self._begun + self.window_s - now)
        if self._counted >= self.limit:
            self.refused += 1
            error = {"type": "error", "error": {"type": "rate_limit_error", "message": "Slow down."}}
            again = {"retry-after-ms": str(1000 * reset + 1)} if self.waits else {}
            return Answer(json.dumps(error).encode(), self.status, {"content-type": "application/json", **again})
        self._counted += 1
        question = request.json["messages"][-1]["content"]
        text = question if isinstance(question, str) else question[0]["text"]
        self.answered[text] += 1
        body = claude_said(text) if request.path.endswith("/messages") else sse(said(text))
        return Answer(body)
