"""A vendor on loopback: checks each request as the vendor would, then answers as its script says."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from support.dialects.base import Asked, Dialect, RefusedError
from support.dialects.script import Failure, Reply
from support.loopback import Answer, Loopback, Request

KEY = "sk-conformance-4711"

Script = Sequence[Reply | Failure] | Callable[[Asked], Reply | Failure]


class VendorServer(Loopback):
    """Serves `script`: answers in order, the last one again and again, or a function of the request.

    `refusals` says why requests were refused; a provider that keeps to the format gets none.
    """

    def __init__(self, dialect: Dialect, script: Script = (), key: str = KEY):
        super().__init__()
        self.dialect = dialect
        self.script = script if callable(script) else list(script)
        self.key = key
        self.asked: list[Asked] = []
        self.refusals: list[str] = []
        self.issued: list[object] = []

    @property
    def base_url(self) -> str:
        return self.url + self.dialect.base_path

    def answer_to(self, request: Request) -> Answer:
        """RefusedError, failed or answered."""
        try:
            asked = self._read(request)
            self.dialect.check(asked, self.issued)
        except RefusedError as refused:
            return self._refuse(refused)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            return self._refuse(RefusedError(f"the request can't be read: {error!r}"))
        self.asked.append(asked)
        if callable(self.script):
            step = self.script(asked)
        else:
            step = self.script[0] if len(self.script) == 1 else self.script.pop(0)
        if isinstance(step, Failure):
            return self.dialect.failure(step)
        if not step.fault:
            self.issued.append(self.dialect.issued(step, asked))
        return self.dialect.answer(step, asked)

    def _refuse(self, refused: RefusedError) -> Answer:
        self.refusals.append(str(refused))
        return self.dialect.failure(Failure(refused.kind), str(refused))

    def _read(self, request: Request) -> Asked:
        key = self.dialect.key(request.headers)
        if key != self.key:  # as careless as a vendor can be
            raise RefusedError(f"{self.dialect.texts['key']}: {key}", "key")
        return self.dialect.read(request)
