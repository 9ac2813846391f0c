"""Every example of the README and of docs is run, links lead somewhere, and pictures are fresh."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from deploy.benchmark.plot import IMAGES, RESULT, plots
from tests.service.server import Server

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
API = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
PAGES = [README, *(page.read_text(encoding="utf-8") for page in sorted(ROOT.glob("docs/*.md")))]
BLOCKS = re.findall(r"```console\n(.*?)```", "\n".join(PAGES), re.DOTALL)
EXAMPLES = [
    tuple(example.split("\n", 1))
    for block in BLOCKS
    for example in block.removeprefix("$ ").rstrip("\n").split("\n$ ")
]


def same(found: Any, expected: Any) -> bool:
    """Equal, where numbers may differ by rounding and '…' stands for anything."""
    if expected == "…":
        return True
    if isinstance(expected, dict):
        return set(found) == set(expected) and all(same(found[k], expected[k]) for k in expected)
    if isinstance(expected, list):
        if len(expected) > 1 and expected[-1] == "…":  # the rest is left out
            expected = expected[:-1]
            found = found[: len(expected)]
        return len(found) == len(expected) and all(map(same, found, expected))
    return bool(found == (pytest.approx(expected, abs=1e-5) if expected else expected))


def read(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text.strip()


@pytest.mark.parametrize(("command", "answer"), EXAMPLES, ids=[e[0][:60] for e in EXAMPLES])
def test_an_example_answers_what_the_readme_says(server: Server, command: str, answer: str) -> None:
    local = command.replace("localhost:8080", server.url.removeprefix("http://"))
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"  # where embedding-service is
    done = subprocess.run(
        ["bash", "-c", local],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PATH": path},
    )
    assert same(read(done.stdout), read(answer)), done.stdout


def test_every_endpoint_has_an_example(server: Server) -> None:
    paths = set(server.client.get("/openapi.json").json()["paths"]) - {"/v1/models/{name}"}
    assert paths <= {f"/{path}" for path in re.findall(r"localhost:8080/([\w/]+)", API)}


def run(code: str, server: Server) -> None:
    """A program of its own: not every example closes its connections, which its end does."""
    local = code.replace("http://localhost:8080", server.url)
    subprocess.run([sys.executable, "-c", local], check=True)


@pytest.mark.parametrize("code", re.findall(r"```python\n(.*?)```", README, re.DOTALL))
@pytest.mark.full
def test_the_python_examples_run(server: Server, code: str) -> None:
    run(f'{code}\nassert "answer" in globals() or vectors.shape == (1, 384)', server)


CLAIMS = [
    code
    for code in re.findall(r"```python\n(.*?)```", "\n".join(PAGES[1:]), re.DOTALL)
    if "assert " in code  # the others are clients', which have tests of their own
]


@pytest.mark.parametrize("code", CLAIMS)
@pytest.mark.full
def test_the_python_examples_of_docs_hold_what_they_claim(server: Server, code: str) -> None:
    run(code, server)


LINKS = [
    (page.relative_to(ROOT), target)
    for page in [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("deploy/**/*.md")]
    for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8"))
    if "://" not in target
]


@pytest.mark.parametrize(("page", "target"), LINKS, ids=str)
def test_a_link_leads_to_a_file(page: Path, target: str) -> None:
    assert (ROOT / page.parent / target).exists()


def test_the_index_names_every_page() -> None:
    pages = {page.name for page in ROOT.glob("docs/*.md")} - {"index.md"}
    index = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    assert pages <= set(re.findall(r"\]\(([\w-]+\.md)\)", index))


def test_the_plots_are_drawn_from_the_committed_result() -> None:
    for name, text in plots(json.loads(RESULT.read_text(encoding="utf-8"))).items():
        assert (IMAGES / name).read_text(encoding="utf-8") == text
