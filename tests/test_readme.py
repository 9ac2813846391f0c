"""The examples of the README and docs run, links lead to files, and plots are up to date."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks.plot import IMAGES, RESULT, plots
from tests.service.server import Server

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
API = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
OTHER_MODELS = "".join(
    (ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8")
    for page in ("rerank", "sparse", "multi-vector", "several-models", "words")
)
PAGES = [README, *(page.read_text(encoding="utf-8") for page in sorted(ROOT.glob("docs/*.md")))]
BLOCKS = re.findall(r"```console\n(.*?)```", "\n".join(PAGES), re.DOTALL)
EXAMPLES = [
    tuple(re.split(r"(?<!\\)\n", example, maxsplit=1))  # a command may have several lines
    for block in BLOCKS
    for example in block.removeprefix("$ ").rstrip("\n").split("\n$ ")
]


def matches(actual: Any, expected: Any) -> bool:
    """Compare with tolerance for numbers; '…' in the expected value matches anything."""
    if expected == "…":
        return True
    if isinstance(expected, dict):
        return set(actual) == set(expected) and all(
            matches(actual[k], expected[k]) for k in expected
        )
    if isinstance(expected, list):
        if len(expected) > 1 and expected[-1] == "…":  # the remaining entries may be anything
            expected = expected[:-1]
            actual = actual[: len(expected)]
        return len(actual) == len(expected) and all(map(matches, actual, expected))
    return bool(actual == (pytest.approx(expected, abs=1e-5) if expected else expected))


def parse_output(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text.strip()


@pytest.mark.full(after=12)
@pytest.mark.parametrize(
    ("command", "expected_output"), EXAMPLES, ids=[e[0][:60] for e in EXAMPLES]
)
def test_a_console_example_prints_the_documented_output(
    server: Server, command: str, expected_output: str
) -> None:
    local = command.replace("localhost:8080", server.url.removeprefix("http://"))
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"  # where embedwell is
    process = subprocess.run(
        ["bash", "-c", local],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PATH": path},
    )
    assert matches(parse_output(process.stdout), parse_output(expected_output)), process.stdout


def test_every_endpoint_has_an_example(server: Server) -> None:
    paths = set(server.client.get("/openapi.json").json()["paths"]) - {"/v1/models/{name}"}
    paths -= {"/models/{name}/load", "/models/{name}/unload"}  # in docs/several-models.md
    of_batches = "/v1/files", "/v1/batches"  # in docs/batches.md
    paths = {path for path in paths if not path.startswith(of_batches)}
    examples = re.findall(r"localhost:8080/([\w/-]+)", API + OTHER_MODELS)
    assert paths <= {f"/{path}" for path in examples}


def run_python(code: str, server: Server) -> None:
    """Run code in a process of its own, whose end closes the connections that it leaves open."""
    local = code.replace("http://localhost:8080", server.url)
    subprocess.run([sys.executable, "-c", local], check=True)


@pytest.mark.parametrize("code", re.findall(r"```python\n(.*?)```", README, re.DOTALL))
@pytest.mark.full
def test_the_python_examples_run(server: Server, code: str) -> None:
    run_python(f'{code}\nassert "response" in globals() or vectors.shape == (1, 384)', server)


PAGES_OF_A_SERVER = [*({*ROOT.glob("docs/*.md")} - {ROOT / "docs" / "bulk.md"})]
EXAMPLES_WITH_ASSERTIONS = [
    code
    for page in sorted(PAGES_OF_A_SERVER)  # that of files has a test in tests/service/bulk
    for code in re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    if "assert " in code  # the others have tests in tests/clients
]


@pytest.mark.parametrize("code", EXAMPLES_WITH_ASSERTIONS)
@pytest.mark.full
def test_the_assertions_of_the_python_examples_hold(server: Server, code: str) -> None:
    run_python(code, server)


LINKS = [
    (page.relative_to(ROOT), target)
    for page in [
        *ROOT.glob("*.md"),
        *ROOT.glob("docs/*.md"),
        *ROOT.glob("benchmarks/**/*.md"),
        *ROOT.glob("deploy/**/*.md"),
    ]
    for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8"))
    if "://" not in target
]


@pytest.mark.parametrize(("page", "target"), LINKS, ids=str)
def test_links_lead_to_files(page: Path, target: str) -> None:
    assert (ROOT / page.parent / target).exists()


def test_the_index_links_to_every_page() -> None:
    pages = {page.name for page in ROOT.glob("docs/*.md")} - {"index.md"}
    index = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    assert pages <= set(re.findall(r"\]\(([\w-]+\.md)\)", index))


def test_the_plots_are_up_to_date_with_the_committed_results() -> None:
    for name, text in plots(json.loads(RESULT.read_text(encoding="utf-8"))).items():
        assert (IMAGES / name).read_text(encoding="utf-8") == text
