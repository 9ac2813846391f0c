"""How the commands in the blocks of the pages are tested, or why they are not run.

`tests/test_readme.py` reads these tables. A block of a page that no table knows fails there.
"""

import re
import textwrap
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]


class Runs(NamedTuple):
    """A command that runs as written, against a server of the tests."""

    options: str = ""
    """What is added, such as a shorter time. {url}: the server; {root}: the checkout."""
    replaced: tuple[str, str] = ("", "")
    """A part of the command and its replacement, for what only another machine has."""
    program: tuple[str, str] | None = None
    """A program that the tests need for it, and its package."""


class Serves(NamedTuple):
    """A command that starts a server, which the other commands of its block ask."""


class NotRun(NamedTuple):
    """A command that no test runs as it is written."""

    reason: str
    tested: str = ""
    """The file with the tests of what it does, as far as that is possible without running it."""


COMMANDS: dict[str, Runs | Serves | NotRun] = {
    # by the beginning of a command; the first that matches
    r"make serve$": Serves(),
    r"make help$": Runs("--directory {root}"),
    r"make (\.venv/dev|test|check|format)$": NotRun("runs these tests", "tests/test_makefile.py"),
    r"embedwell models ": Runs(),
    r"(EMBEDWELL_PROMPTS=published )?embedwell serve BAAI/": NotRun(
        "fetches a model of the hub", "tests/service/cli/test_known_models.py"
    ),
    r"make (install|torch)$": NotRun("installs packages", "tests/test_makefile.py"),
    r"(uv tool|pipx) install ": NotRun("the reader's own index", "tests/test_install.py"),
    r"brew ": NotRun("needs Homebrew", "tests/deploy/test_homebrew.py"),
    r"vllm serve ": NotRun("another server"),
    r"make bench-": NotRun("measures for minutes", "tests/benchmarks/test_benchmark.py"),
    r"(\.|source) \.venv/bin/activate$": Runs("&& embedwell --version"),
    r"embedwell serve --devices cuda": NotRun("needs GPUs", "tests/service/test_devices.py"),
    r"EMBEDWELL_MODEL=\S+ .*embedwell serve$": NotRun(
        "fetches a model of the hub", "tests/service/cli/test_known_models.py"
    ),
    r"(\w+=('.*'|\S+) )*(\.venv/bin/)?embedwell serve$": Serves(),
    r"embedwell (convert|serve) laser": NotRun(
        "the reader's own model", "tests/models/classic/convert/test_laser.py"
    ),
    r"KERNELS=compiled python3 -m pip wheel ": NotRun("builds wheels", "tests/test_install.py"),
    r"embedwell pull BAAI/|HF_HUB_OFFLINE=1 embedwell serve \./": NotRun(
        "fetches a model of the hub", "tests/service/cli/test_commands.py"
    ),
    r"(uvicorn|granian) ": Serves(),
    r"curl ": Runs(),
    r"sudo (make install|cp|install|systemctl) |journalctl ": NotRun(
        "needs root and systemd", "tests/deploy/test_systemd.py"
    ),
    r"docker compose ": NotRun("needs Docker", "tests/deploy/test_compose.py"),
    r"docker |deploy/image\.sh ": NotRun(
        "needs Docker, or podman", "tests/deploy/test_built_image.py"
    ),
    r"export EMBEDWELL_API_KEY=…$": NotRun("the reader's own key"),
    r"helm install ": Runs(
        replaced=("helm install", "helm template"), program=("helm", ".ci/helm.py fetches it")
    ),
    r"kubectl ": NotRun("needs a cluster", "tests/deploy/test_kubernetes.py"),
    r"mkdir -p /tmp/gateway$|nginx -p ": NotRun(
        "needs the files with the reader's servers", "tests/deploy/test_gateway.py"
    ),
    r"\.venv/bin/python -m deploy\.loadtest --find-capacity": NotRun(
        "takes minutes with this model", "tests/deploy/test_loadtest.py"
    ),
    r"\.venv/bin/python -m deploy\.loadtest --write-bodies": Runs(replaced=("/tmp", ".")),
    r"\.venv/bin/python -m deploy\.loadtest ": Runs(
        "--url {url} --duration 3 --warmup 0 --mix query=1"
    ),
    r"PYTHONPATH=\. locust |k6 run ": NotRun(
        "needs Locust or k6, whose bodies are tested", "tests/deploy/test_loadtest.py"
    ),
    r"python3 -m pip list ": Runs(),
    r"(KIT_\w+=\S+ )?bash (deploy/gpu|\.gpu)/|rsync .* gpu-host:|cd embedwell$": NotRun(
        "for a machine with a GPU", "tests/deploy/test_gpu_kit.py"
    ),
    r"(KERNELS=compiled )?(\.venv/bin/)?pip install ": NotRun(
        "installs packages", "tests/test_install.py"
    ),
}

