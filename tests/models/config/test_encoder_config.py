"""Tests of the shape of an encoder."""

from typing import Any

import pytest

from embedwell_models.config.encoder_config import Heads
from embedwell_models.positions.schemes import Learned, Rotary, Sinusoidal
from tests.models.config.shape import shape


def test_sizes_that_are_not_told_are_the_common_ones() -> None:
    config = shape()
    assert (config.head_size, config.num_kv_heads, config.embedding_size) == (12, 4, 48)
    assert config.scale == 12**-0.5
    assert config.distinct_layers == 3
    assert config.windows == (None, None, None)


def test_sizes_that_are_told_stay() -> None:
    config = shape(head_size=16, num_kv_heads=2, embedding_size=8, scale=1.0, distinct_layers=1)
    assert (config.head_size, config.num_kv_heads, config.embedding_size) == (16, 2, 8)
    assert (config.scale, config.distinct_layers) == (1.0, 1)


def test_a_width_that_does_not_divide_into_heads_is_refused() -> None:
    with pytest.raises(ValueError, match="5 heads do not divide hidden_size 48"):
        shape(num_heads=5)


def test_a_width_need_not_divide_where_the_size_of_a_head_is_told() -> None:
    assert shape(num_heads=5, num_kv_heads=5, head_size=8).head_size == 8


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
    config = shape(positions=whole, local_positions=near, windows=(None, 5, 5))
    assert [config.scheme(i) for i in range(3)] == [whole, near, near]


def test_without_one_all_layers_share_theirs() -> None:
    config = shape(positions=Rotary(dim=4), windows=(None, 5, 5))
    assert {config.scheme(i) for i in range(3)} == {Rotary(dim=4)}


def test_a_layer_that_sees_only_near_tokens_may_have_heads_of_its_own() -> None:
    wide = {"head_size": 32, "num_kv_heads": 1, "windows": (None, 5, 5)}
    config = shape(**wide, local_head_size=16, local_kv_heads=2)
    assert [config.heads(i) for i in range(3)] == [Heads(4, 1, 32), *[Heads(4, 2, 16)] * 2]
    assert {shape(**wide).heads(i) for i in range(3)} == {Heads(4, 1, 32)}
    with pytest.raises(ValueError, match="3 key heads do not divide 4 heads"):
        shape(**wide, local_kv_heads=3)
