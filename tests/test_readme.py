"""The examples of the README and docs run, links lead to files, and plots are up to date."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from decimal import Decimal
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Self

import click
import httpx
import pytest

from benchmarks.plot import IMAGES, PAGE, plots
from embedwell.cli.commands import main
from tests.docs.page_commands import (
    COMMANDS,
    OTHER_BLOCKS,
    PAGES,
    ROOT,
    TESTED_PAGES,
    Block,
    NotRun,
    Runs,
    Serves,
    blocks,
    entry_of,
)
from tests.gateways import free_port
from tests.programs import program
from tests.service.server import Server, wait_ready

README = (ROOT / "README.md").read_text(encoding="utf-8")
API = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
OTHER_MODELS = "".join(
    (ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8")
    for page in ("rerank", "sparse", "multi-vector", "several-models", "words", "decisions")
)
BIN = Path(sys.executable).parent  # where embedwell is
BLOCKS = blocks()


def examples(*pages: str) -> list[tuple[str, str]]:
    """The commands of the console and their output, of some pages or of all."""
    found = []
    for block in BLOCKS:
        if block.language == "console" and (not pages or block.page in pages):
            for example in block.text.removeprefix("$ ").rstrip("\n").split("\n$ "):
                # a command may have several lines
                command, output = re.split(r"(?<!\\)\n", example, maxsplit=1)
                found.append((command, output))
    return found


EXAMPLES = examples()
FIRST_EXAMPLES = examples("README.md", "docs/index.md", "docs/choose-a-model.md")


def matches(actual: Any, expected: Any) -> bool:
    """Compare with tolerance for numbers; '…' in the expected value matches anything.

    The last of two or three decimals may differ by one, as the README says of its numbers.
    """
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
    if not isinstance(expected, Decimal):
        return bool(actual == (pytest.approx(expected, abs=1e-5) if expected else expected))
    decimals = -int(expected.as_tuple().exponent)
    tolerance = 10.0**-decimals if decimals in (2, 3) else 1e-5
    return bool(actual == (pytest.approx(float(expected), abs=tolerance) if expected else 0))


def parse_output(text: str, **options: Any) -> Any:
    try:
        return json.loads(text, **options)
    except ValueError:
        return text.strip()


def run_shell(command: str, folder: Path) -> str:
    """Run a command where `embedwell` and the programs of the tests are found; its output."""
    path = f"{BIN}:{os.environ['PATH']}:/usr/sbin"
    process = subprocess.run(
        ["bash", "-o", "pipefail", "-c", command],
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
        env={**os.environ, "PATH": path, "CURL_HOME": str(folder)},
    )
    assert process.returncode == 0, process.stdout + process.stderr
    return process.stdout


def assert_prints(command: str, expected_output: str, server: Server) -> None:
    output = run_shell(command.replace("localhost:8080", server.url.removeprefix("http://")), ROOT)
    expected = parse_output(expected_output, parse_float=Decimal)
    found = parse_output(output)
    assert matches(found, expected), f"it prints\n{as_on_a_page(found)}"


def as_on_a_page(found: Any) -> str:
    """Write what a command prints, with the first numbers of a vector alone."""
    return json.dumps(shortened(found), ensure_ascii=False, separators=(",", ":"))


def shortened(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: shortened(each) for name, each in value.items()}
    if isinstance(value, list):
        return [*map(shortened, value[:3]), *["…"] * (len(value) > 3)]
    return value


@pytest.mark.full(after=12)
@pytest.mark.parametrize(
    ("command", "expected_output"), EXAMPLES, ids=[e[0][:60] for e in EXAMPLES]
)
def test_a_console_example_prints_the_documented_output(
    server: Server, command: str, expected_output: str
) -> None:
    assert_prints(command, expected_output, server)


@pytest.mark.full
@pytest.mark.parametrize(
    ("command", "expected_output"), FIRST_EXAMPLES, ids=[e[0][:60] for e in FIRST_EXAMPLES]
)
def test_the_first_examples_print_the_same_by_a_default_start(
    default_server: Server, command: str, expected_output: str
) -> None:
    assert_prints(command, expected_output, default_server)


class ShellServer(Server):
    """A server that a command of a page starts, on a free port and from the start's defaults."""

    def __init__(self, folder: Path, shell: str, **settings: object) -> None:
        self.port = free_port()
        all_settings: dict[str, Any] = {"dtype": "auto", **settings}
        super().__init__(folder / "log", **all_settings)
        self._environment["EMBEDWELL_PORT"] = str(self.port)
        self._environment["PATH"] = f"{BIN}:{os.environ['PATH']}"
        shell = shell.replace("--port 8080", f"--port {self.port}").replace(".venv/bin", str(BIN))
        self._shell = re.sub(r"^((\w+=('.*'|\S+) )*)", r"\1exec ", shell)

    @property
    def command(self) -> list[str]:
        return ["bash", "-c", self._shell]

    def __enter__(self) -> Self:
        self.launch()
        self.url = f"http://127.0.0.1:{self.port}"
        self.client = httpx.Client(base_url=self.url, timeout=120)
        headers = {"authorization": "Bearer secret"}
        with httpx.Client(base_url=self.url, headers=headers, timeout=120) as client:
            wait_ready(client, self.process, self._log)
        return self


