"""Which pooling makes a text's vector: as the files say, as the operator says, or as assumed."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from models.config.blueprint import Projection
from models.config.json_config import JsonConfig
from models.errors import ModelError
from models.sentence_transformers.modules import CLIP, STATIC, Entry

# The booleans of the older schema of 1_Pooling/config.json -> the names of the newer one.
_BOOLEANS = {
    "pooling_mode_cls_token": "cls",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_mean_sqrt_len_tokens": "mean_sqrt_len_tokens",
    "pooling_mode_weightedmean_tokens": "weightedmean",
    "pooling_mode_lasttoken": "lasttoken",
}
MODES = tuple(_BOOLEANS.values())
AUTO = "auto"
Source = Literal["model", "setting", "assumed"]

_ADVICE = "say how to pool if it is to embed texts: EMBEDDING_POOLING, or pooling= in Python"
# Endings of the class that config.json names, of models that are trained for something else.
_OTHER_TASKS = {
    "ForSequenceClassification": "a classifier or reranker",
    "ForTokenClassification": "a classifier of tokens",
    "ForQuestionAnswering": "a model that answers questions",
    "ForMultipleChoice": "a model of multiple choice",
    "ForNextSentencePrediction": "a classifier of pairs",
    "ForImageClassification": "a classifier of images",
}


@dataclass(frozen=True)
class PoolingChoice:
    """modes: names, concatenated when several. include_prompt: whether its tokens are pooled.

    source: model: its files say so. setting: the operator does. assumed: nobody does, and it is
    what sentence-transformers takes. projection: what follows it.
    """

    modes: tuple[str, ...]
    include_prompt: bool = True
    source: Source = "model"
    projection: Projection | None = None


def choose_pooling(
    folder: Path, entries: Sequence[Entry], wanted: str, projection: Projection | None = None
) -> PoolingChoice:
    """The pooling of a folder whose modules are `entries`.

    wanted: one of MODES, or AUTO for that of the files. projection: of the encoder's family.

    Raises ModelError where the files name none, and nothing sound can be assumed.
    """
    if wanted not in (*MODES, AUTO):
        raise ModelError(f"pooling {wanted!r} is not supported; supported: {(*MODES, AUTO)}")
    if entries[0].kind == STATIC:
        return _of_table(folder, wanted)
    alone = not (folder / "modules.json").exists()
    if alone:
        _refuse_other_tasks(folder)
    stated = _stated(folder, entries)
    if projection and (projection.always or (alone and wanted == AUTO)):
        if stated or wanted != AUTO:
            raise ModelError(f"{folder}: a CLIP projects the end of a text: it has no Pooling")
        return PoolingChoice(("lasttoken",), projection=projection)
    if entries[0].kind == CLIP:
        raise ModelError(f"{folder}: {CLIP} is not of a model with texts and images")
    if wanted != AUTO:
        return PoolingChoice((wanted,), stated is None or stated.include_prompt, "setting")
    if stated is not None:
        return stated
    if not alone:
        raise ModelError(f"{folder / 'modules.json'} has no Pooling: {_ADVICE}")
    return PoolingChoice((_assumed(folder),), source="assumed")


def _of_table(folder: Path, wanted: str) -> PoolingChoice:
    if wanted not in ("mean", AUTO):
        raise ModelError(f"{folder}: a table of token vectors has no other pooling than the mean")
    return PoolingChoice(("mean",))


def _stated(folder: Path, entries: Sequence[Entry]) -> PoolingChoice | None:
    paths = [entry.path for entry in entries if entry.kind == "Pooling"]
    if not paths:
        return None
    raw = JsonConfig(folder / paths[0] / "config.json")
    listed = [new for old, new in _BOOLEANS.items() if raw.get(old, False)]
    modes = raw.get("pooling_mode") or listed or "mean"
    modes = tuple(modes) if isinstance(modes, list) else (modes,)
    if not all(mode in MODES for mode in modes):
        raise raw.refusal("pooling_mode", modes, MODES)
    return PoolingChoice(modes, raw.get("include_prompt", True))


def _refuse_other_tasks(folder: Path) -> None:
    raw = JsonConfig.optional(folder / "config.json")
    name = _class(raw)
    for ending, task in _OTHER_TASKS.items():
        if name.endswith(ending):
            raise ModelError(f"{raw.path}: {name} is {task}, not an embedder of texts")


def _class(raw: JsonConfig) -> str:
    return next(iter(raw.get("architectures", ())), "")


def _assumed(folder: Path) -> str:
    raw = JsonConfig.optional(folder / "config.json")
    name = _class(raw)
    if name.endswith("ForMaskedLM"):
        raise ModelError(
            f"{raw.path}: {name} without modules.json may be a sparse encoder (SPLADE), which is "
            f"not served, or an encoder of any pooling: {_ADVICE}; sentence-transformers would "
            "take the mean"
        )
    if raw.get("model_type") == "dpr":  # its own output
        return "cls"
    causal = name.endswith("ForCausalLM") and raw.get("is_causal", True)
    return "lasttoken" if causal else "mean"
