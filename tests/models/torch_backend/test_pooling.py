"""Tests of pooling, mode by mode."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch
from numpy.testing import assert_allclose
from torch.utils._python_dispatch import TorchDispatchMode

from embedwell_models.config.model_options import MODES
from embedwell_models.model_files.vector_recipe import VectorRecipe
from embedwell_models.torch_backend.pooling import POOLINGS, pool
from embedwell_models.torch_backend.sequence_layout import SequenceLayout
from tests.models.meta import META, OnDevice

CPU = torch.device("cpu")
LENGTHS = [3, 1, 8]
Floats = npt.NDArray[np.float32]
PACKING = SequenceLayout(LENGTHS, CPU)
HIDDEN = torch.randn(PACKING.rows, 5, generator=torch.Generator().manual_seed(1))


def by_hand(mode: str, states: Floats, prompt_token_count: int = 0) -> Floats:
    """Pool one sequence (length, D) without its first rows, by the definition of the mode."""
    count = np.arange(prompt_token_count + 1, len(states) + 1)[:, None]
    states = states[prompt_token_count:]
    results = {
        "cls": states[0],
        "max": states.max(axis=0),
        "mean": states.sum(axis=0) / len(states),
        "mean_sqrt_len_tokens": states.sum(axis=0) / np.sqrt(len(states)),
        "weightedmean": (states * count).sum(axis=0) / count.sum(),
        "lasttoken": states[-1],
    }
    return np.asarray(results[mode], dtype=np.float32)


def sequences() -> list[Floats]:
    return np.split(HIDDEN[: PACKING.tokens].numpy(), np.cumsum(LENGTHS)[:-1])


@pytest.mark.parametrize("mode", POOLINGS)
def test_a_pooling_is_its_definition_in_each_sequence(mode: str) -> None:
    pooled = pool(HIDDEN, PACKING, [mode]).numpy()
    assert pooled.shape == (3, 5)
    for row, states in zip(pooled, sequences(), strict=True):
        assert_allclose(row, by_hand(mode, states), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("prompt_token_counts", [[2, 0, 3], [0, 0, 7]], ids=str)
@pytest.mark.parametrize("mode", POOLINGS)
def test_the_first_rows_of_a_sequence_can_be_left_out_and_the_others_keep_their_places(
    mode: str, prompt_token_counts: list[int]
) -> None:
    layout = SequenceLayout(LENGTHS, CPU, skipped=prompt_token_counts)
    pooled = pool(HIDDEN, layout, [mode]).numpy()
    for row, states, prompt_token_count in zip(
        pooled, sequences(), prompt_token_counts, strict=True
    ):
        assert_allclose(row, by_hand(mode, states, prompt_token_count), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("mode", POOLINGS)
def test_a_text_of_which_nothing_is_left_has_the_zero_vector(mode: str) -> None:
    some, nothing = (
        SequenceLayout([2, 3, 1], CPU, skipped=skipped) for skipped in ([2, 1, 4], [2, 3, 1])
    )
    hidden = torch.ones(some.rows, 5)
    pooled = pool(hidden, some, [mode])
    assert pooled[[0, 2]].eq(0).all() and pooled[1].gt(0).all()
    assert pool(hidden, nothing, [mode]).eq(0).all()


@pytest.mark.parametrize("mode", POOLINGS)
def test_the_rows_after_the_last_token_are_never_pooled(mode: str) -> None:
    layout = SequenceLayout([3, 2], CPU)
    hidden = torch.full((layout.rows, 5), float("nan"))
    hidden[: layout.tokens] = 1.0
    assert layout.rows > layout.tokens
    assert torch.isfinite(pool(hidden, layout, [mode])).all()


@pytest.mark.parametrize("mode", POOLINGS)
@pytest.mark.parametrize("prompt_token_counts", [[0, 0, 0], [2, 0, 9]], ids=str)
def test_a_pooling_needs_to_know_nothing_that_the_device_has_computed(
    mode: str, prompt_token_counts: list[int]
) -> None:
    layout = SequenceLayout(LENGTHS, META, skipped=prompt_token_counts)
    hidden, _ = HIDDEN.to(META), layout.memory
    with OnDevice():  # type: ignore[no-untyped-call]
        pooled = pool(hidden, layout, [mode])
    assert pooled.device == META and pooled.shape == (3, 5)


def test_several_poolings_stand_side_by_side_in_the_order_given() -> None:
    both = pool(HIDDEN, PACKING, ["mean", "cls"])
    expected = [pool(HIDDEN, PACKING, [mode]) for mode in ("mean", "cls")]
    assert torch.equal(both, torch.cat(expected, dim=1))


def test_states_of_low_precision_are_pooled_in_float32() -> None:
    length = 300
    layout = SequenceLayout([length], CPU)
    hidden = torch.ones(layout.rows, 4, dtype=torch.bfloat16)
    for mode in ("mean", "weightedmean"):
        pooled = pool(hidden, layout, [mode])
        assert pooled.dtype == torch.float32
        assert_allclose(pooled.numpy(), 1.0, rtol=1e-6)


def test_every_name_that_a_config_may_give_is_implemented() -> None:
    assert set(MODES) == set(POOLINGS)
    assert set(VectorRecipe(max_length=1).pooling) <= set(POOLINGS)


class Conversions(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Mode that counts the rows that are converted to float32."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.rows = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        found = func(*args, **(kwargs or {}))
        if func is torch.ops.aten._to_copy.default and found.dtype == torch.float32:
            self.rows += len(found)
        return found


@pytest.mark.parametrize("prompt_token_counts", [[0, 0, 0], [2, 0, 9]], ids=str)
@pytest.mark.parametrize(
    ("modes", "rows"), [(["cls"], 3), (["lasttoken"], 3), (["cls", "lasttoken"], 6)], ids=str
)
def test_only_rows_that_are_read_are_converted(
    modes: list[str], rows: int, prompt_token_counts: list[int]
) -> None:
    layout = SequenceLayout(LENGTHS, CPU, skipped=prompt_token_counts)
    exact = HIDDEN.to(torch.bfloat16)
    with Conversions() as conversions:
        pooled = pool(exact, layout, modes)
    assert conversions.rows == rows
    assert torch.equal(pooled, pool(exact.float(), layout, modes))


@pytest.mark.parametrize("mode", POOLINGS)
def test_texts_without_tokens_have_the_zero_vector(mode: str) -> None:
    layout = SequenceLayout([0, 0], CPU)
    assert pool(torch.empty(0, 5), layout, [mode]).eq(0).all()
