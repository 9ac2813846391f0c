"""One certificate in place of the hundred that each HTTP client reads, also for plain HTTP."""

from collections.abc import Iterator

import certifi
import pytest

_END = "-----END CERTIFICATE-----\n"


@pytest.fixture(scope="package", autouse=True)
def one_certificate(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """For a package whose tests connect to no other machine: 40 ms less for each client."""
    path = tmp_path_factory.mktemp("certificates") / "one.pem"
    path.write_text(certifi.contents().partition(_END)[0] + _END, encoding="ascii")
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("SSL_CERT_FILE", str(path))
        yield
