"""Authorization by API keys."""

import pytest

from embedwell.errors import Unauthorized
from embedwell.http.keys import ApiKeys


def is_refused(keys: ApiKeys, authorization: bytes | None) -> bool:
    try:
        keys.check({} if authorization is None else {b"authorization": authorization})
    except Unauthorized:
        return True
    return False


@pytest.mark.parametrize(
    "authorization", [b"Bearer old", b"bearer new", b"BEARER  new ", "Bearer né".encode()]
)
def test_any_of_the_keys_is_accepted(authorization: bytes) -> None:
    assert not is_refused(ApiKeys(["old", "new", "né"]), authorization)


@pytest.mark.parametrize(
    "authorization",
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
def test_other_authorization_is_refused(authorization: bytes | None) -> None:
    assert is_refused(ApiKeys(["old", "new"]), authorization)


def test_missing_and_wrong_keys_have_different_messages() -> None:
    with pytest.raises(Unauthorized, match=r"^No API key provided"):
        ApiKeys(["old"]).check({})
    with pytest.raises(Unauthorized, match=r"^Incorrect API key provided"):  # OpenAI's words
        ApiKeys(["old"]).check({b"authorization": b"Bearer new"})


def test_azures_header_is_accepted_where_there_is_no_authorization() -> None:
    keys = ApiKeys(["old", "new"])
    keys.check({b"api-key": b" new"})
    for headers in (
        {b"api-key": b"none"},
        {b"api-key": b""},
        {b"api-key": b"Bearer new"},
        {b"api-key": b"new", b"authorization": b"Bearer none"},
    ):
        with pytest.raises(Unauthorized, match=r"^Incorrect"):
            keys.check(headers)
