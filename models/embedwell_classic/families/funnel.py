"""Funnel Transformer (Dai et al. 2020, arXiv 2006.03236): each block has fewer positions."""

from collections.abc import Mapping

from embedwell_models.config.encoder_config import EncoderConfig, plain_config
from embedwell_models.config.json_config import JsonConfig
from embedwell_models.config.layer_spec import ACTIVATIONS
from embedwell_models.config.model_spec import ModelSpec
from embedwell_models.config.tensor_names import affine, affine_shapes
from embedwell_models.families.family import DocsRow, Family
from embedwell_models.families.heads import (
    ClassificationLayers,
    refuse_segments,
    two_layers,
)
from embedwell_models.positions.schemes import TransformerXL

_REQUIRED = {
    "pooling_type": "mean",
    "attention_type": "relative_shift",
    "separate_cls": True,
    "truncate_seq": True,
    "pool_q_only": True,
}
_WITHOUT_DECODER = {"FunnelBaseModel", "FunnelForSequenceClassification"}
_MAX_POSITIONS = 512
_EMBEDDINGS = {
    "embeddings.word_embeddings.weight": "token_table",
    **affine("embeddings.layer_norm", "norm"),
}
_PARTS = {  # names in a layer -> our names
    "attention.q_head.weight": "query.weight",
    **affine("attention.k_head", "key"),
    **affine("attention.v_head", "value"),
    **affine("attention.post_proj", "output"),
    **affine("attention.layer_norm", "attention_norm"),
    "attention.r_w_bias": "content_bias",
    "attention.r_r_bias": "distance_bias",
    "attention.r_kernel": "distance",
    "attention.r_s_bias": "segment_bias",
    "attention.seg_embed": "segments",
    **affine("ffn.linear_1", "up"),
    **affine("ffn.linear_2", "down"),
    **affine("ffn.layer_norm", "ffn_norm"),
}
_UNUSED = (
    *("discriminator_predictions.*", "lm_head.*", "classifier.*", "qa_outputs.*"),
    "decoder.*",  # prefix in a FunnelBaseModel
)


def read(options: JsonConfig) -> ModelSpec:
    """Build the spec of a Funnel; its states have the numbers of transformers' hidden_states."""
    for key, value in _REQUIRED.items():
        options.require(key, value)
    applied, decoder = layers(options), decoder_layers(options)
    config = _config(options, applied[-1][0] + 1, len(applied), decoder)
    present = {f"encoder.blocks.{i}.{j}": f"layers.{i}.{j}" for i, j in applied}
    present |= {f"decoder.layers.{i}": f"layers.{i}.decoder" for i in range(decoder)}
    shapes = {
        f"{name}.{part}": shape
        for name in present.values()
        for part, shape in _shapes(config).items()
    }
    return ModelSpec(
        config=config,
        tensors=_tensors(present),
        unused=_UNUSED,
        prefixes=("funnel.",),
        shapes=shapes,
    )


def _config(options: JsonConfig, blocks: int, encoder: int, decoder: int) -> EncoderConfig:
    # encoder, decoder: numbers of layers. The input of the decoder is one more state.
    width = options.first_of("d_model", "hidden_size", default=768)
    config = plain_config(
        vocab_size=options.get("vocab_size", 30522),
        hidden_size=width,
        num_layers=encoder + (1 + decoder if decoder else 0),
        num_heads=options.first_of("n_head", "num_attention_heads", default=12),
        head_size=options.get("d_head", 64),
        intermediate_size=options.get("d_inner", 3072),
        max_positions=options.get("max_position_embeddings", _MAX_POSITIONS),
        limited=True,
        activation=options.choice("hidden_act", ACTIVATIONS, "gelu_new"),
        norm_eps=options.get("layer_norm_eps", 1e-9),
        positions=TransformerXL(),
    )
    if width % 2 or 2 ** (blocks - 1) >= config.max_positions:
        raise ValueError(f"d_model {width} is odd, or block_sizes has too many blocks: {blocks}")
    return config


def _tensors(names: Mapping[str, str]) -> dict[str, str]:
    # names: of layers in the checkpoint -> our names.
    parts = {
        f"{theirs}.{part}": f"{ours}.{_PARTS[part]}"
        for theirs, ours in names.items()
        for part in _PARTS
    }
    return _EMBEDDINGS | parts


def layers(options: JsonConfig) -> tuple[tuple[int, int], ...]:
    """Return the block and the number in the block of each layer, in the order of application."""
    sizes = options.get("block_sizes", [4, 4, 4])
    repeats = options.get("block_repeats", [1] * len(sizes))
    if not sizes or len(sizes) != len(repeats) or min(*sizes, *repeats) < 1:
        raise options.unsupported(
            "block_sizes, block_repeats", (sizes, repeats), "equally many numbers above 0"
        )
    return tuple(
        (block, layer)
        for block, (size, count) in enumerate(zip(sizes, repeats, strict=True))
        for layer in range(size)
        for _ in range(count)
    )


def layers_of_first_block(options: JsonConfig) -> int:
    """Return the number of layers before the state of the first block, which the decoder reads."""
    return int(options.get("block_sizes", [4, 4, 4])[0])


def decoder_layers(options: JsonConfig) -> int:
    """Return the number of decoder layers, 0 for the classes that have no decoder."""
    if _WITHOUT_DECODER & {*options.get("architectures", [])}:
        return 0
    return int(options.get("num_decoder_layers", 2))


def classification_head(options: JsonConfig) -> ClassificationLayers:
    """Return the head of a classifier, which reads the first position."""
    refuse_segments(options)
    return two_layers("classifier.linear_hidden", "classifier.linear_out")(options)


def _shapes(config: EncoderConfig) -> dict[str, tuple[int, ...]]:
    width, matrices = config.hidden_size, config.layers[0].matrices(config.hidden_size)
    heads = matrices["query"][0]
    shapes: dict[str, tuple[int, ...]] = {
        **{f"{name}.weight": shape for name, shape in matrices.items()},
        **{f"{name}.bias": shape[:1] for name, shape in matrices.items() if name != "query"},
        **dict.fromkeys(("content_bias", "distance_bias", "segment_bias"), (heads,)),
        **{"distance": (width, heads), "segments": (2, heads)},
    }
    for norm in ("attention_norm", "ffn_norm"):
        shapes |= affine_shapes(norm, (width,))
    return shapes


FAMILIES = (
    Family(
        model_types=("funnel",),
        read=read,
        classification_head=classification_head,
        encoder_loader="embedwell_classic.encoders.funnel:FunnelEncoder.load",
        on_torch=True,
        tokenizer_override="normalizer",
        row=DocsRow(
            "Funnel Transformer, with or without decoder",
            "funnel-transformer small, small-base",
            positions="as Transformer-XL",
            layers="post-norm; each block halves the positions",
            torch="yes",
        ),
    ),
)
