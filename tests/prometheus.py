"""A real Prometheus with the configuration in deploy/monitoring."""

import math
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import yaml

from tests.nginx import free_port
from tests.programs import program

FOLDER = Path(__file__).parent.parent / "deploy" / "monitoring"


class Prometheus:
    """The API of a running Prometheus."""

    def __init__(self, client: httpx.Client) -> None:
        self._client = client

    @property
    def ready(self) -> bool:
        try:
            return self._client.get("/-/ready").status_code == 200
        except httpx.ConnectError:
            return False

    def get(self, path: str, **parameters: str) -> Any:
        response = self._client.get(f"/api/v1/{path}", params=parameters)
        assert response.status_code == 200, response.text
        return response.json()["data"]

    def values(self, query: str) -> list[float]:
        """The results of a query that are numbers, unlike 0 / 0."""
        results = self.get("query", query=query)["result"]
        values = [float(result["value"][1]) for result in results]
        return [value for value in values if not math.isnan(value)]


@contextmanager
def run_prometheus(folder: Path, target: str) -> Iterator[Prometheus]:
    """Scrape a server five times a second during the block."""
    config = yaml.safe_load((FOLDER / "prometheus.yaml").read_text())
    config["global"] = {"scrape_interval": "200ms", "evaluation_interval": "200ms"}
    config["rule_files"] = [str(FOLDER / file) for file in config["rule_files"]]
    [job] = config["scrape_configs"]
    del job["dns_sd_configs"]
    job["static_configs"] = [{"targets": [target]}]
    file, port = folder / "prometheus.yaml", free_port()
    file.write_text(yaml.safe_dump(config))
    command = [
        program("prometheus", "prometheus"),
        *(f"--config.file={file}", f"--storage.tsdb.path={folder / 'data'}"),
        *(f"--web.listen-address=127.0.0.1:{port}", "--log.level=error"),
    ]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60) as client:
            prometheus = Prometheus(client)
            wait_until(lambda: prometheus.ready)
            yield prometheus
    finally:
        process.terminate()
        process.wait(60)


def wait_until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)
