"""Shapes of encoders that are compiled as a whole, and random weights for them."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import torch
from torch import Tensor

from embedwell_models.checkpoint.weights import Weights
from embedwell_models.config.encoder_config import EncoderConfig, plain_config
from embedwell_models.config.layer_spec import (
    AttentionSpec,
    ConvolutionSpec,
    DeltaNetSpec,
    LayerSpec,
)
from embedwell_models.positions.schemes import (
    Alibi,
    Buckets,
    Disentangled,
    Learned,
    Rotary,
    Scaling,
    Scheme,
    TransformerXL,
)

VOCABULARY = 100
Size = TypeVar("Size")


def shape(
    hidden: int = 64,
    heads: int = 2,
    inner: int = 128,
    activation: str = "gelu",
    layers: int = 2,
    **different: Any,
) -> EncoderConfig:
    """Return the config of a BERT with some changes."""
    fields: dict[str, Any] = {
        "family": "bert",
        "vocab_size": VOCABULARY,
        "hidden_size": hidden,
        "num_layers": layers,
        "num_heads": heads,
        "intermediate_size": inner,
        "max_positions": 512,
        "activation": activation,
        "norm_eps": 0.05,
        "input_positions": Learned(),
        "segments": True,
    }
    return plain_config(**{**fields, **different})


def modern(**different: Any) -> EncoderConfig:
    """A ModernBERT: no table, windows in some layers, with angles of their own."""
    fields: dict[str, Any] = {
        "layers": 3,
        "input_positions": Scheme(),
        "segments": False,
        "positions": Rotary(dim=32),
        "local": {"positions": Rotary(dim=32, base=100.0)},
        "windows": (None, 5, 40),
        "arrangement": "pre",
        "gated": True,
    }
    return shape(**{**fields, **different})


def llama(**different: Any) -> EncoderConfig:
    """A Qwen 3: fewer heads of keys, each head normalised, later keys unseen."""
    fields: dict[str, Any] = {
        "heads": 4,
        "num_kv_heads": 2,
        "head_size": 64,
        "norm": "rms",
        "causal": True,
        "local": {},
        "positions": Rotary(dim=64),
        "windows": (None, None, 33),
    }
    return modern(**{**fields, **different})


def deberta(**different: Any) -> EncoderConfig:
    """A DeBERTa-v3, some buckets of which are exact; `different` changes the scheme."""
    scheme = Disentangled(**{"buckets": 40, "max_distance": 90, **different})
    return shape(segments=False, input_positions=Scheme(), positions=scheme, scale=0.1)


def eva(**different: Any) -> EncoderConfig:
    """An EVA-02 as in Jina CLIP: both parts of a layer normalise before their last matrix."""
    fields: dict[str, Any] = {
        "inner": 192,
        "activation": "silu",
        "arrangement": "pre",
        "gated": True,
        "inner_norm_eps": 0.1,
    }
    return shape(**{**fields, **different})


def shared(config: EncoderConfig) -> EncoderConfig:
    """Let all layers have the weights of the first, as in ALBERT."""
    return replace(config, layers=tuple(replace(layer, weights=0) for layer in config.layers))


def mixture(config: EncoderConfig, experts: int = 4, top: int = 2, every: int = 2) -> EncoderConfig:
    """Let every second layer have experts, as in Nomic Embed v2."""
    layers = [
        replace(layer, feed_forward=replace(layer.feed_forward, experts=experts, top=top))
        if index % every == every - 1
        else layer
        for index, layer in enumerate(config.layers)
    ]
    return replace(config, layers=tuple(layers))


def convolving(config: EncoderConfig, width: int, *layers: int) -> EncoderConfig:
    """Let some layers have convolutions in place of attention, as in LFM2."""
    convolution = ConvolutionSpec(width=width)
    changed = (
        replace(layer, mixer=convolution) if index in layers else layer
        for index, layer in enumerate(config.layers)
    )
    return replace(config, layers=tuple(changed))


def recurrent(config: EncoderConfig, *layers: int, **different: int) -> EncoderConfig:
    """Let some layers have Gated DeltaNets, and the others gated attention, as in Qwen3.5."""
    sizes = {"heads": 6, "key_heads": 2, "size": 64, "key_size": 32, "width": 4}
    delta_net = DeltaNetSpec(**{**sizes, **different})
    gated = replace(config.attention, gated=True)
    changed = (
        replace(layer, mixer=delta_net if index in layers else gated)
        for index, layer in enumerate(config.layers)
    )
    return replace(config, layers=tuple(changed))


LONGROPE = Rotary(
    dim=48,
    scaling=Scaling(
        kind="longrope", original=20, magnitude=1.2, short=(1.5,) * 24, long=(3.0, 0.5) * 12
    ),
)
KINDS = {
    "bert": shape(),
    "electra": shape(embedding_size=32),
    "albert": shared(shape(embedding_size=32, layers=3)),
    "roberta": shape(input_positions=Learned(offset=4)),  # token 3 has no position
    "biased": shape(positions=Buckets()),  # differs by head, by distance and by direction
    "causal": shape(positions=Buckets(), causal=True),
    "biased window": shape(positions=Buckets(), windows=(40, 5)),
    "t5": shape(
        input_positions=Scheme(), positions=Buckets(), arrangement="pre", norm="rms", scale=1.0
    ),
    "umt5": shape(
        input_positions=Scheme(),
        positions=Buckets(shared=False),
        arrangement="pre",
        norm="rms",
        scale=1.0,
    ),
    "xlnet": shape(input_positions=Scheme(), segments=False, positions=TransformerXL()),
    "jina": shape(input_positions=Scheme(), positions=Alibi(), gated=True, activation="relu"),
    "gte": shape(128, 2, 192, input_positions=Scheme(), positions=Rotary(dim=64), gated=True),
    "nomic": shape(
        input_positions=Scheme(), positions=Rotary(dim=20, interleaved=True), gated=True
    ),
    "jina code": shape(
        input_positions=Scheme(), positions=Alibi(), gated=True, arrangement="double_post"
    ),
    "gpt-neox": shape(
        input_positions=Scheme(), positions=Rotary(dim=8), arrangement="parallel", causal=True
    ),
    "gpt-j": shape(
        input_positions=Scheme(),
        positions=Rotary(dim=16, interleaved=True),
        arrangement="parallel_one_norm",
    ),
    "experts": mixture(shape(input_positions=Scheme(), positions=Rotary(dim=32))),
    "modern": modern(),
    "plain feed-forward": modern(gated=False, norm="rms"),
    "scaled": modern(token_scale=3.0, scale=0.3),
    "llama": llama(),
    "one head of keys": llama(num_kv_heads=1, causal=False),
    "longrope": llama(positions=LONGROPE, windows=()),
    "gemma": llama(heads=3, num_kv_heads=1, head_size=128, hidden=192, arrangement="sandwich"),
    "gemma 2": llama(softcap=0.7, windows=(20, None, 33), arrangement="sandwich"),
    "capped": shape(positions=Buckets(), softcap=0.7),
    "lfm2": convolving(llama(windows=()), 3, 0, 2),
    "lfm2.5": convolving(llama(windows=(), causal=False), 5, 1, 2),
    "convolutions alone": convolving(modern(windows=(), causal=True), 4, 0, 1, 2),
    "qwen3.5": recurrent(llama(windows=()), 0, 2),
    "eva": eva(input_positions=Scheme(), positions=Rotary(dim=32)),
    "deberta": deberta(),
    "deberta without buckets": deberta(buckets=0, shared=False),
    "content to position": deberta(position_to_content=False, buckets=8, shared=False),
    "position to content": replace(deberta(content_to_position=False), causal=True),
    "relative window": deberta(max_distance=600).with_windows((40, 5)),
    "gates": llama(
        num_kv_heads=1,
        local={"head_size": 32, "kv_heads": 2, "positions": Rotary(dim=32, base=100.0)},
        normed_values=True,
        windows=(5, None, 40),
        causal=False,
        arrangement="sandwich",
    ),
}
# Each head of queries and keys is normalised.
NORMED = {"llama", "one head of keys", "gemma", "gates", "lfm2", "lfm2.5", "qwen3.5"}
GATES = {"gates": 128}  # width of the gate of each layer by its input


def random_weights(config: EncoderConfig, normed: bool = False, gate: int = 0) -> Weights:
    """Random weights that are large enough to reveal a wrong activation, bias or norm.

    gate: width of the gate of each layer by its input.
    """
    noise = torch.Generator().manual_seed(3)
    weights = {}
    for name, size in _tables(config).items():
        scale = 0.5 if name in ("position_table", "segment_table") else 1.0
        weights[name] = torch.randn(size, generator=noise) * scale
    for name, sizes in _matrices(config).items():
        scale = 1.0 if name.endswith("convolution") else 0.1
        weights[f"{name}.weight"] = torch.randn(sizes, generator=noise) * scale
        # Without a bias, a token that is not attended to counts as zeros in a Gated DeltaNet.
        if ".delta_" not in name or name.endswith("decay"):
            weights[f"{name}.bias"] = torch.randn(sizes[0], generator=noise) * 0.3
    for name, width in _norms(config, normed).items():
        weights[f"{name}.weight"] = 1 + 0.3 * torch.randn(width, generator=noise)
        if config.norm == "layer":
            weights[f"{name}.bias"] = 0.3 * torch.randn(width, generator=noise)
    weights |= _gates(config, gate, noise) if gate else {}
    weights |= _experts(config, noise)
    weights |= _of_layers(config, noise)
    return {name: tensor.numpy() for name, tensor in weights.items()}


def _gates(config: EncoderConfig, gate: int, noise: torch.Generator) -> dict[str, Tensor]:
    width, layers = config.hidden_size, range(config.num_layers)
    found = {"gates.weight": torch.randn(len(layers) * gate, width, generator=noise)}
    found["gates_norm.weight"] = 1 + 0.3 * torch.randn(gate, generator=noise)
    for name in (f"layers.{layer}" for layer in layers):
        found[f"{name}.gate_down.weight"] = 0.1 * torch.randn(gate, width, generator=noise)
        found[f"{name}.gate_up.weight"] = 0.1 * torch.randn(width, gate, generator=noise)
        found[f"{name}.gate_norm.weight"] = 1 + 0.3 * torch.randn(width, generator=noise)
        found[f"{name}.scale"] = 0.8 + 0.1 * torch.randn(1, generator=noise)
    return found


def _experts(config: EncoderConfig, noise: torch.Generator) -> dict[str, Tensor]:
    # The router is steep: where rounding exchanges two experts, their shares are small.
    scales = {"router": 0.5, "experts_up": 0.1, "experts_down": 0.1}
    found: dict[str, tuple[tuple[int, ...], float]] = {}
    for index, layer in enumerate(config.layers):
        sizes = layer.matrices(config.hidden_size)
        for name in scales.keys() & sizes.keys():
            found[f"layers.{index}.{name}.weight"] = sizes[name], scales[name]
        if "experts" in sizes:
            found[f"layers.{index}.experts.bias"] = (config.hidden_size,), 0.3
    return {
        name: torch.randn(size, generator=noise) * scale
        for name, (size, scale) in sorted(found.items())
    }


def _of_layers(config: EncoderConfig, noise: torch.Generator) -> dict[str, Tensor]:
    # Tables and vectors of a layer's positions, which have no bias.
    heads, size = config.attention.heads, config.attention.head_size
    sizes: dict[str, tuple[tuple[int, ...], float]] = {}
    match config.attention.positions:
        case Buckets(shared=False, buckets=buckets):
            sizes["layer_bias_table"] = (buckets, heads), 1.0
        case TransformerXL():
            sizes["position_bias"] = (heads * size,), 1.0
            sizes["relative.weight"] = (heads * size, config.hidden_size), 0.3
    return {
        f"layers.{layer}.{name}": torch.randn(size, generator=noise) * scale
        for layer in range(config.num_layers)
        for name, (size, scale) in sizes.items()
    }


def _tables(config: EncoderConfig) -> Mapping[str, tuple[int, int]]:
    width = config.embedding_size
    found = {"token_table": (VOCABULARY, width)}
    if config.segments:
        found["segment_table"] = (2, width)
    if config.input_positions.name != Scheme.name:
        offset = config.input_positions.offset if isinstance(config.input_positions, Learned) else 0
        found["position_table"] = (config.max_positions + offset, width)
    if isinstance(config.attention.positions, Buckets) and config.attention.positions.shared:
        found["bias_table"] = (config.attention.positions.buckets, config.attention.heads)
    if isinstance(config.attention.positions, Disentangled):
        found["relative_table"] = (2 * config.attention.positions.span, width)
    return found


def _matrices(config: EncoderConfig) -> Mapping[str, tuple[int, ...]]:
    order = (  # of the random numbers
        *("query", "key", "value", "output", "up", "down", "gate"),
        *("convolution_input", "convolution", "convolution_output", "attention_gate"),
        *DeltaNetSpec.tensors,
    )
    layers = [layer.matrices(config.hidden_size) for layer in config.layers]
    found: dict[str, tuple[int, ...]]
    found = _each([{name: each[name] for name in order if name in each} for each in layers])
    found |= _each([_relative(layer, config.hidden_size) for layer in config.layers])
    if config.embedding_size == config.hidden_size:
        return found
    return {**found, "project": (config.hidden_size, config.embedding_size)}


def _relative(layer: LayerSpec, width: int) -> Mapping[str, tuple[int, int]]:
    scheme = layer.positions
    if not isinstance(scheme, Disentangled) or scheme.shared:
        return {}
    assert isinstance(layer.mixer, AttentionSpec)
    sizes = layer.mixer.heads * layer.mixer.head_size, width
    scores = {"key": scheme.content_to_position, "query": scheme.position_to_content}
    return {f"position_{part}": sizes for part, added in scores.items() if added}


def _norms(config: EncoderConfig, normed: bool) -> Mapping[str, int]:
    layers = [_layer_norms(config, layer, normed) for layer in config.layers]
    post = config.arrangement in ("post", "double_post")
    final = {} if post else {"final_norm": config.hidden_size}
    if isinstance(config.attention.positions, Disentangled):
        final["relative_norm"] = config.hidden_size
    return {"norm": config.embedding_size, **final, **_each(layers)}


def _layer_norms(config: EncoderConfig, layer: LayerSpec, normed: bool) -> dict[str, int]:
    output_norms = {"sandwich": ("attention", "ffn"), "double_post": ("attention",)}
    sizes = {}
    for part in ("attention", "ffn"):
        if (part, config.arrangement) != ("ffn", "parallel_one_norm"):
            sizes[f"{part}_norm"] = config.hidden_size
        if part in output_norms.get(config.arrangement, ()):
            sizes[f"{part}_output_norm"] = config.hidden_size
    if layer.feed_forward.inner_norm_eps:
        sizes |= {"mixed_norm": config.hidden_size, "inner_norm": layer.feed_forward.inner}
    if normed and isinstance(layer.mixer, AttentionSpec):
        sizes |= dict.fromkeys(("query_norm", "key_norm"), layer.mixer.head_size)
    return sizes


def _each(layers: Sequence[Mapping[str, Size]]) -> dict[str, Size]:
    return {
        f"layers.{index}.{name}": size
        for index, sizes in enumerate(layers)
        for name, size in sizes.items()
    }
