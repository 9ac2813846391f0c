"""Laya (Convai Innovations 2026): a ModernBERT with layers that score the options of a question.

https://pypi.org/project/laya has its code. mmBERT, of laya-multilingual, is a ModernBERT, too.
"""

from dataclasses import replace

from embedwell_decide.folder import MODEL_TYPE, OPTIONS
from embedwell_decide.options import max_length
from embedwell_models.config.json_config import JsonConfig
from embedwell_models.config.model_spec import ModelSpec
from embedwell_models.families import modernbert
from embedwell_models.families.family import DocsRow, Family
from embedwell_models.outputs.names import DECISION


def read(options: JsonConfig) -> ModelSpec:
    """Build the spec of the encoder."""
    spec = modernbert.read(options)
    longest = min(spec.config.max_positions, max_length(options.nested(OPTIONS)))
    config = replace(spec.config, max_positions=longest)
    unused = ("head.*", "type_emb.*", "scorer.*", "act_head.*", "temperature")
    return replace(spec, config=config, unused=unused, prefixes=("encoder.",))


FAMILIES = (
    Family(
        model_types=(MODEL_TYPE,),
        read=read,
        published_pooling="cls",
        outputs=(DECISION,),
        output_loader="embedwell_decide.head:load",
        ignored_keys=(OPTIONS,),
        row=DocsRow(
            "Laya",
            "laya, laya-multilingual, laya-typed-decisions",
            positions="rotary, two bases",
            layers="as ModernBERT; then two layers that read the question and its options",
        ),
    ),
)