TESTED_PAGES = {  # pages with tests of their own, which read them
    "docs/developers/architecture.md": "tests/test_docs.py",
    "docs/developers/extend.md": "tests/service/test_doors.py",
    "docs/batches.md": "tests/clients/test_batches.py",
    "docs/bulk.md": "tests/service/bulk/test_page.py",
    "docs/clients.md": "tests/clients/test_examples.py",
    "docs/evaluate.md": "tests/service/lab/test_evaluate.py",
    "docs/hybrid-search.md": "tests/examples/test_hybrid_search.py",
    "docs/image-inputs.md": "tests/service/test_images.py",
    "docs/local-server.md": "tests/service/client/test_local_server.py",
    "docs/model-files.md": "tests/models/tokenizer/loading/test_tokenizer_config.py",
    "docs/multi-vector.md": "tests/service/vendors/test_multi_vector.py",
    "docs/plots.md": "tests/service/lab/test_plot.py",
    "docs/python.md": "tests/clients/test_examples.py",
    "docs/ray.md": "tests/service/bulk/ray/test_page.py",
    "docs/retrieval.md": "tests/docs/test_retrieval_page.py",
    "docs/decisions.md": "tests/service/decide/test_decisions.py",
    "docs/rerank.md": "tests/service/routes/test_rerank.py",
    "docs/several-models.md": "tests/service/test_several_models_page.py",
    "docs/sparse.md": "tests/service/routes/test_embed_sparse.py",
    "docs/training.md": "tests/service/test_training_page.py",
    "docs/vector-stores.md": "tests/service/bulk/test_vector_stores_page.py",
    "docs/words.md": "tests/service/test_words_page.py",
}

OTHER_BLOCKS = {  # by the page and the language; sh, console and Python with assertions run
    ("CONTRIBUTING.md", "python"): NotRun("a module to write", "tests/test_docs.py"),
    ("CONTRIBUTING.md", "toml"): NotRun(
        "another package's", "tests/models/families/test_installed.py"
    ),
    ("deploy/README.md", "dockerfile"): NotRun(
        "SageMaker's container", "tests/service/vendors/test_sagemaker.py"
    ),
    ("docs/migrate-tei.md", "yaml"): NotRun("needs an image", "tests/deploy/test_built_image.py"),
    ("docs/models.md", "text"): NotRun(
        "numbers of one machine", "tests/service/cli/test_machine_speed.py"
    ),
    ("docs/observability.md", "json"): NotRun(
        "a line of the log", "tests/service/launch/test_logging.py"
    ),
}


class Block(NamedTuple):
    """A fenced block of a page, and its commands if it is a script of the shell."""

    page: str
    language: str
    text: str

    @property
    def commands(self) -> list[str]:
        """The commands without comments, each on one line."""
        lines = self.text.replace("\\\n", " ").splitlines()
        commands = (re.sub(r"\s+#\s.*$", "", line) for line in lines)
        return [re.sub(r"\s+", " ", command).strip() for command in commands if command.strip()]

    @property
    def is_tested_elsewhere(self) -> bool:
        return self.page in TESTED_PAGES or (self.page, self.language) in OTHER_BLOCKS


PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md")),
    *sorted(ROOT.glob("docs/**/*.md")),
    *sorted(ROOT.glob("deploy/**/*.md")),
]
FENCED = re.compile(r"^( *)```(\S+)\n(.*?)^ *```", re.DOTALL | re.MULTILINE)


def blocks() -> list[Block]:
    """Every fenced block of the pages."""
    return [
        Block(page.relative_to(ROOT).as_posix(), language, textwrap.dedent(text))
        for page in PAGES
        for _, language, text in FENCED.findall(page.read_text(encoding="utf-8"))
    ]


def entry_of(command: str) -> Runs | Serves | NotRun | None:
    """The first entry of COMMANDS for a command; None if there is none."""
    return next((COMMANDS[each] for each in COMMANDS if re.match(each, command)), None)
