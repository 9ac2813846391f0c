"""The server that is attacked: as it is by default, without a key."""

from collections.abc import Iterator

import pytest

from tests.service.server import Server


@pytest.fixture
def victim(minilm_folder: object, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with Server(tmp_path_factory.mktemp("victim") / "log") as running:
        yield running
        assert running.process.poll() is None, "the server is dead"
        assert "Traceback" not in running.log
