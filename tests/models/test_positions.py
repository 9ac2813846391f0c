"""Tests of the position schemes."""

import torch

from models.positions import Learned, Positions


def test_a_scheme_without_hooks_changes_nothing() -> None:
    hidden, qkv, positions = torch.randn(5, 8), torch.randn(5, 3, 2, 4), torch.arange(5)
    scheme = Positions()
    assert scheme.embed(hidden, positions) is hidden
    assert scheme.rotate(qkv, positions) is qkv
    assert scheme.bias(5) is None


def test_learned_positions_add_their_row_and_the_constant() -> None:
    table, constant, hidden = torch.randn(10, 8), torch.randn(8), torch.randn(4, 8)
    positions = torch.tensor([0, 1, 9, 0])
    added = Learned(table, constant).embed(hidden, positions) - hidden
    torch.testing.assert_close(added, table[positions] + constant)


def test_learned_positions_leave_attention_alone() -> None:
    qkv, scheme = torch.randn(5, 3, 2, 4), Learned(torch.randn(10, 8), torch.randn(8))
    assert scheme.rotate(qkv, torch.arange(5)) is qkv
    assert scheme.bias(5) is None
