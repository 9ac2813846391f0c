"""The example for Kubernetes, as far as it can be told without one."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from service.settings import PREFIX, Settings
from tests.service.server import Server

MANIFEST = Path(__file__).parent.parent / "deploy" / "kubernetes.yaml"
SERVICE, DEPLOYMENT = yaml.safe_load_all(MANIFEST.read_text(encoding="utf-8"))
POD = DEPLOYMENT["spec"]["template"]
(CONTAINER,) = POD["spec"]["containers"]
GIVEN = {one["name"]: one.get("value") for one in CONTAINER["env"]}
PROBES = ["startupProbe", "readinessProbe", "livenessProbe"]


def test_what_it_sets_are_settings_with_values_that_they_take() -> None:
    names = {name: name.removeprefix(PREFIX).lower() for name in GIVEN}
    assert set(names.values()) <= Settings.model_fields.keys()
    Settings(**{names[name]: value for name, value in GIVEN.items() if value is not None})


def test_the_service_finds_the_pods() -> None:
    labels = POD["metadata"]["labels"]
    assert SERVICE["spec"]["selector"].items() <= labels.items()
    assert DEPLOYMENT["spec"]["selector"]["matchLabels"] == labels
    ports: list[dict[str, Any]] = CONTAINER["ports"]
    assert [one["port"] for one in SERVICE["spec"]["ports"]] == [
        one["containerPort"] for one in ports
    ]


def test_a_stop_has_the_time_that_it_takes() -> None:
    drain, finish = float(GIVEN["EMBEDDING_DRAIN_DELAY"]), Settings().shutdown_timeout
    assert drain > CONTAINER["readinessProbe"]["periodSeconds"]
    assert POD["spec"]["terminationGracePeriodSeconds"] > drain + finish


@pytest.mark.parametrize("name", PROBES)
def test_probes_ask_without_a_key_what_the_server_answers(name: str, server: Server) -> None:
    probe = CONTAINER[name]["httpGet"]
    assert probe["port"] == CONTAINER["ports"][0]["containerPort"]
    assert server.client.get(probe["path"]).status_code == 200


def test_a_service_of_that_name_does_not_set_the_port() -> None:
    assert POD["spec"]["enableServiceLinks"] is False
