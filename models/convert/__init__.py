"""Older model folders rewritten as the server reads them: safetensors and a tokenizer.json.

Here is what can be told without torch and transformers; the work is done in models.convert.folder.
"""

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

from models import families
from models.checkpoint import safetensors_files
from models.errors import ModelError
from models.sentence_transformers import modules

INSTALL = (
    "the extra 'convert' (in the project's checkout: "
    ".venv/bin/pip install -c constraints.txt -e '.[convert]')"
)
_WEIGHTLESS = ("Pooling", "Normalize", "Dropout")


def installed() -> bool:
    """Whether the extra is there, without importing it."""
    return all(find_spec(name) for name in ("transformers", "sentencepiece"))


def lacking(folder: Path) -> list[str]:
    """Which of what the server reads a model lacks: safetensors, tokenizer.json.

    Raises ModelError for a module that is not implemented.
    """
    encoder = folder / modules.entries(folder)[0].path
    missing = ["safetensors"] if unconverted(folder) else []
    return missing + ["tokenizer.json"] * (not (encoder / "tokenizer.json").is_file())


def unconverted(folder: Path) -> list[str]:
    """The parts of a model, as paths inside its folder, that have no safetensors.

    Raises ModelError for a module that is not implemented.
    """
    parts = [each.path for each in modules.entries(folder) if each.kind not in _WEIGHTLESS]
    return [part for part in parts if not safetensors_files.safetensors(folder / part)]


def refuse_unknown(folder: Path) -> None:
    """Raises ModelError for a model that would not be served, by its small files alone."""
    encoder = modules.entries(folder)[0]
    if encoder.kind != modules.STATIC:  # whose table alone says what it is
        families.read(folder / encoder.path)


def in_process(source: Path, target: Path) -> None:
    """Convert a model in a process of its own: this one need not import torch for it.

    Raises ModelError as models.convert.folder does.
    """
    command = [sys.executable, "-P", "-m", "models.convert", str(source), str(target)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode and not target.is_dir():  # else another process has just converted it
        raise ModelError(
            f"{source} could not be converted: {done.stdout or 'see the messages above'}"
        )
