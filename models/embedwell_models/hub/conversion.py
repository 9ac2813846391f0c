"""Files that a fetched model lacks (safetensors, tokenizer.json), and the start of a conversion.

This module imports neither torch nor transformers; embedwell_classic.convert does, in its process.
"""

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

from embedwell_models import families
from embedwell_models.checkpoint import safetensors_files
from embedwell_models.errors import ModelError
from embedwell_models.model_files import modules
from embedwell_models.tokenizer.loading import tokenizer_kind

INSTALL = "pip install 'transformers>=5.14' sentencepiece protobuf"
_WITHOUT_WEIGHTS = ("Pooling", "Normalize", "Dropout", "MultiVectorMask")


def extra_installed() -> bool:
    """Whether the packages that a conversion needs are installed, without an import of them."""
    return all(find_spec(name) for name in ("transformers", "sentencepiece"))


def missing_files(folder: Path) -> list[str]:
    """List the kinds of files (safetensors, tokenizer.json) that a model lacks.

    Raises ModelError for a module that is not supported.
    """
    encoder = folder / modules.read_entries(folder)[0].path
    missing = ["safetensors"] if parts_without_safetensors(folder) else []
    has_tokenizer = (
        (encoder / "tokenizer.json").is_file()
        or tokenizer_kind.find(encoder) is not None
        or tokenizer_kind.find_reader(encoder) is not None
    )
    return missing + ["tokenizer.json"] * (not has_tokenizer)


def parts_without_safetensors(folder: Path) -> list[str]:
    """List the module folders without safetensors, relative to the model's folder.

    Raises ModelError for a module that is not supported.
    """
    parts = [
        entry.path for entry in modules.read_entries(folder) if entry.kind not in _WITHOUT_WEIGHTS
    ]
    return [part for part in parts if not safetensors_files.weight_files(folder / part)]


def refuse_unsupported(folder: Path) -> None:
    """Raise ModelError for an unsupported model, after reading only its small files."""
    encoder = modules.read_entries(folder)[0]
    if encoder.kind not in modules.TABLES:  # a table needs no config.json
        families.read(folder / encoder.path)


def convert_in_subprocess(source: Path, target: Path) -> None:
    """Convert a model in another process, so that this process does not import torch.

    Raises ModelError as embedwell_classic.convert.model does.
    """
    command = [sys.executable, "-P", "-m", "embedwell_classic.convert", str(source), str(target)]
    process = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if process.returncode and not target.is_dir():  # else another process has converted it
        raise ModelError(
            f"{source} could not be converted: {process.stdout or 'see the messages above'}"
        )
