"""Options that both clients share."""

import pytest

import embedwell
from embedwell_client.options import ClientOptions


def test_the_headers_name_the_client_and_have_the_key() -> None:
    headers = ClientOptions("http://localhost", "sesame").httpx_arguments["headers"]
    assert headers == {
        b"user-agent": f"embedwell/{embedwell.__version__}".encode(),
        b"authorization": b"Bearer sesame",
    }
    assert b"authorization" not in ClientOptions("http://localhost").httpx_arguments["headers"]


def test_an_address_without_http_is_refused() -> None:
    with pytest.raises(ValueError, match="'localhost:8080': the address must begin with http://"):
        _ = ClientOptions("localhost:8080").httpx_arguments


def test_the_scheme_of_an_address_may_be_in_capitals() -> None:
    assert ClientOptions("HTTP://localhost").httpx_arguments["base_url"] == "HTTP://localhost"
