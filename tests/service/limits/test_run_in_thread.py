"""Tests of work outside of the event loop."""

import asyncio
import threading

import pytest

from embedwell.limits.run_in_thread import run_in_thread


@pytest.mark.parametrize("small", [True, False])
def test_only_small_work_is_done_on_the_event_loop(small: bool) -> None:
    async def where() -> tuple[threading.Thread, threading.Thread]:
        return threading.current_thread(), await run_in_thread(
            threading.current_thread, small=small
        )

    loop, work = asyncio.run(where())
    assert (work is loop) == small


def test_an_error_reaches_the_caller() -> None:
    with pytest.raises(ZeroDivisionError):
        asyncio.run(run_in_thread(lambda: 1 // 0, small=False))
