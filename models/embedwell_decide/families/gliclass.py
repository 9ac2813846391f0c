"""GLiClass (Stepanov et al. 2025, arXiv 2508.07662): scores of labels that are read with the text.

https://pypi.org/project/gliclass has its code.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace

from embedwell_decide.label_head import PARTS, PREFIX
from embedwell_decide.label_options import MAX_LENGTH, LabelOptions
from embedwell_models.config.json_config import JsonConfig
from embedwell_models.config.model_spec import ModelSpec
from embedwell_models.families import deberta, modernbert
from embedwell_models.families.family import DocsRow, Family
from embedwell_models.outputs.names import LABELS

_ENCODERS: Mapping[str, Callable[[JsonConfig], ModelSpec]] = {
    "deberta-v2": deberta.read,
    "modernbert": modernbert.read,
}
_IGNORED = (  # of training, or of architectures that are not supported
    *("calibrator_*", "contrastive_loss_coef", "encoder_model*", "focal_loss_*"),
    *("freeze_media_encoders", "ignore_index", "label_model_*", "layer_wise", "max_labels_alloc"),
    *("max_num_classes", "recurrent_*", "scorer_*", "shuffle_labels", "use_embedding_projection"),
)


def read(options: JsonConfig) -> ModelSpec:
    """Build the spec of the encoder; raises ModelError for an option that is not supported."""
    LabelOptions.of(options)
    inner = options.nested("encoder_config")
    rows = options.get("vocab_size") or inner["vocab_size"]  # with the tokens of labels
    read_encoder = inner.choice("model_type", _ENCODERS, "deberta-v2")
    spec = read_encoder(inner.with_values({"vocab_size": rows}))
    config = spec.config
    if "position" not in config.input_parts:
        config = replace(config, max_positions=MAX_LENGTH)
    unused = (*spec.unused, *(f"{PREFIX}{part}" for part in PARTS))
    return replace(spec, config=config, unused=unused, prefixes=(f"{PREFIX}encoder_model.",))


FAMILIES = (
    Family(
        model_types=("GLiClass",),
        read=read,
        published_pooling="cls",
        outputs=(LABELS,),
        output_loader="embedwell_decide.label_head:load",
        ignored_keys=_IGNORED,
        row=DocsRow(
            "GLiClass",
            "gliclass-base-v3.0, -modern-base-v3.0, -edge-v3.0",
            positions="those of its encoder",
            layers="DeBERTa v2 or ModernBERT; then a score of the text and each label",
        ),
    ),
)
