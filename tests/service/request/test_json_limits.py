"""The parts of a body are counted as JSON has them, whatever its texts say."""

import json
from typing import Any

import pytest

from service.errors import TooLarge
from service.request.json_limits import LIMITS, check_parts

FULL: dict[str, Any] = {
    "fields": lambda count: {str(index): 1 for index in range(count)},
    "objects": lambda count: [{}] * (count),
    "lists": lambda count: [[]] * (count - 1),
    "values": lambda count: [1] * (count + 1),
}


@pytest.mark.parametrize(("name", "limit"), LIMITS.values(), ids=str)
def test_as_many_as_the_limit_pass_and_one_more_does_not(name: str, limit: int) -> None:
    check_parts(json.dumps(FULL[name](limit)).encode())
    with pytest.raises(TooLarge, match=f"more than {limit} {name}") as refused:
        check_parts(json.dumps(FULL[name](limit + 1)).encode())
    assert refused.value.code == "too_many_parts"


@pytest.mark.parametrize("quoted", ['"', "\\", '\\"', '\\\\"', '"\\', "{[:,"])
def test_what_stands_in_a_text_is_no_part(quoted: str) -> None:
    text = f"{quoted}{{[:,{quoted}" * 1_000_001
    check_parts(json.dumps({"inputs": [text, quoted]}).encode())


@pytest.mark.parametrize("quoted", ['"', "\\", '\\"', '\\\\"', '"\\'])
def test_what_stands_after_a_text_is_a_part(quoted: str) -> None:
    with pytest.raises(TooLarge):
        check_parts(json.dumps([quoted, FULL["fields"](10_001)]).encode())


def test_eight_million_signs_are_refused() -> None:
    for sign in LIMITS:
        with pytest.raises(TooLarge):
            check_parts(sign * (8 << 20))
