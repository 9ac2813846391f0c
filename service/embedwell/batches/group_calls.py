"""Compute requests of a batch together, and large ones one after the other."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from embedwell.batches.request_lines import RequestLine
from embedwell.batches.route_calls import RouteCalls, RouteResponse
from embedwell.errors import Overloaded, ServiceError
from embedwell.limits.memory_budget import MemoryBudget, Reservation
from embedwell_models.encoder.free_memory import return_free_memory

_TOGETHER_BYTES = 32 << 20  # memory for the requests that are computed at once

Result = tuple[RequestLine, RouteResponse]
Record = Callable[[Sequence[Result]], Awaitable[None]]


async def compute_group(
    calls: RouteCalls, path: str, requests: Sequence[RequestLine], record: Record
) -> None:
    """Compute requests and record the results in their order.

    Requests that need little memory are computed at once. Each of the others is computed alone, and
    recorded before its memory is released.
    Raises ServiceError if the server rejects a request temporarily; the results of those before it
    are recorded.
    """
    together = MemoryBudget(_TOGETHER_BYTES, strict=True)
    attempts = await asyncio.gather(
        *(_attempt(calls, path, line, Reservation(together)) for line in requests)
    )
    done: list[Result] = []
    for line, attempt in zip(requests, attempts, strict=True):
        if isinstance(attempt, RouteResponse):
            done.append((line, attempt))
            continue
        await _record_all(done, record)
        if not isinstance(attempt, Overloaded):
            raise attempt
        await _compute_alone(calls, path, line, record)
    await _record_all(done, record)


async def _attempt(
    calls: RouteCalls, path: str, line: RequestLine, memory: Reservation
) -> RouteResponse | ServiceError:
    try:
        return await calls.post(path, line.body, memory)
    except ServiceError as error:
        return error


async def _record_all(results: list[Result], record: Record) -> None:
    if results:
        await record(results)
        results.clear()


async def _compute_alone(calls: RouteCalls, path: str, line: RequestLine, record: Record) -> None:
    memory = Reservation(calls.budget)
    try:
        await record([(line, await calls.post(path, line.body, memory))])
    finally:
        memory.release()
        return_free_memory()
