"""Changes to the files of a checkpoint: what other releases and tools would have written."""

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.torch import load_file, save_file
from torch import Tensor

from embedwell_models import families
from embedwell_models.checkpoint import weights
from embedwell_models.errors import ModelError

Tensors = dict[str, Tensor]


def edit(folder: Path, *without: str, **values: Any) -> None:
    """Change keys of config.json; those in `without` are removed."""
    path = folder / "config.json"
    config = json.loads(path.read_text(encoding="utf-8"))
    kept = {key: value for key, value in config.items() if key not in without}
    path.write_text(json.dumps(kept | values), encoding="utf-8")


def change(folder: Path, how: Callable[[Tensors], Tensors]) -> None:
    """Change the tensors of a checkpoint."""
    path = folder / "model.safetensors"
    save_file(how(load_file(path)), path)


def rename(
    folder: Path,
    names: Mapping[str, str] | Callable[[str], str],
    added: Mapping[str, Tensor] | None = None,
) -> None:
    """Rename tensors, and add others.

    names: regular expressions, one after another, or a function.
    """

    def renamed(name: str) -> str:
        if callable(names):
            return names(name)
        for old, new in names.items():
            name = re.sub(old, new, name)
        return name

    change(
        folder,
        lambda tensors: {
            **{renamed(name): part for name, part in tensors.items()},
            **(added or {}),
        },
    )


def loaded(folder: Path) -> weights.Weights:
    """Load the weights under our names."""
    return weights.load(folder, families.read(folder))


def assert_same_weights(some: weights.Weights, others: weights.Weights) -> None:
    """Assert that two checkpoints hold the same weights."""
    assert some.keys() == others.keys()
    assert all(np.array_equal(some[name], others[name]) for name in some)


def assert_refused(folder: Path, **values: Any) -> None:
    """Assert that each option is refused by its name."""
    before = (folder / "config.json").read_text(encoding="utf-8")
    for key, value in values.items():
        edit(folder, **{key: value})
        with pytest.raises(ModelError, match=rf"{key}\S* = .* is not supported"):
            families.read(folder)
        (folder / "config.json").write_text(before, encoding="utf-8")
