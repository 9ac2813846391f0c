"""Tests of the keys: which requests they let in."""

import pytest

from service.errors import Unauthorized
from service.http.keys import ApiKeys


def refused(keys: ApiKeys, given: bytes | None) -> bool:
    try:
        keys.check({} if given is None else {b"authorization": given})
    except Unauthorized:
        return True
    return False


@pytest.mark.parametrize(
    "given", [b"Bearer old", b"bearer new", b"BEARER  new ", "Bearer né".encode()]
)
def test_each_key_is_enough(given: bytes) -> None:
    assert not refused(ApiKeys(["old", "new", "né"]), given)


@pytest.mark.parametrize(
    "given",
    [
        None,
        b"",
        b"Bearer",
        b"Bearer ",
        b"old",
        b"Basic old",
        b"Bearer old,new",
        b"Bearer ol",
        b"Bearer olde",
    ],
)
def test_what_is_no_key_is_refused(given: bytes | None) -> None:
    assert refused(ApiKeys(["old", "new"]), given)


def test_a_key_that_is_missing_is_told_apart_from_a_wrong_one() -> None:
    with pytest.raises(Unauthorized, match=r"^No API key provided"):
        ApiKeys(["old"]).check({})
    with pytest.raises(Unauthorized, match=r"^Incorrect API key provided"):  # OpenAI's words
        ApiKeys(["old"]).check({b"authorization": b"Bearer new"})


@pytest.mark.parametrize("given", [None, b"Bearer anything"])
def test_without_keys_everything_is_open(given: bytes | None) -> None:
    assert not refused(ApiKeys([]), given)
