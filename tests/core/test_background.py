"""Blocking calls on the background loop, and calls back to the main thread."""

import asyncio
import os
import signal
import threading
from inspect import iscoroutinefunction, signature

import pytest

from nbagent.core.background import blocking, call_on_main, run_sync


async def double(x):
    await asyncio.sleep(0)
    return 2 * x


async def test_blocking_code_inside_a_running_loop_can_run_a_coroutine():
    assert run_sync(double(21)) == 42
    assert await call_on_main(threading.current_thread) is threading.main_thread()


def test_a_blocking_variant_has_the_signature_of_its_function():
    variant = blocking(double)
    assert (variant(21), variant.__name__, signature(variant)) == (42, "double_sync", signature(double))
    assert not iscoroutinefunction(variant)


def test_a_blocking_variant_calls_a_subclass_override():
    class Base:
        async def ask(self, text):
            return text

        ask_sync = blocking(ask)

    class Polite(Base):
        async def ask(self, text):
            return await super().ask(f"Please {text}")

    assert Polite().ask_sync("go") == "Please go"


def test_the_background_loop_cannot_wait_for_itself():
    async def outer():
        return run_sync(double(1))

    with pytest.raises(RuntimeError, match="wait for itself"):
        run_sync(outer())


@pytest.mark.usefixtures("ctrl_c")
def test_cancelling_a_call_on_the_main_thread_interrupts_only_that_call():
    begun, said = threading.Event(), []

    def sleep():
        begun.set()
        try:
            while True:  # Python loses a signal that arrives just as a long wait starts
                threading.Event().wait(0.05)
        finally:
            said.append("interrupted")

    async def ask():
        task = asyncio.create_task(call_on_main(sleep))
        await asyncio.to_thread(begun.wait, 60)
        task.cancel()
        await asyncio.wait({task})
        return await call_on_main(lambda: "still served")

    assert run_sync(ask()) == "still served"
    assert said == ["interrupted"]


@pytest.mark.usefixtures("ctrl_c")
def test_ctrl_c_cancels_and_lets_the_coroutine_clean_up():
    cleaned = []

    async def wait():
        threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT)).start()
        try:
            await asyncio.sleep(60)
        finally:
            cleaned.append(True)

    with pytest.raises(KeyboardInterrupt):
        run_sync(wait())
    assert cleaned == [True]
    assert run_sync(double(1)) == 2
