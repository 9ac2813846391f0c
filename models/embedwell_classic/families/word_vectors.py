"""Tables of word vectors: Word2Vec, GloVe, fastText, sentence-transformers' WordEmbeddings."""

from pathlib import Path

import numpy as np

from embedwell_classic.tokenizers.vocabulary import WordOptions
from embedwell_models.checkpoint import safetensors_files, tables
from embedwell_models.checkpoint.tables import TensorNames
from embedwell_models.config.encoder_config import UNLIMITED, EncoderConfig
from embedwell_models.config.json_config import WORD_VECTORS, JsonConfig
from embedwell_models.config.model_spec import ModelSpec
from embedwell_models.errors import ModelError
from embedwell_models.families.family import DocsRow, Family

NAME = "word_vectors"
TENSORS = TensorNames("emb_layer", "emb_layer.weight", "emb_layer.scales")
TABLE = TENSORS.table
_TOKENIZER = "WhitespaceTokenizer"


def read_folder(folder: Path) -> ModelSpec:
    """Build the spec of a table from the options and the checkpoint's header.

    Raises ModelError if there is no table, and for another tokenizer class.
    """
    options = JsonConfig(folder / WORD_VECTORS)
    options.refuse_unknown({"tokenizer_class", "update_embeddings", "max_seq_length"})
    tokenizer = options.get("tokenizer_class", "").rpartition(".")[2]
    if tokenizer != _TOKENIZER:
        raise options.unsupported("tokenizer_class", tokenizer, (_TOKENIZER,))
    arrays = safetensors_files.map_folder(folder)
    tensors, scales = TENSORS.ours(arrays), TENSORS.scales
    if not {*tensors} - {scales}:
        raise ModelError(f"{folder}: the checkpoint lacks a table {TABLE!r}")
    if {*tensors} == {TABLE, scales} and arrays[TABLE].dtype != np.int8:
        raise ModelError(f"{folder}: {scales} go with int8 rows, one scale for each row")
    table = tables.build({ours: arrays[name] for name, ours in tensors.items()})
    rows, width = len(table), table.width
    config = EncoderConfig(
        family=NAME,
        vocab_size=rows + 1,
        unknown_id=rows,
        hidden_size=width,
        layers=(),
        max_positions=min(options.get("max_seq_length", UNLIMITED), UNLIMITED),
        norm_eps=0.0,
        subwords=WordOptions.read(folder).subwords is not None,
    )
    return ModelSpec(config=config, tensors=tensors)


FAMILIES = (
    Family(
        name=NAME,
        table=TENSORS,
        encoder_loader="embedwell_classic.encoders.word_vectors:WordVectorEncoder.load",
        row=DocsRow(
            "[word vectors](words.md)",
            "Word2Vec, GloVe, fastText, WordEmbeddings",
            positions="none",
            layers="none",
        ),
    ),
)
