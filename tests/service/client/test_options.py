"""Options that both clients share."""

import embedwell
from embedwell_client.options import ClientOptions


def test_the_headers_name_the_client_and_have_the_key() -> None:
    headers = ClientOptions("http://localhost", "sesame").httpx_arguments["headers"]
    assert headers == {
        b"user-agent": f"embedwell/{embedwell.__version__}".encode(),
        b"authorization": b"Bearer sesame",
    }
    assert b"authorization" not in ClientOptions("http://localhost").httpx_arguments["headers"]
