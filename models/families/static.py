"""Static embeddings: a table of token vectors that are averaged, without layers or positions.

sentence-transformers calls it StaticEmbedding, model2vec (Tulkens and van Dongen 2024) a
StaticModel.
"""

from pathlib import Path

from models.checkpoint import safetensors_files
from models.config.checkpoint_spec import CheckpointSpec
from models.config.encoder_config import UNLIMITED, EncoderConfig
from models.config.json_config import JsonConfig
from models.errors import ModelError

_TENSORS = {
    "embedding.weight": "token_table",
    "embeddings": "token_table",
    "mapping": "token_rows",
    "weights": "token_scales",
}


def read_folder(folder: Path) -> CheckpointSpec:
    """Build the spec from the checkpoint's header, and model2vec's config.json if there is one.

    Raises ModelError if there is no table.
    """
    headers = safetensors_files.headers(folder)
    shapes = {name: head.shape for name, head in headers.items() if name in _TENSORS}
    table = next((name for name in ("embedding.weight", "embeddings") if name in shapes), None)
    if table is None:
        raise ModelError(f"{folder}: the checkpoint lacks 'embedding.weight' and 'embeddings'")
    rows, width = shapes[table]
    config = EncoderConfig(
        family="model2vec" if table == "embeddings" else "static",
        vocab_size=shapes["mapping"][0] if "mapping" in shapes else rows,
        hidden_size=width,
        num_layers=0,
        num_heads=1,
        intermediate_size=0,
        max_positions=_max_length(folder) if table == "embeddings" else UNLIMITED,
        norm_eps=0.0,
    )
    return CheckpointSpec(config=config, tensors={name: _TENSORS[name] for name in shapes})


def _max_length(folder: Path) -> int:
    options = JsonConfig.optional(folder / "config.json")
    if "max_length" not in options:
        return 512  # model2vec's default
    return int(options.get("max_length", 0)) or UNLIMITED
