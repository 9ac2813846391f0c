"""Choice of a model's pooling from its files, the settings or the default.

WeightedLayerPooling of sentence-transformers, a mean of the states after several layers, precedes
it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from embedwell_models.config.encoder_config import EncoderConfig
from embedwell_models.config.json_config import JsonConfig
from embedwell_models.config.model_options import AUTO, MODES
from embedwell_models.config.model_spec import Projection
from embedwell_models.errors import ModelError
from embedwell_models.families.unread_config import bidirectional_code
from embedwell_models.model_files.card import has_modules
from embedwell_models.model_files.modules import (
    CLIP,
    LAYER_WEIGHTS,
    SPLADE_POOLING,
    STATIC,
    WORDS,
    ModuleEntry,
)

MODES_WITHOUT_WORD_WEIGHTS = ("weightedmean",)
"""Modes that cannot be combined with the word weights of a table."""

# Boolean keys in the older schema of 1_Pooling/config.json -> names in the newer schema.
_OLDER_SCHEMA = {
    "pooling_mode_cls_token": "cls",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_mean_sqrt_len_tokens": "mean_sqrt_len_tokens",
    "pooling_mode_weightedmean_tokens": "weightedmean",
    "pooling_mode_lasttoken": "lasttoken",
}
SPLADE = "splade"
ASSUMED = "assumed"
"""Key for a pooling that the original file of a converted model does not state."""
Source = Literal["model", "setting", "assumed"]

_ADVICE = "say how to pool if it is to embed texts: EMBEDWELL_POOLING, or pooling= in Python"
# Suffixes of class names in config.json for models that are trained for other tasks.
_OTHER_TASKS = {
    "ForTokenClassification": "a classifier of tokens",
    "ForQuestionAnswering": "a model that answers questions",
    "ForMultipleChoice": "a model of multiple choice",
    "ForNextSentencePrediction": "a classifier of pairs",
    "ForImageClassification": "a classifier of images",
}


@dataclass(frozen=True)
class PoolingChoice:
    """A pooling and its source.

    modes: names of poolings; several are concatenated. include_prompt: whether prompt tokens are
    pooled. source: model (the model's files), setting (the operator) or assumed (the default of
    sentence-transformers). projection: projection after the pooling.
    """

    modes: tuple[str, ...]
    include_prompt: bool = True
    source: Source = "model"
    projection: Projection | None = None


@dataclass(frozen=True)
class LayerMix:
    """Mean of the states after the last layers, with a weight for each.

    path: the module's folder, relative to the model's. count: how many weights there are.
    """

    path: str
    count: int


def choose_pooling(
    folder: Path, entries: Sequence[ModuleEntry], pooling: str, projection: Projection | None = None
) -> PoolingChoice:
    """Choose the pooling of a folder whose modules are `entries`.

    pooling: one of MODES, or AUTO for the files' pooling. projection: projection of the encoder's
    family.

    Raises ModelError if the files name no pooling and the default may be wrong.
    """
    supported = (*MODES, AUTO) if entries[0].kind == WORDS else (*MODES, SPLADE, AUTO)
    if pooling not in supported:
        raise ModelError(f"pooling {pooling!r} is not supported; supported: {supported}")
    if entries[0].kind == STATIC:
        return _static_pooling(folder, pooling)
    is_saved = has_modules(folder)
    if not is_saved:
        _refuse_other_tasks(folder)
    stated = _stated(folder, entries)
    if projection and (projection.always or (not is_saved and pooling == AUTO)):
        return _projected_pooling(folder, pooling, stated, projection)
    if entries[0].kind == CLIP:
        raise ModelError(f"{folder}: {CLIP} is only for models of texts and images")
    if pooling != AUTO:
        return PoolingChoice((pooling,), stated is None or stated.include_prompt, "setting")
    if stated is not None:
        return stated
    if is_saved:
        raise ModelError(f"{folder / 'modules.json'} has no Pooling: {_ADVICE}")
    return PoolingChoice((_assumed(folder),), source="assumed")


def has_pooling(entries: Sequence[ModuleEntry]) -> bool:
    """Whether the modules of a model name its pooling."""
    return bool({"Pooling", SPLADE_POOLING} & {entry.kind for entry in entries})


def read_layer_weights(
    folder: Path, entries: Sequence[ModuleEntry], encoder: EncoderConfig
) -> LayerMix | None:
    """Read the options of a folder; None without the module, and where it has no effect.

    It has none if the encoder's config.json does not ask for the states of all layers.

    Raises ModelError for another number of layers than the encoder's.
    """
    paths = [entry.path for entry in entries if entry.kind == LAYER_WEIGHTS]
    if not paths:
        return None
    if not JsonConfig(folder / entries[0].path / "config.json").get("output_hidden_states", False):
        return None
    options = JsonConfig(folder / paths[0] / "config.json")
    layers, start = options.get("num_hidden_layers", 12), options.get("layer_start", 4)
    if layers != encoder.num_layers:
        raise options.unsupported("num_hidden_layers", layers, encoder.num_layers)
    if not 0 <= start <= layers:
        raise options.unsupported("layer_start", start, f"0 to {layers}")
    return LayerMix(paths[0], layers + 1 - start)


def _projected_pooling(
    folder: Path, pooling: str, stated: PoolingChoice | None, projection: Projection
) -> PoolingChoice:
    if projection.pooling is None:
        if stated or pooling != AUTO:
            raise ModelError(f"{folder}: the model projects the end of a text and has no Pooling")
        return PoolingChoice(("lasttoken",), projection=projection)
    modes = (projection.pooling,)
    if pooling not in (*modes, AUTO) or (stated and stated.modes != modes):
        raise ModelError(f"{folder}: the model supports only the pooling {projection.pooling}")
    return PoolingChoice(modes, stated is None or stated.include_prompt, projection=projection)


def _static_pooling(folder: Path, pooling: str) -> PoolingChoice:
    if pooling not in ("mean", AUTO):
        raise ModelError(f"{folder}: a table of token vectors supports only the pooling mean")
    return PoolingChoice(("mean",))


def _stated(folder: Path, entries: Sequence[ModuleEntry]) -> PoolingChoice | None:
    if SPLADE_POOLING in [entry.kind for entry in entries]:
        return PoolingChoice((SPLADE,))
    paths = [entry.path for entry in entries if entry.kind == "Pooling"]
    if not paths:
        return None
    options = JsonConfig(folder / paths[0] / "config.json")
    listed = [new for old, new in _OLDER_SCHEMA.items() if options.get(old, False)]
    modes = options.get("pooling_mode") or listed or "mean"
    modes = tuple(modes) if isinstance(modes, list) else (modes,)
    if not all(mode in MODES for mode in modes):
        raise options.unsupported("pooling_mode", modes, MODES)
    source: Source = "assumed" if options.get(ASSUMED, False) else "model"
    return PoolingChoice(modes, options.get("include_prompt", True), source)


def _refuse_other_tasks(folder: Path) -> None:
    options = JsonConfig.optional(folder / "config.json")
    name = _class_name(options)
    for ending, task in _OTHER_TASKS.items():
        if name.endswith(ending):
            raise ModelError(f"{options.path}: {name} is {task}, not an embedder of texts")


def _class_name(options: JsonConfig) -> str:
    return next(iter(options.get("architectures", ())), "")


def _assumed(folder: Path) -> str:
    options = JsonConfig.optional(folder / "config.json")
    name = _class_name(options)
    if name.endswith("ForMaskedLM"):
        raise ModelError(
            f"{options.path}: {name} without modules.json may be a sparse encoder or a dense "
            "encoder with any pooling. Set EMBEDWELL_POOLING=splade for sparse vectors, "
            "EMBEDWELL_POOLING=mean or another for dense vectors (pooling= in Python)"
        )
    if options.get("model_type") == "dpr":  # as in its own code
        return "cls"
    if options.get("model_type") == "qwen3_vl":  # as in its authors' code
        return "lasttoken"
    if options.get("model_type") in ("qwen2_vl", "qwen2_5_vl"):
        raise ModelError(
            f"{options.path}: a Qwen2-VL without modules.json, whose code is not GME's, may read "
            f"texts and images in any format; with its chat template, {_ADVICE}"
        )
    if not name.endswith("ForCausalLM") or bidirectional_code(options):
        return "mean"
    return "lasttoken" if options.get("is_causal", True) else "mean"
