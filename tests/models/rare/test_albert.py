"""Tests of ALBERT against transformers."""

from pathlib import Path

import pytest
from transformers import AlbertForMaskedLM

from embedwell_models import families
from tests.models.families.checkpoint import Case, assert_equal_states, assert_same_bits, write
from tests.models.families.files import assert_refused, edit, loaded

CASES = [
    *(
        Case("albert", {"embedding_size": 32, "hidden_act": name})
        for name in ("gelu", "gelu_new", "relu", "silu", "quick_gelu")
    ),
    Case("albert", {"embedding_size": 64, "layer_norm_eps": 0.05}),
    Case("albert", {"embedding_size": 32, "num_hidden_layers": 6, "num_hidden_groups": 2}),
    Case("albert", {"num_hidden_layers": 5, "num_hidden_groups": 3}),
    Case("albert", {"num_hidden_groups": 3}, model=AlbertForMaskedLM),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_every_layer_equals_transformers(case: Case, tmp_path: Path) -> None:
    assert_equal_states(write(case, tmp_path), tmp_path)


def test_a_text_is_the_same_bits_in_every_batch(tmp_path: Path) -> None:
    write(CASES[-1], tmp_path)
    assert_same_bits(tmp_path)


def test_layers_share_the_weights_of_their_group(tmp_path: Path) -> None:
    write(Case("albert", {"num_hidden_layers": 6, "num_hidden_groups": 2}), tmp_path)
    layers = {name.split(".")[1] for name in loaded(tmp_path) if name.startswith("layers.")}
    assert layers == {"0", "1"}


def test_the_activation_is_gelu_new_where_none_is_given(tmp_path: Path) -> None:
    write(Case("albert"), tmp_path)
    edit(tmp_path, "hidden_act")
    assert families.read(tmp_path).config.feed_forward.activation == "gelu_tanh"


def test_other_positions_and_groups_of_several_are_refused(tmp_path: Path) -> None:
    write(Case("albert"), tmp_path)
    assert_refused(tmp_path, position_embedding_type="relative_key", inner_group_num=2)
