"""Podman, which the tests of the image use in place of docker: both know the same commands."""

import os
import re
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

import hatch_build
from tests.programs import program

ROOT = Path(__file__).parents[2]
PROGRAMS = {"podman": "podman", "runc": "runc", "mmdebstrap": "mmdebstrap"}
# Of one instruction set, that every processor of its kind has: less to compile.
KERNEL, *_ = hatch_build.TARGETS.get(hatch_build.target(hatch_build.compiler()), {"avx2": []})
_BASE = re.compile(r"^ARG BASE=(.*)$", re.MULTILINE)


_LAYER = re.compile(r"^--> (?:Using cache )?([0-9a-f]{11,})$", re.MULTILINE)


class Podman:
    """Runs podman's commands; `environment` also is that of scripts which call it.

    label: of the layers that its builds add, by which it removes those that a later build replaces.
    """

    def __init__(self, label: str) -> None:
        self._label = f"embedwell-test={label}"
        self._layers: set[str] = set()  # the first digits of those that its builds used
        self.environment = {
            **{name: value for name, value in os.environ.items() if "EMBEDWELL_" not in name},
            "CONTAINERS_CONF": str(Path(__file__).with_name("containers.conf")),
            "ENGINE": "podman",
        }

    def __call__(self, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        return self.run("podman", *arguments, check=check)

    def run(
        self, *command: str, check: bool = True, environment: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run a program to its end; what failed is shown with its output."""
        done = subprocess.run(
            command,
            cwd=ROOT,
            env={**self.environment, **(environment or {})},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        assert not check or done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"[-9000:]
        return done

    def build(self, *options: str, check: bool = True) -> str:
        """Build an image from the Dockerfile; what the build printed."""
        # RUN in a chroot: a container of its own for each step takes longer.
        command = ["deploy/image.sh", "build", "--isolation=chroot", f"--label={self._label}"]
        done = self.run(*command, *options, check=check)
        self._layers |= {layer[:11] for layer in _LAYER.findall(done.stdout)}
        return done.stdout + done.stderr

    def remove_replaced_layers(self) -> None:
        """Remove what earlier builds left and no build of this run used."""
        listing = ["images", "--all", "--quiet", "--no-trunc", "--filter", f"label={self._label}"]
        layers = [line.removeprefix("sha256:") for line in self(*listing).stdout.split()]
        # The newest are listed first, and no layer is newer than those that were built on it.
        if replaced := [layer for layer in layers if layer[:11] not in self._layers]:
            # Layers of other builds may stand on one, which then stays until they are removed.
            self("rmi", "--no-prune", *dict.fromkeys(replaced), check=False)

    def has(self, image: str) -> bool:
        return self("image", "exists", image, check=False).returncode == 0

    @contextmanager
    def container(self, command: str) -> Iterator[str]:
        """Run `docker run …` of a page in the background; its name."""
        name = f"embedwell-test-{free_port()}"
        _, _, rest = command.partition("docker run ")
        shell = f"podman run --detach --name {name} {rest}"
        self.run("bash", "-c", shell)
        try:
            yield name
        finally:
            self("rm", "--force", name, check=False)

    def logs(self, name: str) -> str:
        done = self("logs", name, check=False)
        return done.stdout + done.stderr


@contextmanager
def installed_podman(label: str) -> Iterator[Podman]:
    """Podman, with the base image of the Dockerfile; skips the test where it cannot run.

    At the end it keeps of its builds what makes the same builds quick.
    """
    for name, package in PROGRAMS.items():
        program(name, package)
    if os.geteuid() != 0:
        pytest.skip("needs root")
    podman = Podman(label)
    podman("image", "prune", "--force", "--filter", "until=168h")  # layers of old builds
    [base] = _BASE.findall((ROOT / "Dockerfile").read_text(encoding="utf-8"))
    if not podman.has(base) and podman("pull", "--quiet", base, check=False).returncode != 0:
        podman.run("deploy/standin.sh")
    yield podman
    podman.remove_replaced_layers()


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


def wait_until_ready(podman: Podman, name: str, url: str) -> None:
    """Wait until the server in a container is ready, for as long as the container runs."""
    deadline = time.monotonic() + 300
    while True:
        try:
            if httpx.get(f"{url}/ready", timeout=10).status_code == 200:
                return
        except httpx.HTTPError:
            pass
        running = podman("container", "inspect", "--format", "{{.State.Running}}", name)
        assert "true" in running.stdout, podman.logs(name)
        assert time.monotonic() < deadline, podman.logs(name)
        time.sleep(0.2)
