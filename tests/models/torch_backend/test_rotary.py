"""Rotary positions on any device, against other implementations."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor
from transformers.models.gptj.modeling_gptj import apply_rotary_pos_emb as turned_by_gptj
from transformers.models.llama.modeling_llama import apply_rotary_pos_emb as turned_by_llama

from embedwell_models.positions import schemes, tables
from embedwell_models.positions.schemes import Scaling
from embedwell_models.torch_backend.rotary import Rotary
from embedwell_models.torch_backend.sequence_layout import SequenceLayout

CPU = torch.device("cpu")
SCALINGS = [
    Scaling(),
    Scaling(kind="linear", factor=4.0),
    Scaling(kind="dynamic", factor=4.0, original=20),
    Scaling(kind="yarn", factor=4.0, original=20, magnitude=1.2),
    Scaling(kind="llama3", factor=8.0, original=20, fast=4.0, slow=1.0),
]
LONGROPE = Scaling(kind="longrope", original=20, short=(1.0,) * 8, long=(2.0, 4.0) * 4)


def random(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape)))


def turn(scheme: schemes.Rotary, query: Tensor, key: Tensor) -> tuple[Tensor, Tensor]:
    """Rotate queries and keys (T, H, Dh) of one text."""
    layout = SequenceLayout([len(query)], CPU)
    filling = query.new_zeros(layout.rows - len(query), *query.shape[1:])
    hooks = Rotary(scheme)
    found = (hooks.rotate(torch.cat([part, filling]), layout) for part in (query, key))
    turned_query, turned_key = (part[: len(query)] for part in found)
    return turned_query, turned_key


@pytest.mark.parametrize("scaling", SCALINGS, ids=lambda scaling: scaling.kind)
@pytest.mark.parametrize("interleaved", [True, False])
@pytest.mark.parametrize("dim", [16, 8])
def test_rotary_scores_depend_on_the_offset_alone(
    scaling: Scaling, interleaved: bool, dim: int
) -> None:
    scheme = schemes.Rotary(dim=dim, interleaved=interleaved, scaling=scaling)
    query, key = (part.expand(40, 2, 16) for part in (random(2, 16), random(1, 2, 16)))
    query, key = turn(scheme, query, key)
    scores = torch.einsum("qhd,khd->hqk", query, key)
    torch.testing.assert_close(scores[:, 1:, 1:], scores[:, :-1, :-1], atol=1e-4, rtol=0)
    assert (scores[:, 0, 1] - scores[:, 1, 0]).abs().max() > 1e-2  # and on its direction


def test_interleaved_pairs_are_those_of_gptj() -> None:
    query, key = random(9, 2, 16), random(9, 2, 16) + 1
    cos, sin = (
        torch.from_numpy(part)[None] for part in tables.rotary(np.arange(9), schemes.Rotary(dim=8))
    )
    ours = turn(schemes.Rotary(dim=8, interleaved=True), query, key)
    for found, given in zip(ours, (query, key), strict=True):
        expected = turned_by_gptj(given[None, :, :, :8], sin, cos)[0]
        torch.testing.assert_close(found[..., :8], expected)
        assert torch.equal(found[..., 8:], given[..., 8:])


def test_pairs_of_the_two_halves_are_those_of_llama() -> None:
    query, key, scheme = random(9, 2, 16), random(9, 2, 16) + 1, schemes.Rotary(dim=16)
    cos, sin = (
        torch.from_numpy(part).repeat(1, 2)[None] for part in tables.rotary(np.arange(9), scheme)
    )
    expected = turned_by_llama(query[None], key[None], cos, sin, unsqueeze_dim=2)
    for found, known in zip(turn(scheme, query, key), expected, strict=True):
        torch.testing.assert_close(found, known[0])


def test_a_magnitude_multiplies_what_is_turned() -> None:
    query, scheme = random(9, 2, 16), schemes.Rotary(dim=16)
    larger = replace(scheme, scaling=Scaling(magnitude=1.5))
    torch.testing.assert_close(turn(larger, query, query)[0], 1.5 * turn(scheme, query, query)[0])


@pytest.mark.parametrize("scaling", [SCALINGS[2], LONGROPE], ids=lambda scaling: scaling.kind)
def test_the_text_s_own_length_decides_how_angles_are_stretched(scaling: Scaling) -> None:
    scheme = schemes.Rotary(dim=16, scaling=scaling)
    texts = [random(length, 2, 16) for length in (20, 40)]
    layout = SequenceLayout([20, 40], CPU)
    rows = torch.cat([*texts, random(layout.rows - 60, 2, 16)])
    together = torch.split(Rotary(scheme).rotate(rows, layout)[:60], [20, 40])
    for text, among in zip(texts, together, strict=True):
        assert torch.equal(turn(scheme, text, text)[0], among)
    plain = replace(scheme, scaling=Scaling())
    assert torch.equal(turn(plain, texts[0], texts[0])[0], together[0])
    assert not torch.allclose(turn(plain, texts[1], texts[1])[0], together[1])
