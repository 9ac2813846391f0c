"""Static embeddings: the average of token vectors from a table, without layers and positions.

sentence-transformers calls it StaticEmbedding, model2vec (Tulkens and van Dongen 2024) a
StaticModel.
"""

from collections.abc import Iterable
from pathlib import Path

from embedwell_models.checkpoint import safetensors_files, tables
from embedwell_models.checkpoint.tables import TensorNames
from embedwell_models.config.encoder_config import UNLIMITED, EncoderConfig
from embedwell_models.config.json_config import JsonConfig
from embedwell_models.config.model_spec import ModelSpec
from embedwell_models.errors import ModelError
from embedwell_models.families.family import DocsRow, Family

_NAMES = {
    "static": TensorNames("embedding", "embedding.weight", "weights", "mapping"),
    "model2vec": TensorNames("embeddings", "embeddings", "weights", "mapping"),
}


def read_folder(folder: Path) -> ModelSpec:
    """Build the spec from the checkpoint's header and model2vec's config.json, if there is one.

    Raises ModelError if there is no table.
    """
    arrays = safetensors_files.map_folder(folder)
    tensors = {family: names.ours(arrays) for family, names in _NAMES.items()}
    family = next((family for family in _NAMES if _has_rows(family, tensors[family])), None)
    if family is None:
        raise ModelError(f"{folder}: the checkpoint lacks 'embedding.weight' and 'embeddings'")
    table = tables.build({ours: arrays[name] for name, ours in tensors[family].items()})
    config = EncoderConfig(
        family=family,
        vocab_size=len(table),
        hidden_size=table.width,
        layers=(),
        max_positions=_max_length(folder) if family == "model2vec" else UNLIMITED,
        norm_eps=0.0,
    )
    return ModelSpec(config=config, tensors=tensors[family])


def _has_rows(family: str, tensors: Iterable[str]) -> bool:
    names = _NAMES[family]
    return bool({*tensors} - {names.scales, names.rows})


def _max_length(folder: Path) -> int:
    options = JsonConfig.optional(folder / "config.json")
    if "max_length" not in options:
        return 512  # model2vec's default
    return int(options.get("max_length", 0)) or UNLIMITED


_ROW = DocsRow(
    "static tables, without an encoder",
    "StaticEmbedding, model2vec (potion)",
    positions="none",
    layers="none",
)
FAMILIES = tuple(
    Family(name=name, table=names, keeps_unknown_tokens=name != "model2vec", row=_ROW)
    for name, names in _NAMES.items()
)
