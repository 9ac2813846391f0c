"""Tests of the shape of an encoder."""

from dataclasses import replace
from typing import Any

import pytest

from embedwell_models.config.encoder_config import EncoderConfig
from embedwell_models.config.layer_spec import AttentionSpec
from embedwell_models.positions.schemes import Learned, Rotary, Scaling, Sinusoidal, TransformerXL
from tests.models.config.shape import shape


def attentions(config: EncoderConfig) -> list[AttentionSpec]:
    mixers = [layer.mixer for layer in config.layers]
    return [mixer for mixer in mixers if isinstance(mixer, AttentionSpec)]


def windows(config: EncoderConfig) -> list[int | None]:
    return [attention.window for attention in attentions(config)]


def sizes(config: EncoderConfig) -> list[tuple[int, int, int]]:
    return [(each.heads, each.kv_heads, each.head_size) for each in attentions(config)]


def test_sizes_that_are_not_told_are_the_common_ones() -> None:
    config = shape()
    assert (config.attention.head_size, config.attention.kv_heads) == (12, 4)
    assert config.attention.scale == 12**-0.5
    assert config.embedding_size == 48
    assert [layer.weights for layer in config.layers] == [0, 1, 2]
    assert windows(config) == [None, None, None]


def test_sizes_that_are_told_stay() -> None:
    config = shape(head_size=16, num_kv_heads=2, embedding_size=8, scale=1.0)
    assert (config.attention.head_size, config.attention.kv_heads) == (16, 2)
    assert (config.attention.scale, config.embedding_size) == (1.0, 8)


def test_a_width_that_does_not_divide_into_heads_is_refused() -> None:
    with pytest.raises(ValueError, match="5 heads do not divide hidden_size 48"):
        shape(num_heads=5)


def test_a_width_need_not_divide_where_the_size_of_a_head_is_told() -> None:
    assert shape(num_heads=5, num_kv_heads=5, head_size=8).attention.head_size == 8


def test_heads_that_do_not_divide_among_those_of_keys_are_refused() -> None:
    with pytest.raises(ValueError, match="3 key heads do not divide 4 heads"):
        shape(num_kv_heads=3)


@pytest.mark.parametrize(
    ("different", "parts"),
    [
        ({}, ("token",)),
        ({"input_positions": Learned()}, ("token", "position")),
        ({"input_positions": Sinusoidal()}, ("token", "position")),
        ({"input_positions": Learned(), "segments": True}, ("token", "position", "segment")),
        ({"positions": Rotary(dim=4), "segments": True}, ("token", "segment")),
    ],
)
def test_the_parts_of_the_input_are_those_that_are_added(
    different: dict[str, Any], parts: tuple[str, ...]
) -> None:
    assert shape(**different).input_parts == parts


def test_a_layer_that_sees_only_near_tokens_may_have_a_scheme_of_its_own() -> None:
    whole, near = Rotary(dim=4, base=160_000.0), Rotary(dim=4)
    config = shape(positions=whole, local={"positions": near}, windows=(None, 5, 5))
    assert [layer.positions for layer in config.layers] == [whole, near, near]
    assert windows(config) == [None, 5, 5]


def test_without_one_all_layers_share_theirs() -> None:
    config = shape(positions=Rotary(dim=4), windows=(None, 5, 5))
    assert {layer.positions for layer in config.layers} == {Rotary(dim=4)}


def test_a_layer_that_sees_only_near_tokens_may_have_heads_of_its_own() -> None:
    wide = {"head_size": 32, "num_kv_heads": 1, "windows": (None, 5, 5)}
    config = shape(**wide, local={"head_size": 16, "kv_heads": 2})
    assert sizes(config) == [(4, 1, 32), (4, 2, 16), (4, 2, 16)]
    assert sizes(shape(**wide)) == [(4, 1, 32)] * 3
    with pytest.raises(ValueError, match="3 key heads do not divide 4 heads"):
        shape(**wide, local={"kv_heads": 3})


def test_windows_are_as_many_as_layers() -> None:
    with pytest.raises(ValueError, match="shorter"):
        shape().with_windows([5, 5])


def test_a_model_without_attention_has_one_head_of_its_width() -> None:
    config = replace(shape(), layers=())
    assert (config.attention.heads, config.attention.head_size) == (1, 48)
    assert config.feed_forward.inner == config.num_layers == config.min_tokens == 0


@pytest.mark.parametrize(
    ("different", "message"),
    [
        ({"positions": Rotary(dim=9), "head_size": 9}, "9 features in heads of 9"),
        ({"positions": Rotary(dim=3)}, "3 features in heads of 12"),
        ({"positions": Rotary(dim=0)}, "an even number of at least 2"),
        ({"positions": Rotary(dim=14)}, "at most the size of a head"),
        (
            {"positions": Rotary(dim=2, scaling=Scaling(kind="dynamic"))},
            "an even number of at least 4",
        ),
        ({"positions": Rotary(dim=12, frequencies=(1.0, 0.1))}, "12 features in each head need 6"),
        (
            {"local": {"positions": Rotary(dim=8), "head_size": 6}, "windows": (2, 2, None)},
            "8 features in heads of 6",
        ),
        (
            {"positions": TransformerXL(), "hidden_size": 45, "num_heads": 3},
            "hidden_size 45 is odd",
        ),
    ],
)
def test_features_that_are_not_pairs_are_refused(different: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        shape(**different)


def test_a_scheme_of_near_tokens_counts_the_features_of_their_heads() -> None:
    local = {"positions": Rotary(dim=6), "head_size": 6}
    config = shape(positions=Rotary(dim=12), local=local, windows=(2, 2, None))
    assert config.layers[0].positions == Rotary(dim=6)
