"""CANINE (Clark et al. 2022, arXiv 2103.06874): a transformer over Unicode code points."""

from dataclasses import replace

from embedwell_classic.tokenizers.code_points import CODE_POINTS
from embedwell_models.config.encoder_config import EncoderConfig
from embedwell_models.config.json_config import JsonConfig
from embedwell_models.config.model_spec import ModelSpec
from embedwell_models.config.tensor_names import affine, affine_shapes
from embedwell_models.families import bert
from embedwell_models.families.family import DocsRow, Family

RATE, BLOCK = 4, 128
"""Defaults: characters of a downsampled position, and characters of a block of local attention."""
MAX_HASHES = 16
LAYERS_OVER_CHARACTERS = ("initial", "final")
"""Our names of the first and the last layer, which attend to characters."""
_LAYER = {theirs: ours for theirs, ours in bert.TENSORS.items() if theirs.startswith("encoder.")}
_TENSORS = {
    "char_embeddings.char_position_embeddings.weight": "position_table",
    "char_embeddings.token_type_embeddings.weight": "segment_table",
    **affine("char_embeddings.LayerNorm", "norm"),
    **affine("chars_to_molecules.conv", "downsampling"),
    **affine("chars_to_molecules.LayerNorm", "downsampling_norm"),
    **affine("projection.conv", "upsampling"),
    **affine("projection.LayerNorm", "upsampling_norm"),
    **_LAYER,
    **{
        theirs.replace("encoder", f"{name}_char_encoder", 1): ours.replace("layers.{}", name)
        for name in LAYERS_OVER_CHARACTERS
        for theirs, ours in _LAYER.items()
    },
}


def read(options: JsonConfig) -> ModelSpec:
    """Build the spec of a CANINE; its states have the numbers of transformers' hidden_states.

    These are also states after the downsampling and the upsampling, which count as layers here.
    """
    buckets, hashes = options.get("num_hash_buckets", 16384), options.get("num_hash_functions", 8)
    config = bert.config(
        options.with_defaults({"vocab_size": CODE_POINTS}),
        vocab_size=CODE_POINTS,
        max_positions=min(options["max_position_embeddings"], buckets),
    )
    deep, other = config.layers, replace(config.layers[0], weights=None)
    config = replace(config, layers=(other, other, *deep, other, other))
    width = config.hidden_size
    if hashes > MAX_HASHES or width % hashes:
        raise ValueError(
            f"{hashes} hash functions: at most {MAX_HASHES} are supported, and they must divide "
            f"hidden_size {width}"
        )
    rate, kernel = options.get("downsampling_rate", RATE), options.get("upsampling_kernel_size", 4)
    if options.get("local_transformer_stride", BLOCK) < rate:
        raise ValueError(f"local_transformer_stride is less than downsampling_rate {rate}")
    tables = {f"hash_table_{index}": (buckets, width // hashes) for index in range(hashes)}
    names = {
        f"char_embeddings.HashBucketCodepointEmbedder_{index}.weight": table
        for index, table in enumerate(tables)
    }
    return ModelSpec(
        config=config,
        tensors=_TENSORS | names,
        unused=bert.UNUSED,
        prefixes=("canine.",),
        shapes={
            **tables,
            "position_table": (buckets, width),
            **affine_shapes("downsampling", (width, width * rate)),
            **affine_shapes("upsampling", (width, 2 * width * kernel)),
            **_layer_shapes(config),
        },
    )


def _layer_shapes(config: EncoderConfig) -> dict[str, tuple[int, ...]]:
    width = config.hidden_size
    shapes: dict[str, tuple[int, ...]] = {}
    for name in LAYERS_OVER_CHARACTERS:
        for part, shape in config.layers[0].matrices(width).items():
            shapes |= affine_shapes(f"{name}.{part}", shape)
        for norm in ("attention_norm", "ffn_norm"):
            shapes |= affine_shapes(f"{name}.{norm}", (width,))
    return shapes


FAMILIES = (
    Family(
        model_types=("canine",),
        read=read,
        encoder_loader="embedwell_classic.encoders.canine:CanineEncoder.load",
        on_torch=True,
        states_need_attention=True,
        row=DocsRow(
            "CANINE",
            "canine-s, canine-c",
            positions="learned",
            layers="characters instead of tokens, downsampled by four; post-norm",
            torch="yes",
        ),
    ),
)
