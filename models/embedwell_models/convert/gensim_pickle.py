"""Reading of a model that gensim saved, restricted to numbers and strings: no code is run."""

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
    """Attributes of a pickled object of gensim or numpy, without its class and code."""

    def __init__(self, *args: Any) -> None:
        """args: ignored arguments of the pickled class."""

    def __setstate__(self, state: Any) -> None:
        if isinstance(state, dict):
            self.__dict__.update(state)


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        """Return the object for a name; raises UnpicklingError for names that are not allowed."""
        if (module, name) in _REAL:
            return _REAL[module, name]
        if module.startswith(_REPLACED) or (module, name) in _FUNCTIONS:
            return Attributes
        raise pickle.UnpicklingError(f"it contains {module}.{name}, which is not allowed")


def read_model(path: Path) -> Attributes:
    """Read the attributes of a model; raises ModelError for a file that contains anything else."""
    try:
        with path.open("rb") as file:
            model = _Unpickler(file).load()
    except OSError:
        raise
    except Exception as error:  # a damaged pickle can raise any exception
        message = f"{path} is not a model of gensim; its code is not run: {error}"
        raise ModelError(message) from None
    if not isinstance(model, Attributes):
        raise ModelError(f"{path} is not a model of gensim but a {type(model).__name__}")
    return model


def array(path: Path, owner: Attributes, name: str, prefix: str = "") -> npt.NDArray[Any]:
    """Return an array of an object; a large array has a file of its own beside the model's.

    prefix: the name of the model's attribute that holds the object, with a dot at its end.
    """
    value = getattr(owner, name, None)
    if value is None:
        value = np.load(f"{path}.{prefix}{name}.npy", allow_pickle=False)
    return np.asarray(value)
