"""The alerts and the dashboard in deploy/monitoring, with a real Prometheus."""

import json
import math
import re
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from tests.conftest import Folder
from tests.gateways import free_port
from tests.programs import program
from tests.service.local_server import local_server

FOLDER = Path(__file__).parents[2] / "deploy" / "monitoring"


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


pytestmark = pytest.mark.full

ALERTS, DASHBOARD = FOLDER / "alerts.yaml", json.loads((FOLDER / "grafana.json").read_text())
PAGE = Path(__file__).parents[2] / "docs" / "observability.md"
RULES = [rule for group in yaml.safe_load(ALERTS.read_text())["groups"] for rule in group["rules"]]
QUERIES = {
    f"{panel['title']}: {target['legendFormat']}": target["expr"]
    for panel in DASHBOARD["panels"]
    for target in panel["targets"]
}
AUTOSCALING = (FOLDER.parent / "helm" / "templates" / "autoscaling.yaml").read_text()
for query in re.findall(r"query: (.*)", AUTOSCALING):
    QUERIES[f"autoscaling: {query}"] = query.replace("{{ $server }}", '{job="$job"}')

HEALTHY = {
    "up{}": "1x60",
    "embedwell_ready{}": "1x60",
    'embedwell_requests_total{path="/embed", status="200"}': "0+600x60",
    'embedwell_requests_total{path="/embed", status="400"}': "0+60x60",
    'embedwell_requests_total{path="/embed", status="429"}': "0+6x60",
    'embedwell_requests_total{path="/ready", status="503"}': "0+6x60",
    "embedwell_wait_seconds{}": "0.5x60",
    'embedwell_request_seconds_bucket{le="5"}': "0+598x60",
    'embedwell_request_seconds_bucket{le="10"}': "0+600x60",
    'embedwell_request_seconds_bucket{le="+Inf"}': "0+600x60",
    "embedwell_engine_restarts{}": "1x60",
    "embedwell_quarantined_inputs_total{}": "2x60",
    "embedwell_texts_total{}": "0+100x60",
    "embedwell_truncated_texts_total{}": "0+5x60",
}
FAULTS = {  # of each alert, the series that differ, a value each minute
    "EmbedwellServerDown": {"up{}": "1x50 0x10"},
    "EmbedwellNotReady": {"embedwell_ready{}": "1x50 0x10"},
    "EmbedwellErrors": {'embedwell_requests_total{path="/embed", status="500"}': "0+12x60"},
    "EmbedwellRefusesLoad": {'embedwell_requests_total{path="/embed", status="429"}': "0+60x60"},
    "EmbedwellLongWait": {"embedwell_wait_seconds{}": "1.5x60"},
    "EmbedwellSlow": {'embedwell_request_seconds_bucket{le="5"}': "0+590x60"},
    "EmbedwellEngineDies": {"embedwell_engine_restarts{}": "1x55 3 4 4 4 4"},
    "EmbedwellQuarantinedInput": {"embedwell_quarantined_inputs_total{}": "2x55 3x5"},
    "EmbedwellTruncatesTexts": {"embedwell_truncated_texts_total{}": "0+20x60"},
}


def firing_alerts(folder: Path, series: dict[str, str], expected: list[str]) -> str:
    """Return promtool's errors unless exactly the expected alerts fire after an hour; else ""."""
    samples = [{"labels": f'{{alertname="{name}"}}', "value": 1} for name in expected]
    with_labels = {
        name.replace("{", '{job="embedwell", instance="a:8080", '): values
        for name, values in series.items()
    }
    test = {
        "interval": "1m",
        "input_series": [{"series": s, "values": values} for s, values in with_labels.items()],
        "promql_expr_test": [
            {
                "expr": 'count by (alertname) (ALERTS{alertstate="firing"})',
                "eval_time": "60m",
                "exp_samples": samples,
            }
        ],
    }
    file = folder / "test.yaml"
    file.write_text(yaml.safe_dump({"rule_files": [str(ALERTS)], "tests": [test]}))
    promtool = program("promtool", "prometheus")
    process = subprocess.run(
        [promtool, "test", "rules", str(file)], capture_output=True, text=True, check=False
    )
    return process.stdout + process.stderr if process.returncode else ""


