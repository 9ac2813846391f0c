"""Tests of the layer of an LSTM compared with torch's own."""

import torch
from torch import Tensor, nn

from embedwell_classic.encoders.lstm import LstmLayer, sigmoid, time_steps
from embedwell_models.cpu_backend import library
from embedwell_models.torch_backend.linear_adapters import row_exact_linear_factory

LENGTHS = [3, 40, 1, 17, 16, 33, 16, 2]


def layer(lstm: nn.LSTM) -> LstmLayer:
    parts = {name.removesuffix("_l0"): part.data for name, part in lstm.named_parameters()}
    weights = {"input.weight": parts["weight_ih"], "recurrent.weight": parts["weight_hh"]}
    weights |= {"input.bias": parts["bias_ih"] + parts["bias_hh"]}
    return LstmLayer(weights, row_exact_linear_factory(library.features()))


def inputs(width: int) -> Tensor:
    return torch.randn(sum(LENGTHS), width, generator=torch.Generator().manual_seed(3))


@torch.inference_mode()
def test_a_sequence_has_torchs_states_and_the_same_bits_in_every_batch() -> None:
    lstm = nn.LSTM(7, 13)
    for parameter in lstm.parameters():
        parameter.normal_(0.0, 0.3, generator=torch.Generator().manual_seed(7))
    ours, x = layer(lstm), inputs(7)
    together = torch.split(ours(x, time_steps(LENGTHS, backward=False)), LENGTHS)
    for states, sequence in zip(together, torch.split(x, LENGTHS), strict=True):
        torch.testing.assert_close(states, lstm(sequence)[0], atol=1e-6, rtol=0)
        alone = ours(sequence, time_steps([len(sequence)], backward=False))
        assert torch.equal(states, alone)


def test_steps_read_the_longest_sequence_first() -> None:
    forward, backward = (time_steps([1, 3, 2], flag) for flag in (False, True))
    assert [rows.tolist() for rows in forward] == [[1, 4, 0], [2, 5], [3]]
    assert [rows.tolist() for rows in backward] == [[3, 5, 0], [2, 4], [1]]


def test_a_sigmoid_has_the_same_bits_wherever_it_is() -> None:
    x = 3 * torch.randn(2000, generator=torch.Generator().manual_seed(3))
    whole = sigmoid(x)
    torch.testing.assert_close(whole, x.sigmoid(), atol=1e-6, rtol=0)
    for start in range(500):
        count = 1 + start % 37
        assert torch.equal(sigmoid(x[start : start + count].clone()), whole[start : start + count])
