"""The image, built from the Dockerfile and run as the pages say, by podman."""

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

import hatch_build
from tests.deploy.containers import (
    KERNEL,
    ROOT,
    Podman,
    free_port,
    installed_podman,
    wait_until_ready,
)
from tests.programs import program

pytestmark = pytest.mark.image

PAGE = (ROOT / "deploy" / "README.md").read_text(encoding="utf-8")
[LOCKED] = re.findall(r"^(docker run --rm --init (?:.*\\\n)*.*)$", PAGE, re.MULTILINE)
[DERIVED] = re.findall(r"```dockerfile\n(.*?)```", PAGE, re.DOTALL)
README = (ROOT / "README.md").read_text(encoding="utf-8")
[VECTOR] = re.findall(r'Hello, world", "A second text"\]\}\'\n\[\[(.*?),"…"', README)
MODEL = "/weights/all-MiniLM-L6-v2"


@pytest.fixture(scope="module")
def podman() -> Iterator[Podman]:
    with installed_podman("image") as podman:
        yield podman


@pytest.fixture(scope="module", autouse=True)
def image(podman: Podman) -> str:
    """The image with the default arguments, but the kernels of one instruction set."""
    podman.build(f"--build-arg=KERNELS={KERNEL}")
    return "embedwell"


class Running:
    """A container with a server, and the address of the server."""

    def __init__(self, podman: Podman, name: str, port: int) -> None:
        self.podman, self.name = podman, name
        self.url = f"http://127.0.0.1:{port}"
        wait_until_ready(podman, name, self.url)

    def run(self, *command: str) -> str:
        """What a command in the container prints, also if it fails."""
        done = self.podman("exec", self.name, *command, check=False)
        return done.stdout + done.stderr


@pytest.fixture(scope="module")
def server(podman: Podman) -> Iterator[Running]:
    """The server without rights, by the command of the page, in float32 and with a key."""
    port = free_port()
    podman.environment["EMBEDWELL_API_KEY"] = "secret"
    command = LOCKED.replace("127.0.0.1:8080", f"127.0.0.1:{port}").replace("--rm ", "")
    with podman.container(f"{command} serve --dtype float32") as name:
        yield Running(podman, name, port)


def embed(url: str, **headers: str) -> list[float]:
    body = {"inputs": ["Hello, world"]}
    response = httpx.post(f"{url}/embed", json=body, headers=headers, timeout=60)
    assert response.status_code == 200, response.text
    vector: list[float] = response.json()[0]
    return vector


def test_the_server_gives_the_vector_of_the_readme(server: Running) -> None:
    expected = json.loads(f"[{VECTOR}]")
    vector = embed(server.url, authorization="Bearer secret")
    assert len(vector) == 384
    assert vector[: len(expected)] == pytest.approx(expected, abs=1e-3)  # rounded
    assert httpx.post(f"{server.url}/embed", json={"inputs": "x"}, timeout=120).status_code == 401


def test_the_server_is_a_user_without_rights_and_changes_no_file(server: Running) -> None:
    assert server.run("id", "-u").strip() == "10001"
    assert "Read-only file system" in server.run("touch", "/srv/new")
    status = server.run("cat", "/proc/1/status")
    assert re.findall(r"^CapEff:\t(\w+)", status, re.MULTILINE) == ["0000000000000000"]


def test_the_image_has_what_the_server_needs_and_no_more(server: Running) -> None:
    packages = server.run("sh", "-c", "ls -d /opt/venv/lib/python3*/site-packages/*.dist-info")
    assert "/embedwell-" in packages and "/fastapi-" in packages
    assert "/torch-" not in packages and "/setuptools-" not in packages
    folder = "/opt/venv/lib/python3*/site-packages/embedwell_models/kernels"
    libraries = server.run("sh", "-c", f"cd {folder} && ls *.so").split()
    assert sorted(libraries) == sorted(hatch_build.libraries([KERNEL]))
    assert server.run("sh", "-c", "command -v g++ strip || echo none") == "none\n"


def test_the_health_check_of_the_image_passes(podman: Podman, server: Running) -> None:
    podman("healthcheck", "run", server.name)


@pytest.mark.parametrize("command", ["--version", "embedwell --version"])
def test_commands_of_embedwell_are_arguments_of_the_image(podman: Podman, command: str) -> None:
    done = podman("run", "--rm", "--no-healthcheck", "embedwell", *command.split())
    assert done.stdout.startswith("embedwell, version ")