@pytest.fixture(scope="module")
def default_server(
    minilm_folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    """A server of `make serve`, or of `embedwell serve` where make would first install."""
    is_installed = ["make", "--question", "--directory", str(ROOT), ".venv/runtime"]
    command = f"make --directory {ROOT} serve"
    if Path(sys.prefix) != ROOT / ".venv" or subprocess.run(is_installed, check=False).returncode:
        command = "embedwell serve"
    with ShellServer(tmp_path_factory.mktemp("default"), command) as server:
        yield server


SCRIPTS = [
    block
    for block in BLOCKS
    if block.language == "sh"
    and not block.is_tested_elsewhere
    and any(isinstance(entry_of(each), Runs | Serves) for each in block.commands)
]


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A folder with the files of the checkout, for commands that write into it."""
    for path in {*ROOT.iterdir()} - {ROOT / ".venv"}:
        (tmp_path / path.name).symlink_to(path)
    (tmp_path / ".venv").symlink_to(sys.prefix)
    (tmp_path / ".curlrc").write_text("fail\n")
    return tmp_path


@pytest.mark.full
@pytest.mark.parametrize("block", SCRIPTS, ids=lambda b: f"{b.page}: {b.commands[0][:40]}")
def test_the_commands_of_a_block_run(
    block: Block, server: Server, default_server: Server, checkout: Path, tmp_path: Path
) -> None:
    with ExitStack() as stack:
        for command in block.commands:
            entry = entry_of(command)
            if isinstance(entry, Serves) and command in ("make serve", "embedwell serve"):
                server = default_server
            elif isinstance(entry, Serves):
                if command.startswith("granian ") and find_spec("granian") is None:
                    pytest.skip("needs granian")
                server = stack.enter_context(ShellServer(tmp_path, command, dtype="float32"))
            elif isinstance(entry, Runs):
                if entry.program:
                    program(*entry.program)
                local = command.replace("localhost:8080", server.url.removeprefix("http://"))
                options = entry.options.format(url=server.url, root=ROOT)
                run_shell(f"{local.replace(*entry.replaced)} {options}", checkout)


@pytest.mark.parametrize("block", BLOCKS, ids=lambda b: f"{b.page}: {b.text[:40]}")
def test_a_block_runs_or_has_a_reason_why_not(block: Block) -> None:
    if block.is_tested_elsewhere or block.language in ("console", "shell-session"):
        return
    if block.language == "python":
        assert block.page == "README.md" or "assert " in block.text
    else:
        assert block.language == "sh"
        unknown = [each for each in block.commands if entry_of(each) is None]
        assert not unknown, "run them, or say why not, in tests/docs/page_commands.py"


def test_every_reason_is_in_use_and_names_tests_that_there_are() -> None:
    scripts = [b for b in BLOCKS if b.language == "sh" and not b.is_tested_elsewhere]
    commands = [command for block in scripts for command in block.commands]
    used = {next((key for key in COMMANDS if re.match(key, each)), None) for each in commands}
    assert used - {None} == {*COMMANDS}
    assert {*OTHER_BLOCKS} <= {(block.page, block.language) for block in BLOCKS}
    entries = [*COMMANDS.values(), *OTHER_BLOCKS.values()]
    tested = {entry.tested for entry in entries if isinstance(entry, NotRun) and entry.tested}
    assert all((ROOT / path).is_file() for path in tested)
    for page, path in TESTED_PAGES.items():
        assert Path(page).name in (ROOT / path).read_text(encoding="utf-8"), (page, path)


def spans() -> Iterator[tuple[str, str]]:
    """Each command of the pages with its page: of scripts and of code within a sentence."""
    for block in BLOCKS:
        if block.language in ("sh", "console"):
            yield from ((block.page, command) for command in block.commands)
    for page in PAGES:
        for code in re.findall(r"(?<!`)`([^`\n]+)`(?!`)", page.read_text(encoding="utf-8")):
            yield page.relative_to(ROOT).as_posix(), code


def test_every_target_of_make_exists() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = {*re.findall(r"^(\S+):", makefile, re.MULTILINE)}
    made = {(page, match[1]) for page, code in spans() if (match := re.match(r"make (\S+)", code))}
    assert {(page, target) for page, target in made if target not in targets} == set()


EMBEDWELL = re.compile(
    r"(?:(?:\w+=\S+ )*(?:\.venv/bin/)?|docker run .* (?:embedwell )?)embedwell ([^|<>;]+)"
)


def test_every_option_of_embedwell_exists() -> None:
    commands = {(page, match[1]) for page, code in spans() if (match := EMBEDWELL.match(code))}
    assert len(commands) > 100
    for page, command in commands:
        try:
            parse(main, command.replace("…", "").replace("'", "").split())
        except click.UsageError as error:
            pytest.fail(f"{page}: {command}: {error.format_message()}")


def parse(command: click.Command, words: list[str]) -> None:
    """Parse the words after a command without a look at their values; raises UsageError."""
    context = click.Context(command)
    while isinstance(command, click.Group) and words and not words[0].startswith("-"):
        name, *words = words
        found = command.get_command(context, name)
        if found is None:
            raise click.UsageError(f"no command {name!r}")
        command = found
    command.make_context(command.name, words, resilient_parsing=True)


def test_every_extra_that_is_installed_exists() -> None:
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    for page, code in spans():
        for extras in re.findall(r"pip install [^`]*(?:\.|checkout)\[([\w,]+)\]", code):
            for extra in extras.split(","):
                assert re.search(rf"^{extra} = \[", project, re.MULTILINE), (page, code)


def test_every_endpoint_has_an_example(server: Server) -> None:
    paths = set(server.client.get("/openapi.json").json()["paths"]) - {"/v1/models/{name}"}
    paths -= {"/models/{name}/load", "/models/{name}/unload"}  # in docs/several-models.md
    of_batches = "/v1/files", "/v1/batches"  # in docs/batches.md
    paths = {path for path in paths if not path.startswith(of_batches)}
    paths -= {"/v1/decisions"}  # in docs/decisions.md, by OpenAI's client
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
        *ROOT.glob("docs/**/*.md"),
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


def test_the_plots_are_up_to_date_with_the_table_of_the_page() -> None:
    for name, text in plots(PAGE.read_text(encoding="utf-8")).items():
        assert (IMAGES / name).read_text(encoding="utf-8") == text
