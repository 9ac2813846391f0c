"""EmbeddingGemma 2 for texts: a Gemma in which tokens see both sides, gated in each layer.

Gemma 3: arXiv 2503.19786; EmbeddingGemma: Vera et al. 2025, arXiv 2509.20354. The encoders of
images, sounds and videos beside it are not read.
"""

from models.config.activations import ACTIVATIONS
from models.config.checkpoint_spec import CheckpointSpec, Projection, linear
from models.config.encoder_config import EncoderConfig
from models.config.json_config import JsonConfig
from models.families import gemma, llama, qwen
from models.families.decoder import layer_windows
from models.families.rope import rotary
from models.positions.schemes import Rotary

FAMILY = "embedding_gemma2"
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
_Size = tuple[int, int]
"""Of the attention of a layer: features of a head, and number of heads of keys and values."""


def read(options: JsonConfig) -> CheckpointSpec:
    """Build the spec of the text encoder of a model that also reads other media."""
    text = options.nested("text_config")
    text.require("model_type", "embedding_gemma2_text")
    return _spec(text, _TEXT)


def text_only(options: JsonConfig) -> CheckpointSpec:
    """Build the spec of a text encoder alone."""
    return _spec(options, "")


def placeholders(options: JsonConfig) -> dict[int, int]:
    """Map ids that stand for other media to the padding token's, whose vector they have in texts.

    options: those of the whole file.
    """
    if options["model_type"] != FAMILY:
        return {}
    padding = options.nested("text_config").get("pad_token_id", 0)
    defaults = {"image": 258_880, "video": 258_884, "audio": 258_881}
    ids = [options.get(f"{media}_token_id", id) for media, id in defaults.items()]
    return dict.fromkeys(ids, padding)


def _spec(options: JsonConfig, prefix: str) -> CheckpointSpec:
    # The projection is of each token's state; as it has no bias, it may follow the mean.
    width, biased = options.get("embedding_dim", 768), options.get("attention_bias", False)
    tensors = llama.tensors(biased, biased, False) | gemma.SANDWICH | qwen.NORMS | _GATES
    config, sizes = _config(options)
    return CheckpointSpec(
        config=config,
        tensors=tensors,
        unused=(_PROJECTION, *_OTHER_TOWERS),
        prefixes=(prefix,) if prefix else (),
        projection=Projection(tensor=prefix + _PROJECTION, width=width, pooling="mean"),
        shapes=_shapes(config, sizes, options.get("hidden_size_per_layer_input", 512)),
    )


def _config(options: JsonConfig) -> tuple[EncoderConfig, list[_Size]]:
    layers, every = options.get("num_hidden_layers", 24), options.get("sliding_window_pattern", 6)
    options = options.with_defaults({"num_hidden_layers": layers})
    windows = layer_windows(
        options, False, options.get("sliding_window", 512), lambda layer: (layer + 1) % every > 0
    )
    windows = (*windows[:-1], None)  # whatever the file says of the last layer
    sizes = _sizes(options, windows)
    local = next((size for size, window in zip(sizes, windows, strict=True) if window), sizes[-1])
    width = options.get("hidden_size", 512)
    config = EncoderConfig(
        family=FAMILY,
        vocab_size=options.get("vocab_size", 262_144),
        hidden_size=width,
        num_layers=layers,
        num_heads=options.get("num_attention_heads", 4),
        head_size=local[0],
        num_kv_heads=local[1],
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
        positions=_rotary(options, "full_attention", sizes[-1][0], 1_000_000.0),
        local_positions=_rotary(options, "sliding_attention", local[0], 10_000.0),
    )
    return config, sizes


def _sizes(options: JsonConfig, windows: tuple[int | None, ...]) -> list[_Size]:
    usual = (options.get("head_dim", 256), options.get("num_key_value_heads", 2))
    wide = (options.get("global_head_dim", 512), options.get("num_global_key_value_heads", 1))
    if "per_layer_config" not in options:
        return [wide if window is None else usual for window in windows]
    layers, nested = range(len(windows)), options.nested("per_layer_config")
    listed = options.get("per_layer_config", {})
    stated = {int(key): _stated_size(nested, key, usual) for key in listed}
    sizes = [stated.get(layer, usual) for layer in layers]
    kinds = {*zip(windows, sizes, strict=True)}
    if not {*stated} <= {*layers} or len(kinds) > len({*windows}):
        raise options.unsupported("per_layer_config", listed, "layers of one size for each kind")
    return sizes


def _stated_size(layers: JsonConfig, key: str, usual: _Size) -> _Size:
    stated = layers.nested_only(key, ("head_dim", "num_key_value_heads"))
    return stated.get("head_dim", usual[0]), stated.get("num_key_value_heads", usual[1])


def _rotary(options: JsonConfig, kind: str, size: int, base: float) -> Rotary:
    options.require("rope_scaling", None)
    options.nested("rope_parameters").nested(kind).require("rope_type", "default")
    return rotary(options, size, base=base, kind=kind)


def _shapes(config: EncoderConfig, sizes: list[_Size], gate: int) -> dict[str, tuple[int, ...]]:
    width = config.hidden_size
    shapes: dict[str, tuple[int, ...]] = {
        "gates.weight": (config.num_layers * gate, width),
        "gates_norm.weight": (gate,),
    }
    for index, (head, kv_heads) in enumerate(sizes):
        if config.num_heads % kv_heads:
            raise ValueError(f"{config.num_heads} heads do not divide among {kv_heads} of keys")
        query, key = config.num_heads * head, kv_heads * head
        parts: dict[str, tuple[int, ...]] = {
            "query.weight": (query, width),
            "key.weight": (key, width),
            "value.weight": (key, width),
            "output.weight": (width, query),
            "query.bias": (query,),
            "key.bias": (key,),
            "value.bias": (key,),
            "query_norm.weight": (head,),
            "key_norm.weight": (head,),
            "gate_down.weight": (gate, width),
            "gate_up.weight": (width, gate),
            "scale": (1,),
        }
        shapes |= {f"layers.{index}.{name}": shape for name, shape in parts.items()}
    return shapes
