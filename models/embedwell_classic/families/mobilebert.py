"""MobileBERT (Sun et al. 2020, arXiv 2004.02984): narrow layers between wide states."""

from embedwell_models.config.encoder_config import EncoderConfig
from embedwell_models.config.json_config import JsonConfig
from embedwell_models.config.model_spec import ModelSpec
from embedwell_models.config.tensor_names import affine, affine_shapes
from embedwell_models.families import bert
from embedwell_models.families.family import DocsRow, Family
from embedwell_models.families.heads import ClassificationLayers, LinearLayer

_REQUIRED = {
    "normalization_type": "no_norm",
    "trigram_input": True,
    "use_bottleneck": True,
    "use_bottleneck_attention": False,
    "key_query_shared_bottleneck": True,
}
_LAYER = "encoder.layer.{}"
_EMBEDDINGS = {
    "embeddings.word_embeddings.weight": "narrow_table",
    "embeddings.position_embeddings.weight": "position_table",
    "embeddings.token_type_embeddings.weight": "segment_table",
    **affine("embeddings.embedding_transformation", "trigram"),
    **affine("embeddings.LayerNorm", "norm"),
}
_PARTS = {  # names in a layer -> our names
    "bottleneck.input.dense": "narrow",
    "bottleneck.input.LayerNorm": "narrow_norm",
    "bottleneck.attention.dense": "narrow_attention",
    "bottleneck.attention.LayerNorm": "narrow_attention_norm",
    "attention.self.query": "query",
    "attention.self.key": "key",
    "attention.self.value": "value",
    "attention.output.dense": "output",
    "attention.output.LayerNorm": "attention_norm",
    "output.bottleneck.dense": "widen",
    "output.bottleneck.LayerNorm": "widen_norm",
}


def read(options: JsonConfig) -> ModelSpec:
    """Build the spec of a MobileBERT."""
    for key, value in _REQUIRED.items():
        options.require(key, value)
    narrow, heads = options.get("intra_bottleneck_size", 128), options["num_attention_heads"]
    if narrow % heads:
        raise ValueError(f"{heads} heads do not divide intra_bottleneck_size {narrow}")
    config = bert.config(options.with_defaults({"hidden_act": "relu"}), head_size=narrow // heads)
    parts = dict(_PARTS)
    networks = options.get("num_feedforward_networks", 4)
    for index in range(networks):
        last = index == networks - 1
        theirs = "" if last else f"ffn.{index}."
        parts[f"{theirs}intermediate.dense"] = f"up_{index}"
        parts[f"{theirs}output.dense"] = f"down_{index}"
        parts[f"{theirs}output.LayerNorm"] = f"ffn_norm_{index}"
    tensors = dict(_EMBEDDINGS)
    for theirs, ours in parts.items():
        tensors |= affine(f"{_LAYER}.{theirs}", f"layers.{{}}.{ours}")
    return ModelSpec(
        config=config,
        tensors=tensors,
        unused=bert.UNUSED,
        prefixes=("mobilebert.",),
        shapes=_shapes(config, narrow, options.get("embedding_size", 128), [*parts.values()]),
    )


def classification_head(options: JsonConfig) -> ClassificationLayers:
    """Return the head: one layer, or two with `classifier_activation`, which is the default."""
    output = LinearLayer("classifier")
    if not options.get("classifier_activation", True):
        return ClassificationLayers("cls", (), output)
    return ClassificationLayers("cls", (LinearLayer("mobilebert.pooler.dense", "Tanh"),), output)


def _shapes(
    config: EncoderConfig, narrow: int, table: int, parts: list[str]
) -> dict[str, tuple[int, ...]]:
    width, inner = config.hidden_size, config.feed_forward.inner
    shapes: dict[str, tuple[int, ...]] = {
        "narrow_table": (config.vocab_size, table),
        **affine_shapes("trigram", (width, 3 * table)),
    }
    for part in parts:
        rows = width if part.startswith("widen") else inner if part.startswith("up") else narrow
        reads_states = part in ("narrow", "narrow_attention", "value")
        columns = width if reads_states else inner if part.startswith("down") else narrow
        for layer in range(config.num_layers):
            weight = (rows,) if "norm" in part else (rows, columns)
            shapes |= affine_shapes(f"layers.{layer}.{part}", weight)
    return shapes


FAMILIES = (
    Family(
        model_types=("mobilebert",),
        read=read,
        classification_head=classification_head,
        encoder_loader="embedwell_classic.encoders.mobilebert:MobileBertEncoder.load",
        on_torch=True,
        tokenizer_override="normalizer",
        row=DocsRow(
            "MobileBERT",
            "mobilebert-uncased",
            positions="learned",
            layers="bottleneck layers, no norms",
            torch="yes",
        ),
    ),
)
