"""EmbeddingGemma 2 for texts and images: a bidirectional Gemma with an input gate in each layer.

Gemma 3: arXiv 2503.19786; EmbeddingGemma: Vera et al. 2025, arXiv 2509.20354. The encoder of sounds
is not read.
"""

from dataclasses import asdict, dataclass, replace

from embedwell_models.config.encoder_config import EncoderConfig, plain_config
from embedwell_models.config.json_config import JsonConfig
from embedwell_models.config.layer_spec import ACTIVATIONS
from embedwell_models.config.model_spec import ModelSpec, Projection
from embedwell_models.config.tensor_names import linear
from embedwell_models.families import gemma, llama, qwen
from embedwell_models.families.decoder import layer_windows
from embedwell_models.families.family import DocsRow, Family
from embedwell_models.families.rope import rotary
from embedwell_models.positions.schemes import Rotary
from embedwell_vision.families import gemma4_vision
from embedwell_vision.specs import ImageTokenSpec

_TEXT = "language_model."
_PROJECTION = "embedding_projection.weight"
_OTHER_TOWERS = ("vision_tower.*", "embed_vision.*", "audio_tower.*", "embed_audio.*")
_GATES = {
    **linear("ple.per_layer_model_projection", "gates"),
    **linear("ple.per_layer_projection_norm", "gates_norm"),
    "layers.{}.layer_scalar": "layers.{}.scale",
    **linear("layers.{}.ple_block.per_layer_input_gate", "layers.{}.gate_down"),
    **linear("layers.{}.ple_block.per_layer_projection", "layers.{}.gate_up"),
    **linear("layers.{}.ple_block.post_per_layer_input_norm", "layers.{}.gate_norm"),
}
_PLACEHOLDERS = {"image": 258_880, "video": 258_884, "audio": 258_881}
"""Ids of placeholders for other media, unless the file names other ids."""


def read(options: JsonConfig) -> ModelSpec:
    """Build the spec of a model of texts and other media, or of its text encoder alone."""
    is_text_encoder = options["model_type"] == "embedding_gemma2_text"
    return _spec(options, "") if is_text_encoder else _whole(options)


def _whole(options: JsonConfig) -> ModelSpec:
    """Build the spec of a model that also reads other media."""
    text = options.nested("text_config")
    text.require("model_type", "embedding_gemma2_text")
    spec = _spec(text, _TEXT)
    placeholders = _placeholders(options, text, spec.config.vocab_size)
    return replace(spec, placeholders=placeholders, image_tokens=_images(options, spec.config))


def _images(options: JsonConfig, text: EncoderConfig) -> ImageTokenSpec | None:
    """Build the spec of the image encoder; None for a file without vision_config."""
    if not options.get("vision_config", {}):
        return None
    id = options.get("image_token_id", _PLACEHOLDERS["image"])
    if id not in range(text.vocab_size):
        raise options.unsupported("image_token_id", id, f"an id below {text.vocab_size}")
    return gemma4_vision.image_tokens(
        options.nested("vision_config"),
        text.hidden_size,
        id,
        embedder="embed_vision",
        unused=("language_model.*", "audio_tower.*", "embed_audio.*"),
    )


def _placeholders(options: JsonConfig, text: JsonConfig, ids: int) -> dict[int, int]:
    # In texts, these ids have the vector of the padding token.
    padding = text.get("pad_token_id", 0)
    if padding not in range(ids):
        raise text.unsupported("pad_token_id", padding, f"an id below {ids}")
    stated = [options.get(f"{media}_token_id", id) for media, id in _PLACEHOLDERS.items()]
    return dict.fromkeys((id for id in stated if id in range(ids)), padding)


def _spec(options: JsonConfig, prefix: str) -> ModelSpec:
    # The model projects each token's state. The projection has no bias, so it may follow the mean.
    width, biased = options.get("embedding_dim", 768), options.get("attention_bias", False)
    tensors = llama.tensors(biased, biased, False) | gemma.SANDWICH | qwen.NORMS | _GATES
    config = _config(options)
    return ModelSpec(
        config=config,
        tensors=tensors,
        unused=(_PROJECTION, *_OTHER_TOWERS),
        prefixes=(prefix,) if prefix else (),
        projection=Projection(tensor=prefix + _PROJECTION, width=width, pooling="mean"),
        shapes=_shapes(config, options.get("hidden_size_per_layer_input", 512)),
    )