def test_no_alert_fires_for_a_healthy_server(tmp_path: Path) -> None:
    assert not firing_alerts(tmp_path, HEALTHY, [])


def test_every_alert_has_a_fault() -> None:
    assert [rule["alert"] for rule in RULES] == list(FAULTS)


def test_the_page_lists_every_alert_with_its_severity() -> None:
    rows = re.findall(r"^- `(Embedwell\w+)` \((\w+)\):", PAGE.read_text("utf-8"), re.MULTILINE)
    assert rows == [(rule["alert"], rule["labels"]["severity"]) for rule in RULES]


@pytest.mark.parametrize("name", FAULTS)
def test_an_alert_fires_for_its_fault_alone(name: str, tmp_path: Path) -> None:
    assert not firing_alerts(tmp_path, HEALTHY | FAULTS[name], [name])


def test_an_alert_fires_when_no_server_is_found(tmp_path: Path) -> None:
    gone = {series: f"{values.partition('x')[0]}x50" for series, values in HEALTHY.items()}
    assert not firing_alerts(tmp_path, gone, ["EmbedwellServerDown"])


@pytest.fixture(scope="module")
def scraping(tiny_bert: Folder, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    """Prometheus, and a server under load."""
    stop = threading.Event()

    def load(server: Any) -> None:
        with httpx.Client(base_url=server.url, timeout=60) as client:
            while not stop.wait(0.01):
                client.post("/embed", json={"inputs": "a text"})
                client.post("/embed", json={"inputs": 1})

    program("prometheus", "prometheus")  # or else nothing is started
    folder = tmp_path_factory.mktemp("prometheus")
    with local_server(tiny_bert(), vector_cache_bytes=1 << 20) as server:
        thread = threading.Thread(target=load, args=[server])
        thread.start()
        try:
            with run_prometheus(folder, server.url.removeprefix("http://")) as running:
                yield running
        finally:
            stop.set()
            thread.join()


@pytest.mark.parametrize("name", QUERIES)
def test_a_query_of_the_dashboard_has_a_value(name: str, scraping: Prometheus) -> None:
    query = QUERIES[name].replace("$__rate_interval", "5s").replace("1m", "5s")
    query = query.replace("$job", "embedwell")
    assert "$" not in query
    wait_until(lambda: scraping.values(query))


def test_prometheus_evaluates_every_alert_and_none_fires(scraping: Prometheus) -> None:
    def states() -> dict[str, tuple[str, str]]:
        rules = [rule for group in scraping.get("rules")["groups"] for rule in group["rules"]]
        return {rule["name"]: (rule["health"], rule["state"]) for rule in rules}

    # Before the first scrape, the alert for a vanished server is pending.
    wait_until(lambda: states() == {rule["alert"]: ("ok", "inactive") for rule in RULES})


def test_the_server_has_every_metric_that_is_asked_for(scraping: Prometheus) -> None:
    expressions = [*QUERIES.values(), *(rule["expr"] for rule in RULES)]
    asked = set(re.findall(r"embedwell_[a-z_]+", " ".join(expressions)))
    assert asked and asked <= set(scraping.get("label/__name__/values"))


def test_every_panel_has_a_place_of_its_own() -> None:
    panels, cells = DASHBOARD["panels"], set[tuple[int, int]]()
    for place in (panel["gridPos"] for panel in panels):
        assert place["x"] + place["w"] <= 24
        for x in range(place["x"], place["x"] + place["w"]):
            for y in range(place["y"], place["y"] + place["h"]):
                assert (x, y) not in cells
                cells.add((x, y))
    assert [panel["id"] for panel in panels] == list(range(1, len(panels) + 1))
