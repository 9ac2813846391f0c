"""Conversion of a Doc2Vec that gensim saved: NAME.model and the .npy files beside it."""

from pathlib import Path
from typing import Any

import numpy as np

from embedwell_models.checkpoint import safetensors_files
from embedwell_models.classic.doc2vec import family as doc2vec
from embedwell_models.convert import gensim_pickle
from embedwell_models.convert.module_files import check_finite, encoder_folder, write_json
from embedwell_models.errors import ModelError
from embedwell_models.tokenizer.word_vocabulary import MAPPED, Vocabulary, WordOptions

SUFFIXES = (".model", ".doc2vec")
_MAX_WORDS = 10_000  # gensim reads no more words of a text


def convert_doc2vec(source: Path, target: Path) -> None:
    """Write a Doc2Vec folder that the server can read; after an error, no folder is left.

    Raises ModelError for a file that cannot be read, for a model with hierarchical softmax or with
    concatenated word vectors, and if `target` exists.
    """
    with encoder_folder(source, target, "is not a Doc2Vec model of gensim 4") as scratch:
        model: Any = gensim_pickle.read_model(source)
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
        "token_table": gensim_pickle.array(source, model.wv, "vectors", "wv."),
        "output_table": gensim_pickle.array(source, model, "syn1neg"),
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
