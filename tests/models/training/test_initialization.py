"""The scale of random numbers, by definition."""

import math

import pytest
from torch import nn

from embedwell_models.training.initialization import INITIALIZATIONS, Initialization, initialize

ROWS, WIDTH, OUTPUTS = 600, 200, 300
# Standard deviations of a table and of a matrix from WIDTH to OUTPUTS.
DEVIATIONS: dict[Initialization, tuple[float, float]] = {
    "normal": (0.02, 0.02),
    "scaled": (1 / math.sqrt(WIDTH), 1 / math.sqrt(WIDTH)),
    "uniform": (0.2 / math.sqrt(12), 0.2 / math.sqrt(12)),
    "xavier": (math.sqrt(2 / (ROWS + WIDTH)), math.sqrt(2 / (OUTPUTS + WIDTH))),
    "he": (math.sqrt(2 / WIDTH), math.sqrt(2 / WIDTH)),
}


@pytest.mark.parametrize("name", INITIALIZATIONS)
def test_matrices_and_tables_have_the_deviation_of_the_formula(name: Initialization) -> None:
    table, linear = nn.Embedding(ROWS, WIDTH, padding_idx=0), nn.Linear(WIDTH, OUTPUTS)
    norm = nn.LayerNorm(WIDTH)
    nn.init.constant_(norm.weight, 3)
    initialize(nn.Sequential(table, linear, norm), name)
    deviations = table.weight[1:].std().item(), linear.weight.std().item()
    assert deviations == pytest.approx(DEVIATIONS[name], rel=0.02)
    assert abs(linear.weight.mean().item()) < 0.01
    assert not linear.bias.any() and not norm.bias.any() and not table.weight[0].any()
    assert (norm.weight == 1).all()
