"""A server of every kind of model where torch is not installed, and what libraries compute."""

import os
from collections.abc import Callable, Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from embedwell_models.cpu_backend import library
from tests.service.server import MAX_ISA, SeveralModels
from tests.without_torch.inputs import FAMILIES, FOLDER

Arrays = Mapping[str, Any]
Expected = Callable[[str], Arrays]

_FEATURES = library.features(MAX_ISA)
PRECISIONS = {
    f"dense-{dtype}": dtype for dtype in ("bfloat16", "int8") if library.best_isa(dtype, _FEATURES)
}
"""Names under which the dense model is served in further precisions of this processor."""

_OPTIONS: dict[str, dict[str, object]] = {
    **{name: {} for name in ("dense", "static", "words", "splade", "bge-m3", "colbert", "clip")},
    **{name: {} for name in ("reranker", "generative", "classifier")},
    **{name: {"pooling": "mean"} for name in FAMILIES},
}


@pytest.fixture(scope="session")
def folder() -> Path:
    """The folder that write_models.py has filled."""
    if library.best_isa("float32", _FEATURES) is None:
        pytest.skip("there are no kernels")
    assert find_spec("torch") is None, "these tests are for an environment without torch"
    return Path(os.environ[FOLDER]).absolute()


@pytest.fixture(scope="session")
def expected(folder: Path) -> Expected:
    """Function from the name of a model to what its own library computes."""

    def read(name: str) -> Arrays:
        with np.load(folder / f"{name}.npz") as arrays:
            return {**arrays}

    return read


@pytest.fixture(scope="session")
def server(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SeveralModels]:
    """A server of all models in float32, and of the dense one in other precisions too."""
    models: dict[str, dict[str, object]] = {
        name: {"source": str(folder / name), **options} for name, options in _OPTIONS.items()
    }
    for name, dtype in PRECISIONS.items():
        models[name] = {"source": str(folder / "dense"), "dtype": dtype}
    batches = tmp_path_factory.mktemp("batches")
    place = tmp_path_factory.mktemp("server")
    with SeveralModels(place, models, threads=1, batch_folder=batches) as server:
        yield server
