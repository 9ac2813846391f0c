"""Reading of a model that gensim saved, restricted to numbers and strings: no code is run."""

import collections
import pickle
import re
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from numpy._core import multiarray

from embedwell_models.config import other_files
from embedwell_models.errors import ModelError

_REAL: dict[tuple[str, str], Any] = {
    ("builtins", "int"): int,
    ("collections", "defaultdict"): collections.defaultdict,
    ("numpy", "dtype"): np.dtype,
    ("numpy", "ndarray"): np.ndarray,
    **{
        (module, name): getattr(multiarray, name)
        for module in ("numpy.core.multiarray", "numpy._core.multiarray")
        for name in ("_reconstruct", "scalar")
    },
}
DOC2VEC = "Doc2Vec"
_HEAD = 200  # bytes of a pickle that contain the name of its class
_CLASS = re.compile(rb"gensim\.models\.\w+(?:\x94\x8c.|\n)(\w+)", re.DOTALL)
_EXPORTS = {
    "Word2Vec": (
        "from gensim.models import Word2Vec; "
        "Word2Vec.load({!r}).wv.save_word2vec_format('words.bin', binary=True)"
    ),
    "FastText": (
        "from gensim.models import FastText, fasttext; "
        "fasttext.save_facebook_model(FastText.load({!r}), 'words.bin')"
    ),
}
_EXPORT_OF_VECTORS = (
    "from gensim.models import KeyedVectors; "
    "KeyedVectors.load({!r}).save_word2vec_format('words.bin', binary=True)"
)
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


def saved_class(path: Path) -> str:
    """Return the name of the class of gensim that saved a file; "" for another file."""
    match = _CLASS.search(other_files.start(path, _HEAD))
    return match[1].decode() if match else ""


def refuse_word_vectors(path: Path) -> None:
    """Raise ModelError, with how to export it, for an object of gensim other than a Doc2Vec."""
    name = saved_class(path)
    if name not in ("", DOC2VEC):
        program = _EXPORTS.get(name, _EXPORT_OF_VECTORS).format(str(path))
        raise ModelError(
            f"{path} is a {name} as gensim's own save() writes it. Export its vectors, and convert "
            f'that file: python -c "{program}"'
        )


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
        file = Path(f"{path}.{prefix}{name}.npy")
        other_files.refuse_pointer(file)
        value = np.load(file, allow_pickle=False)
    return np.asarray(value)
