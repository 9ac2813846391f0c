"""Tables of word vectors: WordEmbeddings of sentence-transformers, and converted files.

Word2Vec (Mikolov et al. 2013, arXiv 1301.3781), GloVe (Pennington et al. 2014), fastText
(Bojanowski et al. 2016, arXiv 1607.04606).
"""

from pathlib import Path

from models.checkpoint import safetensors_files
from models.config.checkpoint_spec import CheckpointSpec
from models.config.encoder_config import UNLIMITED, EncoderConfig
from models.config.json_config import JsonConfig
from models.errors import ModelError
from models.tokenizer.words.options import WordOptions

FAMILY = "word_vectors"
TABLE = "emb_layer.weight"
SCALES = "emb_layer.scales"
"""The tensor with a scale for each row of a table of 8-bit integers."""
OPTIONS = "wordembedding_config.json"
_TOKENIZER = "WhitespaceTokenizer"


def read_folder(folder: Path) -> CheckpointSpec:
    """Build the spec from the options and the checkpoint's header.

    Raises ModelError if there is no table, and for another tokenizer.
    """
    options = JsonConfig(folder / OPTIONS)
    tokenizer = options.get("tokenizer_class", "").rpartition(".")[2]
    if tokenizer != _TOKENIZER:
        raise options.unsupported("tokenizer_class", tokenizer, (_TOKENIZER,))
    headers = safetensors_files.headers(folder)
    header = headers.get(TABLE)
    if header is None or len(header.shape) != 2:
        raise ModelError(f"{folder}: the checkpoint lacks a table {TABLE!r}")
    rows, width = header.shape
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
    tensors = {TABLE: "token_table", **({SCALES: "token_scales"} if SCALES in headers else {})}
    shapes = {"token_table": (rows, width), "token_scales": (rows,)}
    return CheckpointSpec(config=config, tensors=tensors, shapes=shapes)