def _config(options: JsonConfig) -> EncoderConfig:
    layers, every = options.get("num_hidden_layers", 24), options.get("sliding_window_pattern", 6)
    options = options.with_defaults({"num_hidden_layers": layers})
    windows = layer_windows(
        options, False, options.get("sliding_window", 512), lambda layer: (layer + 1) % every > 0
    )
    windows = (*windows[:-1], None)  # the last layer always sees the whole text
    width, heads = options.get("hidden_size", 512), _heads(options, windows)
    whole, local = heads[-1], next((each for each in heads if each != heads[-1]), heads[-1])
    return plain_config(
        vocab_size=options.get("vocab_size", 262_144),
        hidden_size=width,
        num_layers=layers,
        num_heads=options.get("num_attention_heads", 4),
        num_kv_heads=whole.kv_heads,
        head_size=whole.head_size,
        normed_values=True,
        intermediate_size=options.get("intermediate_size", 2048),
        max_positions=options.get("max_position_embeddings", 262_144),
        activation=options.choice("hidden_activation", ACTIVATIONS, "gelu_pytorch_tanh"),
        norm="rms",
        norm_eps=options.get("rms_norm_eps", 1e-6),
        arrangement="sandwich",
        gated=True,
        scale=1.0,
        token_scale=width**0.5,
        windows=windows,
        positions=_rotary(options, "full_attention", whole.head_size, 1_000_000.0),
        local={
            **asdict(local),
            "positions": _rotary(options, "sliding_attention", local.head_size, 10_000.0),
        },
    )


@dataclass(frozen=True)
class _Heads:
    # Fields of AttentionSpec that depend on the layer.
    kv_heads: int
    head_size: int


def _heads(options: JsonConfig, windows: tuple[int | None, ...]) -> list[_Heads]:
    local = _Heads(options.get("num_key_value_heads", 2), options.get("head_dim", 256))
    wide = options.get("num_global_key_value_heads", 1), options.get("global_head_dim", 512)
    if "per_layer_config" not in options:
        return [_Heads(*wide) if window is None else local for window in windows]
    layers, nested = range(len(windows)), options.nested("per_layer_config")
    listed = options.get("per_layer_config", {})
    if not all(key.isdecimal() for key in listed):
        raise options.unsupported("per_layer_config", listed, "layers by their numbers")
    stated = {int(key): _stated_heads(nested, key, local) for key in listed}
    heads = [stated.get(layer, local) for layer in layers]
    kinds = {*zip(windows, heads, strict=True)}
    if not {*stated} <= {*layers} or len(kinds) > len({*windows}):
        raise options.unsupported("per_layer_config", listed, "layers of one size for each kind")
    return heads


def _stated_heads(layers: JsonConfig, key: str, usual: _Heads) -> _Heads:
    stated = layers.nested_only(key, ("head_dim", "num_key_value_heads"))
    return _Heads(
        stated.get("num_key_value_heads", usual.kv_heads), stated.get("head_dim", usual.head_size)
    )


def _rotary(options: JsonConfig, kind: str, size: int, base: float) -> Rotary:
    options.require("rope_scaling", None)
    options.nested("rope_parameters").nested(kind).require("rope_type", "default")
    return rotary(options, size, base=base, kind=kind)


def _shapes(config: EncoderConfig, gate: int) -> dict[str, tuple[int, ...]]:
    width = config.hidden_size
    shapes: dict[str, tuple[int, ...]] = {
        "gates.weight": (config.num_layers * gate, width),
        "gates_norm.weight": (gate,),
    }
    for index in range(config.num_layers):
        shapes |= {
            f"layers.{index}.gate_down.weight": (gate, width),
            f"layers.{index}.gate_up.weight": (width, gate),
            f"layers.{index}.scale": (1,),
        }
    return shapes


FAMILIES = (
    Family(
        model_types=("embedding_gemma2", "embedding_gemma2_text"),
        name="embedding_gemma2",
        read=read,
        ignored_keys=("vision_soft_tokens_per_image",),  # which the processor's file states
        row=DocsRow(
            "EmbeddingGemma 2, [texts and images](image-inputs.md#embeddinggemma-2)",
            "embeddinggemma-2",
            positions="rotary, two bases",
            layers="as Gemma, bidirectional, with per-layer embeddings; "
            "wider heads in layers without a window",
        ),
    ),
)
