"""Estimates of the speed of a model on this machine."""

import pytest

from embedwell.cli.machine_speed import MachineSpeed
from embedwell_models.errors import ModelError

SPEED = MachineSpeed("float32", millions=(10.0, 100.0), passage=(0.01, 0.4), query=(0.001, 0.04))


@pytest.mark.parametrize(
    ("matrices", "passages", "query"),
    [(10, 100, 1), (100, 2.5, 40), (5, 200, 0.5), (1000, 0.25, 400), (31.6, 16, 6.3)],
    ids=["measured", "measured too", "smaller", "larger", "between"],
)
def test_the_time_is_proportional_to_the_matrices_beyond_the_measured_sizes(
    matrices: float, passages: float, query: float
) -> None:
    estimate = SPEED.estimate(matrices, 0)
    assert (estimate.passages_per_second, estimate.query_ms) == (passages, query)


def test_the_memory_is_that_of_a_file_of_16_bits_at_least_and_all_in_float32_at_most() -> None:
    assert SPEED.estimate(100, 20).memory_mb == (320, 600)


def test_encoders_of_each_shape_are_measured() -> None:
    speed = MachineSpeed.measure(((64, 1), (128, 2)), seconds=0)
    assert speed.millions == (0.049152, 0.393216)
    assert len(speed.passage) == len(speed.query) == 2
    assert min(*speed.passage, *speed.query) > 0


def test_a_processor_without_kernels_is_refused() -> None:
    with pytest.raises(ModelError, match="no compiled kernels for this processor"):
        MachineSpeed.measure(features=frozenset())
