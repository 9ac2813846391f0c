"""The attacked server, with default settings and no key."""

from collections.abc import Iterator

import pytest

from tests.certificates import one_certificate
from tests.service.server import Server

__all__ = ["one_certificate"]  # a fixture


@pytest.fixture
def victim(minilm_folder: object, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with Server(tmp_path_factory.mktemp("victim") / "log") as server:
        yield server
        assert server.process.poll() is None, "the server has ended"
        assert "Traceback" not in server.log
