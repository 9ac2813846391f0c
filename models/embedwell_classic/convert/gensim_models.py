"""Models that gensim saved: their pickles, and conversion of a Doc2Vec.

A pickle is read as numbers and strings: no code is run. NAME.model has .npy files next to it.
"""

import collections
import pickle
import re
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from numpy._core import multiarray

from embedwell_classic.convert.module_files import check_finite, encoder_folder, write_json
from embedwell_classic.families import doc2vec
from embedwell_classic.tokenizers.vocabulary import Vocabulary, WordOptions
from embedwell_models.checkpoint import safetensors_files
from embedwell_models.config import other_files
from embedwell_models.errors import ModelError
from embedwell_models.tokenizer.loading.tokenizer_kind import MAPPED

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
_DOC2VEC = "Doc2Vec"
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
SUFFIXES = (".model", ".doc2vec")
_MAX_WORDS = 10_000  # gensim reads no more words of a text


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


def refuse_word_vectors(path: Path) -> None:
    """Raise ModelError, with how to export it, for an object of gensim other than a Doc2Vec."""
    match = _CLASS.search(other_files.start(path, _HEAD))
    if match and (name := match[1].decode()) != _DOC2VEC:
        program = _EXPORTS.get(name, _EXPORT_OF_VECTORS).format(str(path))
        raise ModelError(
            f"{path} is a {name} as gensim's own save() writes it. Export its vectors, and convert "
            f'that file: python -c "{program}"'
        )


def _read_model(path: Path) -> Attributes:
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
        raise ModelError(f"{path} is not a model of gensim but {type(model).__name__}")
    return model


def read_array(path: Path, owner: Attributes, name: str, prefix: str = "") -> npt.NDArray[Any]:
    """Return an array of an object; a large array has a file of its own next to the model's.

    prefix: the name of the model's attribute that holds the object, with a dot at its end.
    """
    value = getattr(owner, name, None)
    if value is None:
        file = Path(f"{path}.{prefix}{name}.npy")
        other_files.refuse_pointer(file)
        value = np.load(file, allow_pickle=False)
    return np.asarray(value)


def convert_doc2vec(source: Path, target: Path) -> None:
    """Write a Doc2Vec folder that the server can read; after an error, no folder is left.

    Raises ModelError for a file that cannot be read, for a model with hierarchical softmax or with
    concatenated word vectors, and if `target` exists.
    """
    with encoder_folder(source, target, "is not a Doc2Vec model of gensim 4") as scratch:
        model: Any = _read_model(source)
        write_json(scratch / "config.json", _config(source, model))
        write_json(scratch / "1_Pooling" / "config.json", {"pooling_mode": "mean"})
        _write_tables(source, model, scratch)


def _config(source: Path, model: Any) -> dict[str, Any]:
    if model.hs or model.dm_concat or not model.cbow_mean or not model.negative:
        raise ModelError(
            f"{source}: only negative sampling is supported, for PV-DM with the mean of word "
            "vectors; this model has hs, dm_concat, or the sum of word vectors"
        )
    return {
        "model_type": doc2vec.MODEL_TYPE,
        "vocab_size": len(model.wv.index_to_key),
        "hidden_size": int(model.vector_size),
        "max_position_embeddings": _MAX_WORDS,
        "memory": not model.sg,
        "window": int(model.window),
        "shrink_windows": bool(getattr(model, "shrink_windows", True)),
        "negative": int(model.negative),
        "epochs": int(model.epochs),
        "alpha": float(model.alpha),
        "min_alpha": float(model.min_alpha),
    }


def _write_tables(source: Path, model: Any, folder: Path) -> None:
    words, counts = model.wv.index_to_key, np.asarray(model.wv.expandos["count"])
    keep = np.ones(len(words))
    if model.sample:
        keep = np.asarray(model.wv.expandos["sample_int"]) / (2.0**32 - 1)
    powers = np.cumsum(counts.astype(np.float64) ** model.ns_exponent)
    tables = {
        "token_table": read_array(source, model.wv, "vectors", "wv."),
        "output_table": read_array(source, model, "syn1neg"),
        "keep": keep,
        "noise": powers / powers[-1],
    }
    arrays = {name: np.ascontiguousarray(table, dtype=np.float32) for name, table in tables.items()}
    for name, array in arrays.items():
        wanted = (len(words), int(model.vector_size))[: 2 if name.endswith("_table") else 1]
        if array.shape != wanted:
            raise ValueError(f"{name} has the shape {array.shape}, not {wanted}")
    check_finite(source, arrays)
    safetensors_files.write_arrays(folder / "model.safetensors", arrays)
    vocabulary = Vocabulary.of(words)
    safetensors_files.write_arrays(folder / MAPPED, vocabulary.arrays, WordOptions().as_metadata())
