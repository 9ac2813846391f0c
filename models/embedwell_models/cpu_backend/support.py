"""Check whether the kernels can compute a model."""

from collections.abc import Iterator
from dataclasses import replace

from embedwell_models.checkpoint.weights import Weights
from embedwell_models.config.encoder_config import EncoderConfig
from embedwell_models.config.layer_spec import (
    AttentionSpec,
    ConvolutionSpec,
    DeltaNetSpec,
    LayerSpec,
)
from embedwell_models.cpu_backend.head_padding import TILE, padded_size
from embedwell_models.cpu_backend.layer_weights import NORMS
from embedwell_models.positions.schemes import (
    Alibi,
    Buckets,
    Disentangled,
    Rotary,
    Scheme,
    TransformerXL,
)


def why_unsupported(config: EncoderConfig, weights: Weights) -> str:
    """Return why the kernels cannot compute a model; "" if they can."""
    return next(filter(None, _reasons(config, weights)), "")


def _reasons(config: EncoderConfig, weights: Weights) -> Iterator[str]:
    """Yield what has no kernel, and "" for what has one."""
    layers, usual = config.layers, config.attention
    yield _unless_multiple(64, "hidden_size", config.hidden_size)
    for layer in layers:
        yield _reason_of_network(layer, config)
        yield _reason_of_mixer(layer, usual, weights)
    yield _reason_of_gates(config, weights)
    if not _tables_fit(config, weights):
        yield "its tables are not as wide as its layers"
    if config.arrangement not in NORMS:
        yield f"there is no kernel for the arrangement {config.arrangement} of norms"
    if not _has_kernel(usual.positions):
        yield "there is no kernel for its positions"
    if not _have_equal_rows({each.positions for each in layers if _attends(each)}):
        yield "positions differ between layers"


def _unless_multiple(divisor: int, name: str, size: int) -> str:
    return f"{name} is {size}, not a multiple of {divisor}" if size % divisor else ""


def _attends(layer: LayerSpec) -> bool:
    return isinstance(layer.mixer, AttentionSpec)


def _reason_of_mixer(layer: LayerSpec, usual: AttentionSpec, weights: Weights) -> str:
    mixer = layer.mixer
    if isinstance(mixer, DeltaNetSpec):
        return (
            _unless_multiple(32, "the width of a value of linear attention", mixer.size)
            or _unless_multiple(32, "the width of a key of linear attention", mixer.key_size)
            or _unless_multiple(64, "the width of all values of linear attention", mixer.sizes[2])
        )
    if isinstance(mixer, AttentionSpec):
        return _reason_of_attention(mixer, usual) or _reason_of_norms(layer, mixer, weights)
    return (
        "" if isinstance(mixer, ConvolutionSpec) else "there is no kernel for a kind of its layers"
    )


def _reason_of_attention(attention: AttentionSpec, usual: AttentionSpec) -> str:
    if (attention.scale, attention.softcap) != (usual.scale, usual.softcap):
        return "the scale or softcap of attention differs between layers"
    if attention.window_after not in (None, attention.window):
        return "a window of attention has two sizes"
    if attention.global_first:
        return "the first token has an attention of its own"
    size = padded_size(attention)
    return _unless_multiple(TILE, "the width of a head", size) or _unless_multiple(
        64, "the width of all heads", attention.heads * size
    )


def _reason_of_norms(layer: LayerSpec, attention: AttentionSpec, weights: Weights) -> str:
    names = (f"layers.{layer.weights}.{part}_norm.weight" for part in ("query", "key"))
    widths = [len(weights[name]) for name in names if name in weights]
    if any(width != attention.head_size for width in widths):
        return "a norm of queries or keys is of all heads together"
    return _unless_multiple(
        TILE, "the width of a normed head", attention.head_size if widths else 0
    )


def _reason_of_network(layer: LayerSpec, config: EncoderConfig) -> str:
    network, usual = layer.feed_forward, config.feed_forward
    if replace(network, experts=0, top=0) != replace(usual, experts=0, top=0):
        return "feed-forward networks differ between layers"
    if network.adapter:
        return "layers have adapters"
    if not network.experts:
        return ""
    # Experts read the rows that their results are added to.
    if config.arrangement != "post" or network.gated:
        return "experts are gated, or have a norm before them"
    return _unless_multiple(64, "the inner width of experts", network.inner)


def _tables_fit(config: EncoderConfig, weights: Weights) -> bool:
    # Narrower tables are projected after their norm (ALBERT, ELECTRA).
    if "project.weight" in weights:
        return config.norm == "layer"
    return config.embedding_size == config.hidden_size


def _reason_of_gates(config: EncoderConfig, weights: Weights) -> str:
    norm = weights.get("gates_norm.weight")
    if norm is None:
        return ""
    if config.arrangement != "sandwich":
        return "layers with inputs of their own have other norms"
    return _unless_multiple(64, "the width of the layers' own inputs", len(norm))


def _has_kernel(scheme: Scheme) -> bool:
    # Dynamic scaling rotates each text differently.
    return (
        type(scheme) in (Scheme, Alibi, Buckets, TransformerXL)
        or (isinstance(scheme, Rotary) and scheme.scaling.kind != "dynamic")
        or _has_orderly_buckets(scheme)
    )


def _has_orderly_buckets(scheme: Scheme) -> bool:
    # With a last bucket below the exact ones, further distances have lower buckets.
    if not isinstance(scheme, Disentangled):
        return False
    return not scheme.buckets or 1 <= scheme.buckets // 2 < scheme.max_distance - 1


def _have_equal_rows(schemes: set[Scheme]) -> bool:
    # LongRoPE's row of a token depends on the original length; a token has one row for all layers.
    return len(schemes) < 2 or all(
        isinstance(scheme, Rotary) and scheme.scaling.kind not in ("dynamic", "longrope")
        for scheme in schemes
    )
