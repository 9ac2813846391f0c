"""Tables of word vectors: WordEmbeddings of sentence-transformers and converted files.

Word2Vec (Mikolov et al. 2013, arXiv 1301.3781), GloVe (Pennington et al. 2014), fastText
(Bojanowski et al. 2016, arXiv 1607.04606).
"""

from pathlib import Path

import numpy as np

from embedwell_models.checkpoint import safetensors_files
from embedwell_models.config.checkpoint_spec import CheckpointSpec
from embedwell_models.config.encoder_config import UNLIMITED, EncoderConfig
from embedwell_models.config.json_config import JsonConfig
from embedwell_models.errors import ModelError
from embedwell_models.tables import stored
from embedwell_models.tables.names import TensorNames
from embedwell_models.tokenizer.words.options import WordOptions

FAMILY = "word_vectors"
TABLE = "emb_layer.weight"
NAMES = TensorNames("emb_layer", TABLE, "emb_layer.scales")
OPTIONS = "wordembedding_config.json"
_TOKENIZER = "WhitespaceTokenizer"


def read_folder(folder: Path) -> CheckpointSpec:
    """Build the spec of a table from the options and the checkpoint's header.

    Raises ModelError if there is no table, and for another tokenizer class.
    """
    options = JsonConfig(folder / OPTIONS)
    tokenizer = options.get("tokenizer_class", "").rpartition(".")[2]
    if tokenizer != _TOKENIZER:
        raise options.unsupported("tokenizer_class", tokenizer, (_TOKENIZER,))
    arrays = safetensors_files.map_folder(folder)
    tensors = NAMES.ours(arrays)
    if not {*tensors} - {NAMES.scales}:
        raise ModelError(f"{folder}: the checkpoint lacks a table {TABLE!r}")
    if {*tensors} == {TABLE, NAMES.scales} and arrays[TABLE].dtype != np.int8:
        raise ModelError(f"{folder}: {NAMES.scales} go with int8 rows, one scale for each row")
    table = stored.build({ours: arrays[name] for name, ours in tensors.items()})
    rows, width = len(table), table.width
    config = EncoderConfig(
        family=FAMILY,
        vocab_size=rows + 1,
        unknown_id=rows,
        hidden_size=width,
        num_layers=0,
        num_heads=1,
        intermediate_size=0,
        max_positions=min(options.get("max_seq_length", UNLIMITED), UNLIMITED),
        norm_eps=0.0,
        subwords=WordOptions.read(folder).subwords is not None,
    )
    return CheckpointSpec(config=config, tensors=tensors)
