"""deploy/compose.yaml and compose.gpu.yaml, as far as they can be checked without Docker."""

import re
from pathlib import Path

import pytest
import yaml

from embedwell.settings.settings import PREFIX, Settings

ROOT = Path(__file__).parents[2]
COMPOSE = ROOT / "deploy" / "compose.yaml"
SERVICES = yaml.safe_load(COMPOSE.read_text(encoding="utf-8"))["services"]
GPU = yaml.safe_load((ROOT / "deploy" / "compose.gpu.yaml").read_text(encoding="utf-8"))
SET_BY_THE_IMAGE = {"host", "port", "cache"}


def test_every_other_setting_is_passed_on() -> None:
    passed_on = set(re.findall(rf"^ *- {PREFIX}(\w+)$", COMPOSE.read_text(), re.MULTILINE))
    wrong = {name.lower() for name in passed_on} ^ (Settings.model_fields.keys() - SET_BY_THE_IMAGE)
    assert not wrong, "add these lines to deploy/compose.yaml, or remove those of old settings"


def test_ports_are_published_on_this_machine_alone_unless_an_address_is_named() -> None:
    published = {name: service.get("ports", []) for name, service in SERVICES.items()}
    assert published == {
        "embedwell": [],
        "gateway": ["${GATEWAY_ADDRESS:-127.0.0.1}:${GATEWAY_PORT:-8080}:8080"],
    }


def test_the_image_has_no_torch_unless_it_is_asked_for_or_for_a_gpu() -> None:
    assert SERVICES["embedwell"]["build"]["args"]["TORCH"] == "${TORCH-none}"
    assert GPU["services"]["embedwell"]["build"]["args"] == {"TORCH": "cuda"}


def test_kernels_for_a_gpu_lie_in_a_volume_that_may_run_libraries() -> None:
    (variable,) = GPU["services"]["embedwell"]["environment"]
    name, _, folder = variable.partition("=")
    _, _, mounted = SERVICES["embedwell"]["volumes"][0].partition(":")
    assert name == "TRITON_CACHE_DIR" and folder.startswith(f"{mounted}/")


@pytest.mark.parametrize("services", [SERVICES, GPU["services"]], ids=["cpu", "gpu"])
def test_the_image_knows_the_arguments_of_its_build(services: dict[str, dict[str, object]]) -> None:
    build = services["embedwell"]["build"]
    assert isinstance(build, dict)
    known = re.findall(r"^ARG (\w+)", (ROOT / "Dockerfile").read_text(), re.MULTILINE)
    assert build["args"].keys() <= set(known)
