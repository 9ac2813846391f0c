"""Shared fixtures: the default model, 200 texts, small random models, and servers."""

import gc
import json
import os
from collections.abc import Callable, Generator, Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import hypothesis
import pytest

from embedwell_models.cpu_backend import library
from embedwell_models.embedder import Embedder
from embedwell_models.encoder.device import torch_is_installed
from embedwell_models.hub import sources
from tests import programs, quick_programs, tiers, user_folders
from tests.programs import pytest_runtest_makereport
from tests.service.server import MAX_ISA, Server
from tests.tiers import (
    pytest_collection_modifyitems,
    pytest_ignore_collect,
    pytest_sessionfinish,
    pytest_terminal_summary,
    pytest_testnodedown,
)

__all__ = [  # hooks of pytest
    "pytest_collection_modifyitems",
    "pytest_ignore_collect",
    "pytest_runtest_makereport",
    "pytest_sessionfinish",
    "pytest_terminal_summary",
    "pytest_testnodedown",
]

os.environ["HF_HUB_OFFLINE"] = "1"  # read when the first test imports a model hub's client
# Torch's threads sleep between its operations: several processes of tests share the processors, and
# waiting in a loop takes them from each other. Read when torch is imported.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
os.environ["HF_HUB_DISABLE_PROGRESS_BARS"] = "1"  # of each model that a test writes
os.environ["NUMBA_DISABLE_JIT"] = "1"  # UMAP of few points takes longer to compile than to run
library.cap_isa(MAX_ISA)  # before torch computes
hypothesis.settings.register_profile("tests", deadline=None, derandomize=True)
hypothesis.settings.load_profile("tests")


def pytest_addoption(parser: pytest.Parser) -> None:
    for module in (tiers, programs):
        module.pytest_addoption(parser)


def pytest_configure(config: pytest.Config) -> None:
    """Hide the GPUs unless `-m gpu` is given, as the other tests expect a server on the CPU."""
    tiers.pytest_configure(config)
    config.pluginmanager.register(user_folders)
    config.pluginmanager.register(quick_programs)
    if config.option.markexpr != "gpu":
        os.environ["CUDA_VISIBLE_DEVICES"] = ""


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect tests without collecting garbage, of which imports leave little.

    It took a fifth of the time. Later collections pass over the modules and tests of the whole run.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_make_parametrize_id(val: object, argname: str) -> str | None:
    """Name a long value by its length: every process holds the name of each test many times."""
    if isinstance(val, str | bytes) and len(val) > 200:
        return f"{argname} of {len(val)}"
    return None


PROSE = (Path(__file__).parent.parent / "LICENSE").read_text(encoding="utf-8")
WORDS = PROSE.split()
UNUSUAL_TEXTS = [
    "",
    " ",
    "\n\t\r\n",
    "cat",
    "I",
    "?!",
    "…",
    " ".join(WORDS[:600]),
    PROSE[:3000],
    "😀",
    "Rain again 🌧️☔, then 👩‍👩‍👧 and a 🇨🇭 flag.",
    "今天天气很好，我们去公园散步吧。",
    "東京は日本の首都です",
    "Привет, как дела?",
    "שלום עולם and مرحبا بالعالم in one line",
    "Ελληνικά, ΟΔΟΣ και οδός",
    "İstanbul and STRASSE, Straße, ﬁligree",
    "naïve café, fiancée, jalapeño, Ångström",
    "cafe\u0301 with a combining accent",
    "def add(a: int, b: int) -> int:\n    return a + b  # the sum\n",
    '{"key": [1, 2.5e-3, null], "nested": {"a": true}}',
    "SELECT name, count(*) FROM users WHERE id <> 7 GROUP BY name;",
    "https://example.org/a/very/long/path?with=query&and=more#fragment",
    "write to someone@example.com or call +41 44 123 45 67",
    "3.14159 2,718,281 1e-12 0x7f -40 °C ½ ²",
    "supercalifragilisticexpialidocious" * 4,
    "x" * 300,
    "no " * 300,
    "first line\n\nsecond paragraph\n\n\nthird",
    "  leading, double  spaces and trailing   ",
    "[CLS] special [SEP] tokens [MASK] in [PAD] text [UNK]",
    "zero\u200bwidth, soft\u00adhyphen, nul\x00byte, \ufeffmark and \ufffd",
    *["The same sentence stands here three times."] * 3,
]

