"""EuroBERT (Boizard et al. 2025, arXiv 2503.05500): a bidirectional Llama."""

from embedwell_models.config.checkpoint_layout import CheckpointLayout
from embedwell_models.config.json_config import JsonConfig
from embedwell_models.families import llama
from embedwell_models.families.family import Family, Row


def read(options: JsonConfig) -> CheckpointLayout:
    """Build the spec of a EuroBERT."""
    biased = options.get("attention_bias", False)
    return CheckpointLayout(
        config=llama.config(options, causal=False, norm_eps=options.get("rms_norm_eps", 1e-5)),
        tensors=llama.tensors(biased, biased, options.get("mlp_bias", False)),
        unused=("lm_head.*", "dense.*", "classifier.*"),
        prefixes=("model.",),
    )


FAMILIES = (
    Family(
        model_types=("eurobert",),
        read=read,
        replaced_code=("EuroBertModel",),
        rows=(
            Row(
                family="EuroBERT",
                models="EuroBERT",
                positions="rotary",
                layers="pre-norm (RMSNorm), gated FFN",
            ),
        ),
    ),
)
