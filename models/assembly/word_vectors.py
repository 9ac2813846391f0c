"""Loads a table of word vectors, and the weights of its words."""

import torch
from torch import Tensor

from models.checkpoint import weights
from models.errors import ModelError
from models.families.word_vectors import SCALES, TABLE
from models.folder import Folder
from models.torch_backend.word_vectors import WordVectorEncoder


def load_word_vector_encoder(folder: Folder) -> WordVectorEncoder:
    """Build the encoder of a folder, whose table is mapped into memory; raises ModelError."""
    table, scales = _table(folder)
    if folder.sentence.word_weights is None:
        return WordVectorEncoder(folder.spec.config, table, None, scales)
    path = folder.path / folder.sentence.word_weights
    tensors = {
        name: weights.to_finite_float32(path, name, part)
        for name, part in weights.iterate_tensors(path)
    }
    shapes = {name: tuple(part.shape) for name, part in tensors.items()}
    if shapes != {TABLE: (len(table), 1)}:
        raise ModelError(f"{path} has {shapes}, and the table {len(table)} words")
    return WordVectorEncoder(folder.spec.config, table, tensors[TABLE].flatten(), scales)


def _table(folder: Folder) -> tuple[Tensor, Tensor | None]:
    # Of 8-bit rows the table stays as it is, mapped; other types become float32.
    if SCALES not in folder.spec.tensors:
        return weights.load(folder.encoder, folder.spec)["token_table"], None
    tensors = dict(weights.iterate_tensors(folder.encoder))
    table, scales = (
        tensors[TABLE],
        weights.to_finite_float32(folder.encoder, SCALES, tensors[SCALES]),
    )
    if table.dtype != torch.int8 or scales.shape != table.shape[:1]:
        raise ModelError(f"{folder.encoder}: {SCALES} go with rows of int8, one for each")
    return table, scales
