"""Longformer (Beltagy et al. 2020, arXiv 2004.05150) without global attention: a RoBERTa.

Every token attends only to a window, which is transformers' default without a global mask.
"""

from dataclasses import replace

from embedwell_models.config.checkpoint_layout import CheckpointLayout
from embedwell_models.config.json_config import JsonConfig
from embedwell_models.families import masked_lm_heads, roberta
from embedwell_models.families.family import Family, Row

UNUSED = (*roberta.UNUSED, "encoder.layer.{}.attention.self.*_global.*")


def read(options: JsonConfig) -> CheckpointLayout:
    """Build the spec of a Longformer; `attention_window` counts the tokens of both sides."""
    spec = roberta.read(options)
    layers, window = spec.config.num_layers, options.get("attention_window")
    window = 512 if window is None else window
    windows = window if isinstance(window, list) else [window] * layers
    if len(windows) != layers or not all(type(w) is int and w > 0 and w % 2 == 0 for w in windows):
        raise options.unsupported("attention_window", window, f"even numbers, one or {layers}")
    config = spec.config.with_windows([width // 2 for width in windows])
    return replace(spec, config=config, unused=UNUSED, prefixes=("longformer.",))


FAMILIES = (
    Family(
        model_types=("longformer",),
        read=read,
        masked_lm_head=masked_lm_heads.ROBERTA,
        states_need_attention=True,
        rows=(
            Row(
                family="Longformer",
                models="longformer-base-4096",
                positions="learned, with offset",
                layers="post-norm, local attention",
            ),
        ),
    ),
)
