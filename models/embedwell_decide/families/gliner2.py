"""GLiNER2 (Zaratiana et al. 2025, arXiv 2507.18546): scores of labels, without its extraction.

https://pypi.org/project/gliner2 has its code.
"""

from dataclasses import replace

from embedwell_decide.gliner_options import (
    CLASSIFIER,
    HEADS,
    MAX_LENGTH,
    MODEL_TYPE,
    OPTIONS,
    GlinerOptions,
    architecture_of,
)
from embedwell_models.config.json_config import JsonConfig
from embedwell_models.config.model_spec import ModelSpec
from embedwell_models.families import deberta
from embedwell_models.families.family import DocsRow, Family
from embedwell_models.outputs.names import DECISION, LABELS


def read(options: JsonConfig) -> ModelSpec:
    """Build the spec of the encoder; raises ModelError for an option that is not supported."""
    own = options.nested(OPTIONS)
    GlinerOptions.of(own)
    spec = deberta.read(options)
    config = spec.config
    if "position" not in config.input_parts:
        config = replace(config, max_positions=MAX_LENGTH)
    unused = (*spec.unused, CLASSIFIER, *HEADS[architecture_of(own)])
    return replace(spec, config=config, unused=unused, prefixes=("encoder.",))


FAMILIES = (
    Family(
        model_types=(MODEL_TYPE,),
        read=read,
        published_pooling="cls",
        outputs=(DECISION, LABELS),
        output_loader="embedwell_decide.gliner_head:load",
        ignored_keys=(OPTIONS,),
        row=DocsRow(
            "GLiNER2",
            "GLiNER2.5-Decide, -multi-Decide",
            positions="disentangled",
            layers="as DeBERTa v3; then a score of each label",
        ),
    ),
)
