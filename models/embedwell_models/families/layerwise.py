"""Decoders with a score head for each of their last layers, of which one gives the score.

Chen et al. 2024 (arXiv 2402.03216) publish such rerankers, and FlagEmbedding computes them.
"""

from dataclasses import replace

from embedwell_models.config.checkpoint_layout import CheckpointLayout
from embedwell_models.config.json_config import JsonConfig
from embedwell_models.families.classification_heads import ClassificationLayers, LinearLayer


def scoring_layer(options: JsonConfig) -> int:
    """Return the number of layers before the score: the one in `cutoff_layers`, or all.

    Raises ModelError for several layers, and for a layer without a head.
    """
    last = options["num_hidden_layers"]
    chosen = options.get("cutoff_layers", [last])
    heads = range(options["start_layer"], last + 1, options.get("layer_sep", 1))
    if len(chosen) != 1 or chosen[0] not in heads:
        raise options.unsupported("cutoff_layers", chosen, f"a list of one of {[*heads]}")
    layer: int = chosen[0]
    return layer


def up_to_the_score(options: JsonConfig) -> JsonConfig:
    """Return the options of the layers before the score alone."""
    return options.with_values({"num_hidden_layers": scoring_layer(options)})


def with_heads(spec: CheckpointLayout, options: JsonConfig) -> CheckpointLayout:
    """Return a layout of these layers for the whole checkpoint. options: of all layers."""
    skipped = range(spec.config.num_layers, options["num_hidden_layers"])
    return replace(spec, unused=(*spec.unused, "lm_head.*"), skipped_layers=skipped)


def head(number: int, softcap: float = 0.0) -> ClassificationLayers:
    """Return a head by its number: one row, for the state of the last token.

    softcap: bound of the logits; 0 for no bound.
    """
    output = LinearLayer(f"lm_head.{number}.linear_head", bias=False)
    return ClassificationLayers("lasttoken", (), output, softcap=softcap)
