"""deploy/kubernetes.yaml and ray/kuberay.yaml, as far as they can be checked without a cluster."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from embedwell.settings.settings import PREFIX, Settings
from tests.service.server import Server

pytestmark = pytest.mark.full

ROOT = Path(__file__).parents[2]
MANIFEST = ROOT / "deploy" / "kubernetes.yaml"
RAY = yaml.safe_load((ROOT / "deploy" / "ray" / "kuberay.yaml").read_text(encoding="utf-8"))
CLUSTER = RAY["spec"]["rayClusterConfig"]
SERVICE, DEPLOYMENT = yaml.safe_load_all(MANIFEST.read_text(encoding="utf-8"))
POD = DEPLOYMENT["spec"]["template"]
(CONTAINER,) = POD["spec"]["containers"]
ENVIRONMENT = {entry["name"]: entry.get("value") for entry in CONTAINER["env"]}
PROBES = ["startupProbe", "readinessProbe", "livenessProbe"]


def test_the_environment_has_valid_settings() -> None:
    names = {name: name.removeprefix(PREFIX).lower() for name in ENVIRONMENT}
    assert set(names.values()) <= Settings.model_fields.keys()
    Settings(**{names[name]: value for name, value in ENVIRONMENT.items() if value is not None})


def test_the_service_selects_the_pods() -> None:
    labels = POD["metadata"]["labels"]
    assert SERVICE["spec"]["selector"].items() <= labels.items()
    assert DEPLOYMENT["spec"]["selector"]["matchLabels"] == labels
    ports: list[dict[str, Any]] = CONTAINER["ports"]
    assert [entry["port"] for entry in SERVICE["spec"]["ports"]] == [
        entry["containerPort"] for entry in ports
    ]


def test_the_grace_period_covers_draining_and_shutdown() -> None:
    drain, shutdown = float(ENVIRONMENT["EMBEDWELL_DRAIN_DELAY"]), Settings().shutdown_timeout
    assert drain > CONTAINER["readinessProbe"]["periodSeconds"]
    assert POD["spec"]["terminationGracePeriodSeconds"] > drain + shutdown


@pytest.mark.parametrize("name", PROBES)
def test_probes_succeed_without_a_key(name: str, server: Server) -> None:
    probe = CONTAINER[name]["httpGet"]
    assert probe["port"] == CONTAINER["ports"][0]["containerPort"]
    assert server.client.get(probe["path"]).status_code == 200


def test_a_service_sets_no_variables_in_pods() -> None:
    assert SERVICE["metadata"]["name"] == "embedwell"  # it would set EMBEDWELL_PORT
    groups = [CLUSTER["headGroupSpec"], *CLUSTER["workerGroupSpecs"]]
    for template in (POD, *(group["template"] for group in groups)):
        assert template["spec"]["enableServiceLinks"] is False


def test_the_version_of_ray_is_that_of_the_image() -> None:
    (version,) = re.findall(r"^ray==(.*)$", (ROOT / "constraints.txt").read_text(), re.MULTILINE)
    assert CLUSTER["rayVersion"] == version
