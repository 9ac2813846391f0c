"""The common component of a corpus' text vectors, and the module that removes it."""

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from embedwell_models.checkpoint import safetensors_files
from embedwell_models.classic.word_vectors import family as word_vectors
from embedwell_models.classic.word_vectors.encoder import WordVectorEncoder
from embedwell_models.encoder.batch import Batch
from embedwell_models.loading.word_table import mapped_parts
from embedwell_models.tables import stored
from embedwell_models.tokenizer.words.word_tokenizer import WordTokenizer
from embedwell_models.vectors import Doubles, Floats

MODULE = "3_Dense"
_TEXTS = 1024  # texts that are computed at once


def remove_common_component(
    folder: Path, texts: Sequence[str], tokenizer: WordTokenizer, word_weights: Floats
) -> None:
    """Write a Dense module that removes a vector's part along the first singular vector u.

    The module computes v - u uᵀ v. u is the first singular vector of the text vectors, which are
    weighted means. Arora et al. 2017, "A simple but tough-to-beat baseline for sentence
    embeddings".
    word_weights: (rows,).
    """
    spec = word_vectors.read_folder(folder)
    parts = mapped_parts(folder, spec)
    stored.check(parts, spec.tensors)
    table = stored.build(parts)
    encoder = WordVectorEncoder(spec.config, table, word_weights)
    products: Doubles = np.zeros((table.width,) * 2)
    for start in range(0, len(texts), _TEXTS):
        rows = [tokenizer.encode(text).ids for text in texts[start : start + _TEXTS]]
        vectors = encoder.vectors(Batch.of(rows), ["mean"]).astype(np.float64)
        products += vectors.T @ vectors
    first = np.linalg.eigh(products).eigenvectors[:, -1:]
    width = len(first)
    (folder / MODULE).mkdir()
    weight = (np.eye(width) - first @ first.T).astype(np.float32)
    safetensors_files.write_arrays(folder / MODULE / "model.safetensors", {"linear.weight": weight})
    config = {
        "in_features": width,
        "out_features": width,
        "bias": False,
        "activation_function": "torch.nn.modules.linear.Identity",
    }
    (folder / MODULE / "config.json").write_text(json.dumps(config), encoding="utf-8")
