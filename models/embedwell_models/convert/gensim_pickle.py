"""Reads a model that gensim saved: its numbers and strings, and no code."""

import collections
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from numpy._core import multiarray

from embedwell_models.errors import ModelError

_REAL: dict[tuple[str, str], Any] = {
    ("builtins", "int"): int,
    ("collections", "defaultdict"): collections.defaultdict,
    ("numpy", "dtype"): np.dtype,
    ("numpy", "ndarray"): np.ndarray,
    **{
        (module, "_reconstruct"): multiarray._reconstruct
        for module in ("numpy.core.multiarray", "numpy._core.multiarray")
    },
    **{
        (module, "scalar"): multiarray.scalar
        for module in ("numpy.core.multiarray", "numpy._core.multiarray")
    },
}
_REPLACED = ("gensim.", "numpy.random.")
_FUNCTIONS = {("builtins", "hash")}


class Attributes:
    """The attributes of a pickled object of gensim or numpy, without its class or code."""

    def __init__(self, *args: Any) -> None:
        """args: are dropped."""

    def __setstate__(self, state: Any) -> None:
        if isinstance(state, dict):
            self.__dict__.update(state)


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        """Return what a name stands for; raises UnpicklingError for all that is not known."""
        if (module, name) in _REAL:
            return _REAL[module, name]
        if module.startswith(_REPLACED) or (module, name) in _FUNCTIONS:
            return Attributes
        raise pickle.UnpicklingError(f"it names {module}.{name}")


def read_model(path: Path) -> Attributes:
    """Read the attributes of a model; raises ModelError for a file that holds anything else."""
    try:
        with path.open("rb") as file:
            model = _Unpickler(file).load()
    except OSError:
        raise
    except Exception as error:  # a damaged pickle raises anything
        message = f"{path} is no model of gensim, and its code is not run: {error}"
        raise ModelError(message) from None
    if not isinstance(model, Attributes):
        raise ModelError(f"{path} is no model of gensim, but a {type(model).__name__}")
    return model


def array(path: Path, owner: Attributes, name: str, prefix: str = "") -> npt.NDArray[Any]:
    """Return an array of an object: a large one has a file of its own beside the model's.

    prefix: the attribute of the model that holds the object, and a point.
    """
    value = getattr(owner, name, None)
    if value is None:
        value = np.load(f"{path}.{prefix}{name}.npy", allow_pickle=False)
    return np.asarray(value)
