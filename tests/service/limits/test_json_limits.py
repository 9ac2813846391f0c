"""Tests that the parts of a body are counted outside of its strings."""

import json
from typing import Any

import pytest

from embedwell.errors import TooLarge
from embedwell.limits.json_limits import LIMITS, check_parts

FULL: dict[str, Any] = {
    "fields": lambda count: {str(index): 1 for index in range(count)},
    "objects": lambda count: [{}] * (count),
    "lists": lambda count: [[]] * (count - 1),
    "values": lambda count: [1] * (count + 1),
}


@pytest.mark.parametrize(("name", "limit"), LIMITS.values(), ids=str)
def test_the_limit_is_accepted_and_one_more_is_refused(name: str, limit: int) -> None:
    check_parts(json.dumps(FULL[name](limit)).encode())
    with pytest.raises(TooLarge, match=f"more than {limit} {name}") as refused:
        check_parts(json.dumps(FULL[name](limit + 1)).encode())
    assert refused.value.code == "too_many_parts"


@pytest.mark.parametrize("quoted", ['"', "\\", '\\"', '\\\\"', '"\\', "{[:,"])
def test_characters_in_a_string_do_not_count(quoted: str) -> None:
    text = f"{quoted}{{[:,{quoted}" * 1_000_001
    check_parts(json.dumps({"inputs": [text, quoted]}).encode())


@pytest.mark.parametrize("quoted", ['"', "\\", '\\"', '\\\\"', '"\\'])
def test_characters_after_a_string_count(quoted: str) -> None:
    with pytest.raises(TooLarge):
        check_parts(json.dumps([quoted, FULL["fields"](10_001)]).encode())


def test_eight_million_parts_are_refused() -> None:
    for sign in LIMITS:
        with pytest.raises(TooLarge):
            check_parts(sign * (8 << 20))
