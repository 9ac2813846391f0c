"""Check whether the kernels can compute a model."""

from dataclasses import replace

from embedwell_models.checkpoint.weights import Weights
from embedwell_models.config.encoder_config import EncoderConfig
from embedwell_models.config.layer_spec import (
    AttentionSpec,
    ConvolutionSpec,
    DeltaNetSpec,
    LayerSpec,
)
from embedwell_models.cpu_backend.layer_weights import NORMS
from embedwell_models.positions.schemes import (
    Alibi,
    Buckets,
    Disentangled,
    Rotary,
    Scheme,
    TransformerXL,
)


def kernels_support(config: EncoderConfig, weights: Weights) -> bool:
    """Whether the kernels can compute a model."""
    layers, usual = config.layers, config.attention
    return all(
        (
            config.hidden_size % 64 == 0,
            all(_network_fits(layer, config) for layer in layers),
            all(_mixer_fits(layer, usual, weights) for layer in layers),
            _gates_fit(config, weights),
            _tables_fit(config, weights),
            config.arrangement in NORMS,
            _has_kernel(usual.positions),
            _have_equal_rows({each.positions for each in layers if _attends(each)}),
        )
    )


def _attends(layer: LayerSpec) -> bool:
    return isinstance(layer.mixer, AttentionSpec)


def _mixer_fits(layer: LayerSpec, usual: AttentionSpec, weights: Weights) -> bool:
    attention = layer.mixer
    if isinstance(attention, DeltaNetSpec):
        return _delta_net_fits(attention)
    if not isinstance(attention, AttentionSpec):
        return isinstance(attention, ConvolutionSpec)
    size = attention.head_size
    names = (f"layers.{layer.weights}.{part}_norm.weight" for part in ("query", "key"))
    by_head = all(len(weights[name]) == size for name in names if name in weights)
    fits = size % 32 == attention.heads * size % 64 == 0 and by_head
    same = (attention.scale, attention.softcap) == (usual.scale, usual.softcap)
    even = attention.window_after in (None, attention.window)
    return fits and same and even and not attention.global_first


def _delta_net_fits(spec: DeltaNetSpec) -> bool:
    return spec.size % 32 == spec.key_size % 32 == spec.heads * spec.size % 64 == 0


def _network_fits(layer: LayerSpec, config: EncoderConfig) -> bool:
    network, usual = layer.feed_forward, config.feed_forward
    if replace(network, experts=0, top=0) != replace(usual, experts=0, top=0) or network.adapter:
        return False
    # Experts read the rows that their results are added to.
    fits = network.inner % 64 == 0 and config.arrangement == "post" and not network.gated
    return not network.experts or fits


def _tables_fit(config: EncoderConfig, weights: Weights) -> bool:
    # Narrower tables are projected after their norm (ALBERT, ELECTRA).
    if "project.weight" in weights:
        return config.norm == "layer"
    return config.embedding_size == config.hidden_size


def _gates_fit(config: EncoderConfig, weights: Weights) -> bool:
    norm = weights.get("gates_norm.weight")
    return norm is None or (len(norm) % 64 == 0 and config.arrangement == "sandwich")


def _has_kernel(scheme: Scheme) -> bool:
    return (
        type(scheme) in (Scheme, Alibi, Buckets, TransformerXL)
        or _is_rotary(scheme)
        or _has_orderly_buckets(scheme)
    )


def _is_rotary(scheme: Scheme) -> bool:
    # Dynamic scaling rotates each text differently.
    return isinstance(scheme, Rotary) and scheme.scaling.kind != "dynamic"


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
