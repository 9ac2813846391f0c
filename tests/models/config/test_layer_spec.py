"""Tests of the record of a layer."""

import pytest

from embedwell_models.config.layer_spec import (
    AttentionSpec,
    ConvolutionSpec,
    FeedForwardSpec,
    LayerSpec,
)

ATTENTION = AttentionSpec(heads=4, kv_heads=2, head_size=8, scale=1.0)
CONVOLUTION, NETWORK = ConvolutionSpec(width=3), FeedForwardSpec(inner=20)
MIXTURE = FeedForwardSpec(inner=20, experts=5, top=2)
NAMES = {  # a tensor of each part
    "query": {"attention"},
    "key_norm": {"attention"},
    "convolution": {"convolution"},
    "up": {"network"},
    "experts_down": {"mixture"},
    "ffn_norm": {"attention", "convolution", "network", "mixture"},
}


@pytest.mark.parametrize(
    ("layer", "parts"),
    [
        (LayerSpec(weights=0, mixer=ATTENTION, feed_forward=NETWORK), {"attention", "network"}),
        (LayerSpec(weights=0, mixer=CONVOLUTION, feed_forward=NETWORK), {"convolution", "network"}),
        (LayerSpec(weights=0, mixer=ATTENTION, feed_forward=MIXTURE), {"attention", "mixture"}),
    ],
    ids=["plain", "convolution", "experts"],
)
def test_a_layer_has_the_tensors_of_its_parts(layer: LayerSpec, parts: set[str]) -> None:
    for name, owners in NAMES.items():
        assert layer.has(f"{name}.weight") == bool(owners & parts), name


def test_a_layer_has_the_norm_of_its_attention_unless_it_says_otherwise() -> None:
    assert LayerSpec(weights=0).has("attention_norm.weight")
    assert not LayerSpec(weights=0, attention_norm=False).has("attention_norm.bias")
    assert LayerSpec(weights=0, attention_norm=False).has("attention_output_norm.bias")


def test_a_layer_of_another_kind_has_tensors_of_any_other_name() -> None:
    assert LayerSpec(weights=0).has("forward.input.weight")


def test_every_matrix_is_a_tensor_of_its_part() -> None:
    for part in (ATTENTION, CONVOLUTION, NETWORK, FeedForwardSpec(inner=1, gated=True), MIXTURE):
        assert {*part.matrices(48)} <= {*part.tensors}


def test_matrices_have_the_shapes_of_heads_and_networks() -> None:
    gated = FeedForwardSpec(inner=20, gated=True)
    assert LayerSpec(weights=0, mixer=ATTENTION, feed_forward=gated).matrices(48) == {
        "query": (32, 48),
        "key": (16, 48),
        "value": (16, 48),
        "output": (48, 32),
        "gate": (20, 48),
        "up": (20, 48),
        "down": (48, 20),
    }
    assert MIXTURE.matrices(48)["experts_up"] == (100, 48)
    assert CONVOLUTION.matrices(48)["convolution_input"] == (144, 48)
