"""`FallbackProvider`: goes on with the next vendor when one is down or refuses. `Agent([…])` makes one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from time import monotonic

from nbagent.checks import invalid
from nbagent.core.admission import has_alternative
from nbagent.core.model_request import ModelRequest
from nbagent.errors import AuthenticationError
from nbagent.providers.base import LLMProvider
from nbagent.providers.routing.composite import CompositeProvider

#: Seconds for which a member that failed is asked after the others.
REST_S = 60.0


class FallbackProvider(CompositeProvider):
    """Asks the first of several providers, and the next one if one fails.

    It goes on after what has nothing to do with the request (`ProviderError.elsewhere`): no connection, a vendor that
    is down or overloaded, a spent quota or rate, a broken answer, a region, no key at all. A wrong key, an unknown
    model and a request that a vendor refuses are errors. Each member retries first, as its `max_retries` says. One that
    failed rests for a minute, for all agents that share this provider; then it has its place again.

    `vendor` and `model_name` are those of the first.
    """

    def __init__(self, members: Sequence[LLMProvider]) -> None:
        fix = "Pass names, such as ['claude:claude-sonnet-5', 'openai:gpt-5.6-terra']. A Router may hold such a list."
        if not members or any(isinstance(member, CompositeProvider) for member in members):
            raise invalid("provider", list(members), "a list of models to ask, the first one first", fix)
        self._members = tuple(members)
        self.vendor, self.price = members[0].vendor, members[0].price
        #: When the rest of a member is over, by its place.
        self._rests: dict[int, float] = {}

    @property
    def members(self) -> Sequence[LLMProvider]:
        """Those that may answer, in their order."""
        return self._members

    @property
    def model_name(self) -> str:
        """The model of the first."""
        return self._members[0].model_name

    @property
    def rate_key(self) -> str:
        """See `LLMProvider.rate_key`."""
        return self._members[0].rate_key

    def __repr__(self) -> str:
        return f"FallbackProvider({list(self._members)!r})"

    def check(self) -> None:
        """Raise what the first one raises if none has a key."""
        problems = []
        for member in self._members:
            try:
                member.check()
            except AuthenticationError as problem:
                problems.append(problem)
        if len(problems) == len(self._members):
            raise problems[0]

    async def candidates(self, request: ModelRequest) -> Iterable[LLMProvider]:
        """The members in their order; those that rest come last."""
        return self._in_turn()

    def _in_turn(self) -> Iterator[LLMProvider]:
        now = monotonic()
        places = sorted(range(len(self._members)), key=lambda each: self._rests.get(each, now) > now)
        for place in places:
            has_alternative.set(place != places[-1])
            yield self._members[place]
            self._rests[place] = monotonic() + REST_S
