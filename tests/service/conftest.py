"""One real server for the tests that do not change it."""

from collections.abc import Iterator

import pytest

from tests.service.server import Server


@pytest.fixture(scope="session")
def server(minilm_folder: object, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with Server(tmp_path_factory.mktemp("server") / "log") as running:
        yield running
