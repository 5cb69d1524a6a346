"""Which request is sent next: windows, waits and rates, in virtual time."""

import asyncio
import math
import threading
from bisect import bisect_right

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.virtual_time import run_virtually

from nbagent.core.admission import LATE_S, PATIENCE_S, RateAdmission
from nbagent.errors import RateLimitError


def virtually(test):
    """Run an async test in virtual time. Its argument `new` creates an admission that uses this time."""

    def run(**arguments):
        async def body():
            clock = asyncio.get_running_loop().time
            await test(lambda **limits: RateAdmission(clock=clock, **limits), **arguments)

        run_virtually(body())

    run.__name__, run.__doc__ = test.__name__, test.__doc__
    return run


def refused(seconds=None):
    return RateLimitError("Slow down.", status=429, retry_after=seconds)


def now():
    return asyncio.get_running_loop().time()


async def taken(admission, count):
    return [await admission.acquire() for _ in range(count)]


async def times_of(admission, count, tokens=0, seconds=0.0, end=0):
    """The times at which concurrent rows get their slots, which they keep for some seconds."""

    async def row():
        slot = await admission.acquire(tokens)
        at = now()
        await asyncio.sleep(seconds)
        admission.release(slot, end)
        return at

    return sorted(await asyncio.gather(*(row() for _ in range(count))))


@virtually
async def test_requests_per_minute_are_spread_evenly(new):
    assert await times_of(new(), 1000) == [0] * 1000, "no request waits until a provider refuses one"
    times = await times_of(new(rpm=60), 120)
    assert times == pytest.approx(range(120), abs=LATE_S + 1e-6)


@virtually
async def test_tokens_per_minute_count_actual_usage(new):
    admission = new(tpm=6000)
    assert await times_of(admission, 3, tokens=100) == pytest.approx([0, 1, 2], abs=LATE_S + 1e-6)
    begun = now()
    await times_of(admission, 1, tokens=100, end=1000)
    assert await times_of(admission, 1) == pytest.approx([begun + 11], abs=LATE_S + 1e-6)


@virtually
async def test_after_a_refusal_all_rows_wait_and_then_half_as_many_run(new):
    admission = new()
    slots = await taken(admission, 8)
    for slot in slots:
        admission.release(slot, refused(20))
    assert (admission.window, admission.taken) == (4, {}), "eight refusals in one wave count as one"
    times = await times_of(admission, 8, seconds=5)
    assert times == [20] * 4 + [25] * 4


@virtually
async def test_without_retry_after_the_waits_double(new):
    admission, waits = new(), []
    for _ in range(9):
        begun = now()
        admission.release(await admission.acquire(), refused())
        waits.append(now() - begun)
    assert waits == [0, 1, 2, 4, 8, 16, 32, 60, 60]


@virtually
async def test_rows_fail_when_a_provider_refuses_for_too_long(new):
    admission = new()

    async def row():
        while True:
            admission.release(await admission.acquire(), refused(50))

    rows = await asyncio.gather(*(row() for _ in range(4)), return_exceptions=True)
    assert {type(row) for row in rows} == {RateLimitError}
    assert "Slow down: no requests are answered" in str(rows[0])
    assert now() == pytest.approx(PATIENCE_S, abs=50)
    with pytest.raises(RateLimitError):
        await admission.acquire()
    with admission.limited(None, None):  # a new map tries again
        await asyncio.sleep(50)
        admission.release(await admission.acquire(), 0)
    await times_of(admission, 4)


def test_threads_with_their_own_loops_share_an_admission():
    admission = RateAdmission()
    admission.release(asyncio.run(admission.acquire()), refused(0.001))
    assert admission.window == 1
    most, served = [], []

    async def rows():
        async def row():
            slot = await admission.acquire()
            most.append(len(admission.taken))
            await asyncio.sleep(0)
            admission.release(slot)
            served.append(slot)

        await asyncio.gather(*(row() for _ in range(100)))

    threads = [threading.Thread(target=asyncio.run, args=(rows(),)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(most) == {1}
    assert len(set(served)) == 300


SECONDS = st.floats(0, 20)
ENDS = st.just(5) | st.builds(refused, st.none() | st.floats(0, 30)) | st.none()
ATTEMPTS = st.lists(st.tuples(SECONDS, ENDS), max_size=4)
ROWS = st.lists(st.tuples(SECONDS, st.integers(0, 30), ATTEMPTS, st.none() | SECONDS), min_size=1, max_size=12)


@given(ROWS, st.none() | st.sampled_from([1, 7, 60, 3000]), st.none() | st.sampled_from([30, 600]))
def test_every_row_is_served_and_none_too_early(rows, rpm, tpm):
    """Rows arrive at any time, and are answered, refused, broken off and cancelled in any order."""

    async def all_of_them():
        admission = RateAdmission(rpm, tpm, clock=asyncio.get_running_loop().time)
        begun = []

        async def row(comes, tokens, attempts):
            await asyncio.sleep(comes)
            for seconds, end in [*attempts, (1, 0)]:
                slot = await admission.acquire(tokens)
                assert len(admission.taken) <= admission.window
                begun.append(now())
                try:
                    await asyncio.sleep(seconds)
                finally:
                    admission.release(slot, end)

        tasks = [asyncio.create_task(row(*about)) for *about, _ in rows]
        for task, (*_, cancelled) in zip(tasks, rows, strict=True):
            if cancelled is not None:
                asyncio.get_running_loop().call_later(cancelled, task.cancel)
        await asyncio.wait(tasks)  # the loop raises if all tasks wait
        for task, (*_, cancelled) in zip(tasks, rows, strict=True):
            if not task.cancelled() and (error := task.exception()):
                assert isinstance(error, RateLimitError)
                assert now() > PATIENCE_S
            assert cancelled is not None or not task.cancelled()
        assert not admission.taken
        return begun

    begun = run_virtually(all_of_them())
    most = math.inf if rpm is None else rpm + 1 + rpm * LATE_S / 60
    for index, at in enumerate(begun):
        assert bisect_right(begun, at + 60 - 1e-6) - index <= most
