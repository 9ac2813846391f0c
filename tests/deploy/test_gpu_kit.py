"""The measuring kit for GPU machines in deploy/gpu, prepared and run on the CPU."""

import json
import os
import re
import shutil
import subprocess
import sys
from itertools import product
from pathlib import Path

import pytest

from deploy.gpu import adapt, engine
from deploy.gpu.missing_requirements import missing

ROOT = Path(__file__).parents[2]
ENGINE_RUNS = ["minilm:float32", "splade:float32"]


def need_package_index(folder: Path) -> None:
    """Skip the test if pip cannot download a small wheel."""
    options = ["--quiet", "--no-deps", "--no-cache-dir", "--retries", "1", "--dest", str(folder)]
    command = [sys.executable, "-m", "pip", "download", *options, "typing-extensions"]
    if subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("needs a package index that pip can reach")


def copy_checkout(target: Path) -> None:
    """Copy what the kit reads of the checkout, as a Git repository of its own."""
    listed = subprocess.run(
        ["git", "ls-files", "-coz", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    for name in filter(None, listed.stdout.split("\0")):
        source = ROOT / name
        if source.is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, target / name)
    subprocess.run(["git", "init", "--quiet", target], check=True)


def run(script: str, *arguments: str, checkout: Path, **variables: str) -> str:
    """Run a script of the kit in a checkout; return its output."""
    process = subprocess.run(
        ["bash", script, *arguments],
        cwd=checkout,
        env={**os.environ, **variables, "PYTHON": sys.executable},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert process.returncode == 0, process.stdout
    return process.stdout


@pytest.fixture(scope="module")
def checkout(minilm_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the checkout in which prepare.sh has filled .gpu/."""
    need_package_index(tmp_path_factory.mktemp("wheel"))
    folder = tmp_path_factory.mktemp("kit") / "checkout"
    copy_checkout(folder)
    python_version = ".".join(map(str, sys.version_info[:2]))
    output = run("deploy/gpu/prepare.sh", checkout=folder, KIT_PYTHON_VERSION=python_version)
    sizes = re.search(r"(\d+) MiB of \.gpu and (\d+) MiB of the checkout; limit (\d+) MiB", output)
    assert sizes
    kit, tree, limit = map(int, sizes.groups())
    assert kit + tree < limit
    return folder


@pytest.fixture(scope="module")
def results(checkout: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The results of the quickest steps, on the CPU."""
    folder = tmp_path_factory.mktemp("results")
    output = run(
        ".gpu/on_gpu.sh",
        *("smoke", "engine"),
        checkout=checkout,
        OUT=str(folder),
        KIT_HOME=str(tmp_path_factory.mktemp("home")),
        KIT_SECONDS="1200",
        KIT_TIME_FACTOR="5",
        KIT_SMOKE="minilm bge-m3 nv-embed",
        KIT_ENGINE=" ".join(ENGINE_RUNS),
        CUDA_VISIBLE_DEVICES="",
    )
    assert "no GPU: every step runs on the CPU" in output
    assert "adapted: the default model has float16 weights" in output
    (shared,) = re.findall(r"^== smoke, at most (\d+) of (\d+)", output, re.MULTILINE)
    limit, left = map(int, shared)
    assert limit == pytest.approx((left - 10) * 80 / (80 + 40 + 160), abs=2), "its share"
    ended = dict(re.findall(r"^== (\w+) ended with status (\d+)", output, re.MULTILINE))
    assert ended == {"hardware": "0", "smoke": "0", "engine": "0"}
    smoke = re.findall(r"^(\S+) float32: float32, lowest cosine 1\.0", output, re.MULTILINE)
    assert smoke == ["minilm", "bge-m3", "nv-embed"]
    assert re.search(r"^minilm:float32 \| 10 \| ", output, re.MULTILINE)  # of the summary
    return folder


@pytest.mark.full
def test_the_hardware_is_measured(results: Path) -> None:
    found = json.loads((results / "env.json").read_text(encoding="utf-8"))
    assert found["device"] == "cpu"
    assert found["bf16_tflops"] > 0 and found["launches"]["add_us"] > 0


@pytest.mark.full
def test_the_engine_is_measured(results: Path) -> None:
    lines = (results / "engine.jsonl").read_text(encoding="utf-8").splitlines()
    found = [json.loads(line) for line in lines]
    assert {each["run"] for each in found} == {*ENGINE_RUNS}
    assert all(each["tokens_per_s"] > 0 for each in found if "tokens_per_s" in each)
    assert {(each["length"], each["texts"]) for each in found} == {
        *product(engine.LENGTHS, engine.COUNTS)
    }


def test_adapting_accepts_other_weights(tmp_path: Path) -> None:
    file = tmp_path / adapt.BUNDLES
    file.parent.mkdir(parents=True)
    shutil.copy(ROOT / adapt.BUNDLES, file)
    adapt.accept_float16_weights(tmp_path, "0" * 64)
    text = file.read_text(encoding="utf-8")
    assert f'"model.safetensors": "{"0" * 64}"' in text
    compile(text, file.name, "exec")


def test_requirements_that_are_not_installed_are_missing() -> None:
    requirements = ["Numpy>=2", "typing_extensions", "uvloop>=1; sys_platform != 'win32'", "orjson"]
    requirements += ["magic; sys_platform != 'linux'"]
    found = missing(requirements, {"numpy", "typing-extensions"})
    assert found == ["uvloop>=1", "orjson"]
