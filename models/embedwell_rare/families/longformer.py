"""Longformer (Beltagy et al. 2020, arXiv 2004.05150): a RoBERTa with windows.

Every token attends only to a window, which is transformers' default without a global mask. In a
classifier, the first token has global attention.
"""

from dataclasses import replace

from embedwell_models.config.json_config import JsonConfig
from embedwell_models.config.model_spec import ModelSpec
from embedwell_models.config.tensor_names import affine
from embedwell_models.families import heads, roberta
from embedwell_models.families.family import DocsRow, Family

_ATTENTION = "encoder.layer.{}.attention.self"
GLOBAL_TENSORS = {
    **affine(f"{_ATTENTION}.query_global", "layers.{}.first_query"),
    **affine(f"{_ATTENTION}.key_global", "layers.{}.first_key"),
    **affine(f"{_ATTENTION}.value_global", "layers.{}.first_value"),
}
UNUSED = (*roberta.UNUSED, f"{_ATTENTION}.*_global.*")


def read(options: JsonConfig) -> ModelSpec:
    """Build the spec of a Longformer; `attention_window` counts the tokens of both sides."""
    spec = roberta.read(options)
    classifies = "LongformerForSequenceClassification" in options.get("architectures", [])
    layers, window = spec.config.num_layers, options.get("attention_window")
    window = 512 if window is None else window
    windows = window if isinstance(window, list) else [window] * layers
    if len(windows) != layers or not all(type(w) is int and w > 0 and w % 2 == 0 for w in windows):
        raise options.unsupported("attention_window", window, f"even numbers, one or {layers}")
    config = spec.config.with_windows([width // 2 for width in windows], global_first=classifies)
    return replace(
        spec,
        config=config,
        tensors={**spec.tensors, **(GLOBAL_TENSORS if classifies else {})},
        unused=UNUSED,
        prefixes=("longformer.",),
    )


FAMILIES = (
    Family(
        model_types=("longformer",),
        read=read,
        classification_head=roberta.HEAD,
        masked_lm_head=heads.ROBERTA_MASKED_LM,
        states_need_attention=True,
        row=DocsRow(
            "Longformer",
            "longformer-base-4096",
            positions="learned, with offset",
            layers="post-norm, local attention",
            torch="classifiers",
        ),
    ),
)