def test_other_programs_run_as_they_are_and_others_are_refused(podman: Podman) -> None:
    run = ["run", "--rm", "--no-healthcheck", "embedwell"]
    assert podman(*run, "sh", "-c", "echo $0 $1", "a", "b").stdout == "a b\n"
    assert "No such command 'nonsense'" in podman(*run, "nonsense", check=False).stderr


def test_a_derived_image_serves_a_model_of_its_own(podman: Podman, tmp_path: Path) -> None:
    (tmp_path / "Dockerfile").write_text(DERIVED)
    podman("build", "--isolation", "chroot", "--tag", "embedwell-derived", str(tmp_path))
    port = free_port()
    copy = f"cp -r {MODEL}/. /opt/ml/model && exec embedwell serve"
    options = f"--tmpfs /opt/ml/model --publish 127.0.0.1:{port}:8080 embedwell-derived"
    with podman.container(f'docker run {options} sh -c "{copy}"') as name:
        server = Running(podman, name, port)
        body = {"inputs": ["Hello, world"]}
        assert len(httpx.post(f"{server.url}/invocations", json=body, timeout=60).json()[0]) == 384
        assert httpx.get(f"{server.url}/ping", timeout=120).status_code == 200
        assert server.run("id", "-u").strip() == "0"
    podman("rmi", "embedwell-derived")


def container_of(manifests: str) -> dict[str, Any]:
    """The container of the Deployment in a text of manifests."""
    kinds = {manifest["kind"]: manifest for manifest in yaml.safe_load_all(manifests) if manifest}
    [container] = kinds["Deployment"]["spec"]["template"]["spec"]["containers"]
    found: dict[str, Any] = container
    return found


@pytest.mark.parametrize("source", ["deploy/kubernetes.yaml", "deploy/helm"])
def test_the_container_of_a_manifest_becomes_ready_and_live(podman: Podman, source: str) -> None:
    path = ROOT / source
    if path.is_dir():
        helm = program("helm", "(no package; .ci/helm.py fetches it)")
        container = container_of(podman.run(helm, "template", "embedwell", source).stdout)
    else:
        container = container_of(path.read_text(encoding="utf-8"))
    assert container["securityContext"]["readOnlyRootFilesystem"]
    command = [*container.get("command", []), *container.get("args", [])]
    settings = [
        f"--env {entry['name']}={entry.get('value', 'secret')}" for entry in container["env"]
    ]
    port = free_port()
    locked = f"--read-only --cap-drop ALL --tmpfs /tmp --publish 127.0.0.1:{port}:8080"
    words = [locked, *settings, "embedwell", *command]
    with podman.container(f"docker run {' '.join(words)}") as name:
        url = Running(podman, name, port).url
        for probe in ("readinessProbe", "livenessProbe"):
            assert (
                httpx.get(url + container[probe]["httpGet"]["path"], timeout=120).status_code == 200
            )


@pytest.mark.needs("podman_compose")
def test_compose_starts_the_server_and_finds_it_healthy(podman: Podman) -> None:
    podman_compose = str(Path(sys.executable).with_name("podman-compose"))
    compose = [podman_compose, "--project-name", "embedwell-test", "--file", "deploy/compose.yaml"]
    name = "embedwell-test_embedwell_1"
    try:
        podman.run(*compose, "up", "--detach", "--no-build", "embedwell")
        podman("wait", "--condition", "running", name)
        while podman("healthcheck", "run", name, check=False).returncode != 0:
            state = podman("container", "inspect", "--format", "{{.State.Running}}", name)
            assert "true" in state.stdout, podman.logs(name)
        podman("exec", name, "touch", "/weights/new", "/tmp/new")
        assert podman("exec", name, "touch", "/srv/new", check=False).returncode != 0
    finally:
        podman.run(*compose, "down", "--volumes")


def test_the_server_drains_when_it_is_told_to_stop(podman: Podman, server: Running) -> None:
    podman("stop", "--time", "60", server.name)
    status = podman("container", "inspect", "--format", "{{.State.ExitCode}}", server.name)
    assert status.stdout.strip() == "0"
    assert "the server stops after SIGTERM" in podman.logs(server.name)
