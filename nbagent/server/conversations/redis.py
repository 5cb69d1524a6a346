"""Conversations in Redis, for any number of processes and machines.

Each atomic step is a Lua script. Leases use the Redis server's clock. Keys that expire have a TTL, after which Redis
deletes them. Configure Redis with reliable persistence (`appendonly yes`) and without eviction.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import asdict
from itertools import chain
from typing import Any

from typing_extensions import override

from nbagent.errors import ConfigurationError, StoreError, missing_extra
from nbagent.server.conversations.store import (
    FIELDS,
    Change,
    Conversation,
    ConversationStore,
    KeptAnswer,
    Lease,
    Page,
    Spent,
    answer_name,
    cursor_from,
    info_from,
    info_values,
    page_of,
    with_messages,
)
from nbagent.text import without_keys

#: The version of the keys.
FORMAT = "2"

#: The connections of a process, and the seconds to wait for a free one.
_CONNECTIONS, _WAIT_S = 32, 30.0

#: Milliseconds for which a paused process keeps its expired lease, unless another process takes it.
_KEPT_MS = 3_600_000

#: Seconds for which the names of an owner's notes are kept after the last one has expired.
_NAMES_KEPT_S = 86_400

#: KEYS: lease. ARGV: ticket, milliseconds including `_KEPT_MS`, `_KEPT_MS`.
_TAKE = """
if redis.call('PTTL', KEYS[1]) > tonumber(ARGV[3]) then return 0 end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 1
"""

#: KEYS: lease. ARGV: ticket, milliseconds including `_KEPT_MS`.
_RENEW = """
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('PEXPIRE', KEYS[1], ARGV[2])
"""

#: KEYS: lease. ARGV: ticket.
_RELEASE = """
if redis.call('GET', KEYS[1]) == ARGV[1] then redis.call('DEL', KEYS[1]) end
"""

#: KEYS: spending, answer, lease, conversation, messages, index. ARGV: dollars, tokens, answer, its TTL, ticket, kept,
#: the conversation's TTL, updated, id, number of fields and values, these, added messages. TTLs are in milliseconds.
_SAVE = """
local ticket, kept, ttl = ARGV[5], tonumber(ARGV[6]), ARGV[7]
if redis.call('LLEN', KEYS[5]) < kept then return -1 end
redis.call('HINCRBYFLOAT', KEYS[1], 'dollars', ARGV[1])
redis.call('HINCRBY', KEYS[1], 'tokens', ARGV[2])
if ticket ~= '' then
    if redis.call('GET', KEYS[3]) ~= ticket then return 0 end
    redis.call('DEL', KEYS[3])
end
if ARGV[3] ~= '' and not redis.call('SET', KEYS[2], ARGV[3], 'NX', 'PX', ARGV[4]) then return 0 end
if ticket == '' then return 1 end
local first = 11 + ARGV[10]
redis.call('HSET', KEYS[4], unpack(ARGV, 11, first - 1))
if kept == 0 then redis.call('DEL', KEYS[5]) else redis.call('LTRIM', KEYS[5], 0, kept - 1) end
for i = first, #ARGV do redis.call('RPUSH', KEYS[5], ARGV[i]) end
redis.call('ZADD', KEYS[6], ARGV[8], ARGV[9])
if ttl ~= '' then
    redis.call('ZREMRANGEBYSCORE', KEYS[6], '-inf', ARGV[8] - ttl / 1000)
    for i = 4, 6 do redis.call('PEXPIRE', KEYS[i], ttl) end
