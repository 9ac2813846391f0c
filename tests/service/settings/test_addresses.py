"""Which machines reach an address, and the address of a URL for it."""

import pytest

from embedwell.settings.addresses import address_to_ask, is_loopback, is_wildcard


@pytest.mark.parametrize(
    ("host", "loopback", "wildcard", "asked"),
    [
        ("127.0.0.1", True, False, "127.0.0.1"),
        ("127.0.1.1", True, False, "127.0.1.1"),
        ("::1", True, False, "[::1]"),
        ("localhost", True, False, "localhost"),
        ("0.0.0.0", False, True, "127.0.0.1"),
        ("::", False, True, "[::1]"),
        ("0:0:0:0:0:0:0:0", False, True, "[::1]"),
        ("192.0.2.1", False, False, "192.0.2.1"),
        ("2001:db8::1", False, False, "[2001:db8::1]"),
        ("a.example", False, False, "a.example"),
    ],
)
def test_an_address_is_for_this_machine_all_or_one_network(
    host: str, loopback: bool, wildcard: bool, asked: str
) -> None:
    assert (is_loopback(host), is_wildcard(host)) == (loopback, wildcard)
    assert address_to_ask(host) == asked
