"""Tests of the library in processes that must not load torch."""

import subprocess
import sys
from pathlib import Path

import pytest

from embedwell_models.cpu_backend import library
from tests.conftest import Folder, precisions
from tests.models.image_models import encoded, picture
from tests.models.qwen3_vl import OF_KERNELS, PROCESSOR, save, write_qwen3_vl
from tests.service.server import MAX_ISA

pytestmark = pytest.mark.skipif(library.best_isa("float32") is None, reason="there are no kernels")

_PROGRAM = """
import sys
from pathlib import Path

from embedwell_models import Embedder

folder, dtype, isa = sys.argv[1:]
embedder = Embedder.load(folder, device="cpu", dtype=dtype, isa=isa)
assert embedder.embed(["one", "two words", "three " * 90]).shape == (3, embedder.dim)
assert embedder.hidden(embedder.tokenize(["one"]))[0].shape[1] == embedder.dim
assert (embedder.why_torch, "torch" in sys.modules) == (None, False)
mapped = Path("/proc/self/maps").read_text()
assert not [name for name in ("libtorch", "libc10", "libgomp", "libiomp") if name in mapped]
"""

_IMAGES = """
import sys

sys.modules["torch"] = None
from embedwell_models import Embedder

folder, image = sys.argv[1:]
embedder = Embedder.load(folder, device="cpu", dtype="float32", pooling="lasttoken")
contents = [["one", bytes.fromhex(image)], [bytes.fromhex(image)]]
assert embedder.embed_contents(contents).shape == (2, embedder.dim)
assert embedder.why_torch is None
"""


def run(folder: Path, dtype: str) -> None:
    """Load and use a model in a process of its own, which fails if it has loaded torch."""
    command = [sys.executable, "-c", _PROGRAM, str(folder), dtype, MAX_ISA]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("dtype", ["auto", *precisions()])
def test_the_default_model_loads_no_torch_and_no_openmp(minilm_folder: Path, dtype: str) -> None:
    run(minilm_folder, dtype)


def test_images_as_tokens_of_a_text_need_no_torch(tmp_path: Path) -> None:
    write_qwen3_vl(tmp_path, **OF_KERNELS)
    save(tmp_path, "preprocessor_config.json", PROCESSOR)
    image = encoded(picture(70, 90)).hex()
    command = [sys.executable, "-c", _IMAGES, str(tmp_path), image]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_model_without_modules_loads_no_torch(tiny_bert: Folder) -> None:
    run(tiny_bert(hidden_size=64, num_attention_heads=2, intermediate_size=128), "auto")