Folder = Callable[..., Path]
COMPILED = {"hidden_size": 64, "num_attention_heads": 2, "intermediate_size": 128}
"""Sizes of a BERT that the compiled kernels compute: its server starts without importing torch."""


def precisions() -> list[str]:
    """The number types that this processor supports; none without kernels and torch."""
    if library.best_isa("float32") is None:
        if not torch_is_installed():
            return []
        from embedwell_models.torch_backend.encoder_factory import torch_bfloat16_is_usable

        return ["float32", *["bfloat16"] * torch_bfloat16_is_usable(library.features())]
    return ["float32", *(name for name in ("bfloat16", "int8") if library.best_isa(name))]


@pytest.fixture(scope="session")
def texts() -> list[str]:
    """200 texts: unusual ones, then real prose of 1 to 40 words each."""
    starts = range(200 - len(UNUSUAL_TEXTS))
    return UNUSUAL_TEXTS + [" ".join(WORDS[7 * i : 7 * i + 1 + i % 40]) for i in starts]


@pytest.fixture(scope="session")
def minilm_folder() -> Path:
    """The folder of the default model, fetched on first use."""
    return sources.resolve(sources.DEFAULT)


@pytest.fixture(scope="session")
def embedder(minilm_folder: Path) -> Embedder:
    """The default model in float32."""
    return Embedder.load(minilm_folder, device="cpu", dtype="float32")


@pytest.fixture(scope="session", params=precisions())
def any_embedder(request: pytest.FixtureRequest, minilm_folder: Path) -> Embedder:
    """The default model in each precision of this processor."""
    return Embedder.load(minilm_folder, device="cpu", dtype=request.param)


@pytest.fixture(scope="session")
def tiny_bert(tmp_path_factory: pytest.TempPathFactory) -> Folder:
    """Function that writes a small BERT of random weights, with further JSON files.

    Next to a card or options of the encoder there is also modules.json, with the pooling mean.
    Skips the test where transformers is not installed.
    """
    if find_spec("transformers") is None:
        pytest.skip("needs transformers")

    def write(files: Mapping[str, object] | None = None, **config: Any) -> Path:
        from tests.models.tiny import write_bert

        folder = tmp_path_factory.mktemp("bert")
        write_bert(folder, **config)
        for name, content in _with_modules(files or {}).items():
            path = folder / name
            path.parent.mkdir(exist_ok=True)
            path.write_text(json.dumps(content), encoding="utf-8")
        return folder

    return write


@pytest.fixture(scope="session")
def clip_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a small CLIP of random weights."""
    from tests.models.image_models import write_clip

    folder = tmp_path_factory.mktemp("clip")
    write_clip(folder)
    return folder


def _with_modules(files: Mapping[str, object]) -> Mapping[str, object]:
    # Without modules.json, these files would have no effect.
    needing = {"config_sentence_transformers.json", "sentence_bert_config.json"} & {*files}
    if not needing or "modules.json" in files:
        return files
    kinds = {"": "Transformer", "1_Pooling": "Pooling"}
    listed = [
        {"type": f"sentence_transformers.models.{kind}", "path": path}
        for path, kind in kinds.items()
    ]
    return {**files, "modules.json": listed, "1_Pooling/config.json": {"pooling_mode": "mean"}}


@pytest.fixture(scope="session")
def server(minilm_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server process, shared by the tests that do not change its state."""
    with Server(tmp_path_factory.mktemp("server") / "log") as server:
        yield server


@pytest.fixture(scope="session")
def server_any_dimensions(
    minilm_folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    """A server that truncates vectors to any length, and takes ids without special tokens."""
    log = tmp_path_factory.mktemp("dimensions") / "log"
    with Server(log, dimensions="any", raw_token_ids=True) as server:
        yield server
