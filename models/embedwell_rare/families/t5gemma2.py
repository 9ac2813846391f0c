"""T5Gemma 2 (Zhang et al. 2025, arXiv 2512.14856): an encoder and a decoder of Gemma 3.

KaLM-Reranker (Zhao et al. 2026, arXiv 2606.22807) reads documents with the encoder and queries with
the decoder. The encoder of images is not read.
"""

from dataclasses import replace

from embedwell_models.config.json_config import KALM_RERANKER, JsonConfig
from embedwell_models.config.layer_spec import AttentionSpec
from embedwell_models.config.model_spec import DecoderSpec, ModelSpec
from embedwell_models.families import gemma
from embedwell_models.families.decoder import sliding_window
from embedwell_models.families.family import DocsRow, Family

_CLASS = "T5Gemma2ForConditionalGeneration"
_CHUNK_SIZE = 4  # states, in the authors' code
_ATTENTION = "embedwell_rare.torch_layers.merged_attention:build"
_ENCODER = "embedwell_rare.torch_layers.encoder_decoder:EncoderDecoder"
_OWN_NORMS = {  # Gemma's names -> those of T5Gemma 2
    "input_layernorm": "pre_self_attn_layernorm",
    "post_attention_layernorm": "post_self_attn_layernorm",
}
_TABLE = "embed_tokens.weight"


def read(options: JsonConfig) -> ModelSpec:
    """Build the spec of a T5Gemma 2 for texts."""
    options.require("architectures", [_CLASS])
    options.require("tie_word_embeddings", True)
    text = options.nested("encoder").nested("text_config")
    encoder = _encoder(text)
    stated = JsonConfig.optional(options.path.with_name(KALM_RERANKER))
    decoder = DecoderSpec(
        model=_decoder(options.nested("decoder"), encoder),
        chunk_size=stated.nullable("encoder_chunk_size", _CHUNK_SIZE) or 1,
        encoder=_ENCODER,
    )
    return replace(encoder, decoder=decoder)


def _encoder(options: JsonConfig) -> ModelSpec:
    # Of an even window, the token itself counts as one before it.
    options.require("use_bidirectional_attention", False)
    width = sliding_window(options) or 1
    spec = gemma.of_gemma3(options, False, (width + 1) // 2 - 1, window_after=width // 2)
    # No text has the end of an image, whose vector is next to the table.
    others = ("vision_tower.*", "multi_modal_projector.*", "embed_tokens.eoi_embedding")
    return replace(
        spec,
        tensors=_own_names(spec),
        unused=(*others, "model.decoder.*", "lm_head.*"),
        prefixes=("model.encoder.text_model.", "model.encoder."),
    )


def _decoder(options: JsonConfig, encoder: ModelSpec) -> ModelSpec:
    for key, value in (
        ("hidden_size", encoder.config.hidden_size),
        ("vocab_size", encoder.config.vocab_size),
    ):
        options.require(key, value)
    spec = gemma.of_gemma3(options, True, sliding_window(options))
    first = encoder.config.num_layers
    layers = []
    for index, layer in enumerate(spec.config.layers):
        assert isinstance(layer.mixer, AttentionSpec)
        mixer = replace(layer.mixer, builder=_ATTENTION)
        layers.append(replace(layer, weights=first + index, mixer=mixer))
    names = _own_names(spec)
    del names[_TABLE]
    return replace(
        spec,
        config=replace(spec.config, layers=tuple(layers)),
        tensors=names,
        first_layer=first,
        unused=("embed_tokens.*", "model.encoder.*", "lm_head.*"),
        prefixes=("model.decoder.",),
    )


def _own_names(spec: ModelSpec) -> dict[str, str]:
    names = {}
    for theirs, ours in spec.tensors.items():
        parts = [_OWN_NORMS.get(part, part) for part in theirs.split(".")]
        names[".".join(parts)] = ours
    return names


FAMILIES = (
    Family(
        model_types=("t5gemma2",),
        read=read,
        decodes_queries=True,
        tokenizer_override="nothing",
        replaces_module=True,
        ignored_keys=("mm_tokens_per_image", "vocab_size"),
        row=DocsRow(
            "T5Gemma 2, rerankers",
            "KaLM-Reranker-V1",
            positions="rotary, two bases",
            layers="as Gemma 3; [a decoder reads the query](rerank.md#kalm-reranker)",
            torch="yes",
        ),
    ),
)
