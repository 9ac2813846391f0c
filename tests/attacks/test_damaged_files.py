"""Model folders that were damaged at random are refused by name, or serve finite vectors.

DAMAGED_FILES is the number of damaged copies of each folder, and DAMAGED_FILES_SEED the seed.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from safetensors.numpy import load_file

from tests.conftest import Folder
from tests.models import gguf_files, onnx_files

pytestmark = pytest.mark.attack

CASES = int(os.environ.get("DAMAGED_FILES", "60"))
SEED = os.environ.get("DAMAGED_FILES_SEED", "1")
MODULES = {
    "modules.json": [
        {"type": "sentence_transformers.models.Transformer", "path": ""},
        {"type": "sentence_transformers.models.Pooling", "path": "1_Pooling"},
        {"type": "sentence_transformers.models.Normalize", "path": "2_Normalize"},
    ],
    "1_Pooling/config.json": {"pooling_mode": "mean"},
    "config_sentence_transformers.json": {"prompts": {"query": "a "}},
}


def write(kind: str, folder: Path, tiny_bert: Folder) -> Path:
    """Write a small BERT of a kind of files; return its folder."""
    base = tiny_bert(MODULES, hidden_size=64, num_hidden_layers=1)
    if kind == "gguf":
        folder.mkdir()
        gguf_files.write_bert(base, folder / "model.gguf", quantized=True)
        return folder
    shutil.copytree(base, folder)
    if kind == "onnx":
        onnx_files.write_traced(folder / "onnx/model.onnx", load_file(base / "model.safetensors"))
        (folder / "model.safetensors").unlink()
    return folder


@pytest.mark.parametrize("kind", ["bert", "onnx", "gguf"])
def test_a_damaged_folder_is_refused_or_serves_finite_vectors(
    kind: str, tiny_bert: Folder, tmp_path: Path
) -> None:
    folder = write(kind, tmp_path / kind, tiny_bert)
    module = "tests.attacks.damaged_files"
    command = [sys.executable, "-m", module, str(folder), SEED, "0", str(CASES)]
    process = subprocess.run(command, capture_output=True, text=True, check=False)
    records = [json.loads(line) for line in process.stdout.splitlines()]
    wrong = [record for record in records if record.get("outcome")]
    assert not wrong, "\n".join(map(str, wrong))
    assert process.returncode == 0, f"seed {SEED}: {records[-1:]} {process.stderr[-2000:]}"
    assert len(records) == 2 * CASES
