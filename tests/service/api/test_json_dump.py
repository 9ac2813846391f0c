"""JSON of responses: the same bytes, however large they are."""

import asyncio
from typing import Any

import numpy as np
import orjson
import pytest

from embedwell.api.json_dump import dump, dump_response
from embedwell.request.request_context import RequestContext

ROWS = np.arange(200_000, dtype=np.float32).reshape(-1, 10)
CONTENTS: dict[str, Any] = {
    "an array": ROWS,
    "one of no rows": ROWS[:0],
    "one of three axes": ROWS.reshape(2, -1, 10),
    "arrays by name": {"cos": ROWS, "sin": ROWS[:3], "positions": np.arange(5), "name": "a"},
    "arrays in a list": [ROWS[:1000], ROWS[1000:1001], ROWS[:0]],
    "items with a row each": {"data": [{"index": i, "vector": ROWS[i]} for i in range(200)]},
    "tokens of texts": [[{"id": i, "text": "a"} for i in range(130)], []],
    "items of items": {"results": [{"tokens": [{"vector": ROWS[0]}] * 99, "dropped": 0}] * 3},
    "JSON already": {"top": [orjson.Fragment(b"[1]")] * 100},
    "nothing": [],
    "texts": ["a"] * 1000,
    "a number": 5,
}


@pytest.mark.parametrize("name", CONTENTS)
def test_a_large_response_has_the_bytes_of_a_small_one(name: str) -> None:
    context = RequestContext("a")
    context.memory.grow(1 << 24)
    large = asyncio.run(dump_response(context, CONTENTS[name]))
    assert (
        large
        == dump(CONTENTS[name])
        == asyncio.run(dump_response(RequestContext("b"), CONTENTS[name]))
    )


def test_a_large_response_does_not_block_the_event_loop() -> None:
    async def run() -> int:
        context, turns = RequestContext("a"), 0
        context.memory.grow(1 << 24)
        dumping = asyncio.create_task(dump_response(context, {"vectors": np.tile(ROWS, (10, 1))}))
        while not dumping.done():
            await asyncio.sleep(0)
            turns += 1
        return turns

    assert asyncio.run(run()) > 10
