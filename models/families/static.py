"""A table of token vectors, of which the mean is the text's: no layers, no positions.

sentence-transformers calls it StaticEmbedding, model2vec (Tulkens and van Dongen 2024) a
StaticModel.
"""

from pathlib import Path

from models.checkpoint import safetensors_files
from models.config.blueprint import Blueprint
from models.config.encoder_config import ENDLESS, EncoderConfig
from models.config.json_config import JsonConfig
from models.errors import ModelError

_TENSORS = {
    "embedding.weight": "token_table",
    "embeddings": "token_table",
    "mapping": "token_rows",
    "weights": "token_scales",
}


def read(folder: Path) -> Blueprint:
    """The blueprint that the header of the file tells, and config.json where model2vec wrote one.

    Raises ModelError where there is no such table.
    """
    headers = safetensors_files.headers(folder)
    found = {name: head for name, head in headers.items() if name in _TENSORS}
    table = next((name for name in ("embedding.weight", "embeddings") if name in found), None)
    if table is None:
        raise ModelError(f"{folder}: the checkpoint lacks 'embedding.weight' and 'embeddings'")
    rows, width = found[table].shape
    config = EncoderConfig(
        family="model2vec" if table == "embeddings" else "static",
        vocab_size=found["mapping"].shape[0] if "mapping" in found else rows,
        hidden_size=width,
        num_layers=0,
        num_heads=1,
        intermediate_size=0,
        max_positions=_longest(folder) if table == "embeddings" else ENDLESS,
        norm_eps=0.0,
    )
    return Blueprint(config=config, tensors={name: _TENSORS[name] for name in found})


def _longest(folder: Path) -> int:
    said = JsonConfig.optional(folder / "config.json")
    if "max_length" not in said:
        return 512  # model2vec's own
    return int(said.get("max_length", 0)) or ENDLESS