end
return 1
"""

#: KEYS: conversation, messages, index, lease. ARGV: id.
_DELETE = """
redis.call('ZREM', KEYS[3], ARGV[1])
redis.call('DEL', KEYS[4])
return redis.call('DEL', KEYS[1], KEYS[2])
"""

_SCRIPTS = {
    "take": _TAKE,
    "renew": _RENEW,
    "release": _RELEASE,
    "save": _SAVE,
    "delete": _DELETE,
}


class RedisStore(ConversationStore):
    """A store in Redis. Its keys start with "nbagent:".

    >>> RedisStore("redis://:password@cache.example:6379/0", ttl_s=30 * 86_400)
    RedisStore('redis://cache.example:6379/0')
    """

    def __init__(self, url: str, **options: Any) -> None:
        super().__init__(**options)
        self._url = url
        self._client: Any = None
        scheme, _, rest = url.partition("://")
        #: The address without user, password and options.
        self.address = f"{scheme}://{rest.rpartition('@')[2].partition('?')[0]}"

    def __repr__(self) -> str:
        return f"RedisStore({self.address!r})"

    @override
    async def open(self) -> None:
        try:
            import redis.asyncio as redis
            from redis.asyncio.retry import Retry
            from redis.backoff import NoBackoff
        except ImportError:
            raise missing_extra("Redis", "redis") from None
        try:
            # no retries, because a repeated command may count twice; a closed idle connection is still reopened
            pool = redis.BlockingConnectionPool.from_url(
                self._url,
                max_connections=_CONNECTIONS,
                timeout=_WAIT_S,
                decode_responses=True,
                retry=Retry(NoBackoff(), 0),
            )
            self._client = redis.Redis.from_pool(pool)
            self._scripts = {name: self._client.register_script(text) for name, text in _SCRIPTS.items()}
            async with self._commands() as client:
                await client.set("nbagent:format", FORMAT, nx=True)
                found = await client.get("nbagent:format")
        except (ValueError, TypeError):  # these may contain the password
            self._client = None
            raise ConfigurationError(
                f"The Redis address {self.address!r} can't be used. Write 'redis://user:password@host:6379/0', "
                "'rediss://…' for TLS, or 'unix:///path', with options that redis-py accepts."
            ) from None
        except StoreError:
            await self.aclose()
            raise
        if found != FORMAT:
            await self.aclose()
            raise ConfigurationError(
                f"The conversations in {self.address!r} have format version {found!r}, expected {FORMAT!r}. "
                "Use another Redis database, or the nbagent version that wrote them."
            )

    @override
    async def aclose(self) -> None:
        if self._client is not None:
            client, self._client = self._client, None
            await client.aclose()

    @override
    async def get(self, owner: str, conversation_id: str) -> Conversation | None:
        async with self._commands() as client:
            pipeline = client.pipeline(transaction=True)
            pipeline.hmget(self._key(owner, "conversation", conversation_id), FIELDS)
            pipeline.lrange(self._key(owner, "messages", conversation_id), 0, -1)
            values, texts = await pipeline.execute()
        return with_messages(info_from(owner, conversation_id, values), texts) if values[0] is not None else None

    @override
    async def page(self, owner: str, limit: int = 20, after: str | None = None) -> Page:
        last = (float("inf"), "") if after is None else cursor_from(after)
        oldest = "-inf" if self.ttl_s is None else time.time() - self.ttl_s
        index = self._key(owner, "conversations")
        async with self._commands() as client:
            equal = await client.zcount(index, last[0], last[0])  # some of these were on the previous page
            rows = await client.zrange(
                index, last[0], oldest, desc=True, byscore=True, offset=0, num=equal + limit + 1, withscores=True
            )
            ids = [conversation_id for conversation_id, updated in rows if (updated, conversation_id) < last]
            pipeline = client.pipeline(transaction=False)
            for conversation_id in ids[: limit + 1]:
                pipeline.hmget(self._key(owner, "conversation", conversation_id), FIELDS)
            found = await pipeline.execute()
        known = [info_from(owner, *pair) for pair in zip(ids, found, strict=False) if pair[1][0] is not None]
        return page_of(known, limit)

    @override
    async def spent(self, owner: str) -> Spent:
        async with self._commands() as client:
            dollars, tokens = await client.hmget(self._key(owner, "spent"), "dollars", "tokens")
        return Spent(float(dollars or 0), int(tokens or 0))

    @override
    async def _delete(self, owner: str, conversation_id: str, lease: str) -> bool:
        names = [("conversation", conversation_id), ("messages", conversation_id), ("conversations",), ("lease", lease)]
        keys = [self._key(owner, *name) for name in names]
        return bool(await self._run("delete", keys, conversation_id))

    @override
    async def _save(self, owner: str, spent: Spent, change: Change | None, answer: KeptAnswer | None) -> bool | None:
        conversation_id = change.info.id if change else ""
        keys = [
            self._key(owner, "spent"),
            self._key(owner, answer_name(answer.key if answer else "")),
            self._key(owner, "lease", change.lease.name if change else ""),
            self._key(owner, "conversation", conversation_id),
            self._key(owner, "messages", conversation_id),
            self._key(owner, "conversations"),
        ]
        values: list[Any] = [spent.dollars, spent.tokens]
        values += [json.dumps(asdict(answer)) if answer else "", _milliseconds(self.answer_ttl_s)]
        if change:
            info = change.info
            stored = dict(zip(FIELDS, info_values(info), strict=True))
            ttl = "" if self.ttl_s is None else _milliseconds(self.ttl_s)
            values += [change.lease.ticket, change.kept, ttl, info.updated, info.id, 2 * len(stored)]
            values += [*chain.from_iterable(stored.items()), *change.added]
        else:
            values += ["", 0, ""]
        done = await self._run("save", keys, *values)
        return None if done == -1 else bool(done)

    @override
    async def _add_note(self, owner: str, name: str, text: str, expires: float) -> bool:
        names, now = self._key(owner, "notes"), time.time()
        async with self._commands() as client:
            pipeline = client.pipeline(transaction=True)
            pipeline.set(self._key(owner, name), text, nx=True, pxat=_milliseconds(expires))
            pipeline.zremrangebyscore(names, "-inf", now)
            pipeline.zadd(names, {name: expires})
            pipeline.expire(names, math.ceil(expires - now) + _NAMES_KEPT_S)
            is_added, *_ = await pipeline.execute()
        return bool(is_added)

    @override
    async def _note(self, owner: str, name: str) -> str | None:
        async with self._commands() as client:
            text: str | None = await client.get(self._key(owner, name))
        return text

    @override
    async def _notes(self, owner: str, prefix: str) -> list[str]:
        async with self._commands() as client:
            names = await client.zrange(self._key(owner, "notes"), 0, -1)
            keys = [self._key(owner, name) for name in names if name.startswith(prefix)]
            return [text for text in await client.mget(keys) if text is not None] if keys else []

    @override
    async def _take(self, lease: Lease) -> bool:
        keys = [self._key(lease.owner, "lease", lease.name)]
        if not await self._run("take", keys, lease.ticket, _milliseconds(self.lease_s) + _KEPT_MS, _KEPT_MS):
            return False
        if lease.conversation_id:
            lease.conversation = await self.get(lease.owner, lease.conversation_id)
        return True

    @override
    async def _renew(self, lease: Lease) -> bool:
        keys = [self._key(lease.owner, "lease", lease.name)]
        return bool(await self._run("renew", keys, lease.ticket, _milliseconds(self.lease_s) + _KEPT_MS))

    @override
    async def _release(self, lease: Lease) -> None:
        await self._run("release", [self._key(lease.owner, "lease", lease.name)], lease.ticket)

    def _key(self, owner: str, *parts: str) -> str:
        """A key. The braces keep all keys of an owner on one cluster node, as scripts require."""
        return f"nbagent:{{{owner}}}:{':'.join(parts)}"

    async def _run(self, script: str, keys: list[str], *values: Any) -> Any:
        async with self._commands():
            return await self._scripts[script](keys=keys, args=values)

    @asynccontextmanager
    async def _commands(self) -> AsyncIterator[Any]:
        """The client. Its errors become `StoreError`s."""
        from redis.exceptions import RedisError

        if self._client is None:
            raise StoreError(f"{self.address!r} is not open. Call `await store.open()` first.")
        try:
            yield self._client
        except RedisError as error:
            reason = without_keys(str(error)).rstrip(".")
            raise StoreError(
                f"Conversations in {self.address!r} can't be read or written: {reason}. Check that Redis is running "
                "there, and check the user name and password in its address."
            ) from error


def _milliseconds(seconds: float) -> int:
    return math.ceil(1000 * seconds)
