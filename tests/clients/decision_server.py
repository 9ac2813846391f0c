"""A server of a small decision model, which its clients call `laya`."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from embedwell_models.hub.sources import resolve
from tests.models.laya_model import write_laya
from tests.service.local_server import local_server
from tests.service.server import HttpServer


@contextmanager
def decision_server(folder: Path) -> Iterator[HttpServer]:
    """Serve a model that is written to an empty folder."""
    model = write_laya(folder / "laya", max_len=512, head_max_len=192)
    with local_server(resolve(str(model), cache=folder / "cache"), served_name="laya") as server:
        yield server
