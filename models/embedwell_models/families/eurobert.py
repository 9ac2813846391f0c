"""EuroBERT (Boizard et al. 2025, arXiv 2503.05500): a bidirectional Llama."""

from embedwell_models.config.encoder_config import EncoderConfig
from embedwell_models.config.json_config import JsonConfig
from embedwell_models.config.model_spec import ModelSpec
from embedwell_models.families import llama
from embedwell_models.families.family import DocsRow, Family
from embedwell_models.families.heads import ClassificationLayers, LinearLayer, MaskedLMHead


def read(options: JsonConfig) -> ModelSpec:
    """Build the spec of a EuroBERT."""
    biased = options.get("attention_bias", False)
    return ModelSpec(
        config=llama.config(options, causal=False, norm_eps=options.get("rms_norm_eps", 1e-5)),
        tensors=llama.tensors(biased, biased, options.get("mlp_bias", False)),
        unused=("lm_head.*", "dense.*", "classifier.*"),
        prefixes=("model.",),
    )


def _classification_head(options: JsonConfig) -> ClassificationLayers:
    # The code of the authors' repositories calls the option clf_pooling.
    key = "clf_pooling" if "clf_pooling" in options else "classifier_pooling"
    pooling = options.choice(key, {"bos": "cls", "mean": "mean", "late": "late"}, "late")
    dense, output = LinearLayer("dense", "GELU"), LinearLayer("classifier")
    if pooling == "late":  # the mean of the logits is the output layer of the mean
        return ClassificationLayers("mean", (), output, of_tokens=(dense,))
    return ClassificationLayers(pooling, (dense,), output)


def _masked_lm_head(options: JsonConfig, config: EncoderConfig) -> MaskedLMHead:
    return MaskedLMHead(output="lm_head", output_bias="lm_head.bias")


FAMILIES = (
    Family(
        model_types=("eurobert",),
        read=read,
        classification_head=_classification_head,
        masked_lm_head=_masked_lm_head,
        replaced_code=("EuroBertModel",),
        row=DocsRow(
            "EuroBERT", "EuroBERT", positions="rotary", layers="pre-norm (RMSNorm), gated FFN"
        ),
    ),
)
