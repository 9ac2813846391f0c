"""SPLADE's head on arrays, against torch."""

from typing import Literal

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from embedwell_models.cpu_backend.heads import KernelSpladeHead
from embedwell_models.cpu_backend.linear import KernelLinearFactory
from embedwell_models.cpu_backend.prepack import Packing
from embedwell_models.encoder.splade import MaskedLMWeights
from embedwell_models.families.heads import MaskedLMHead
from embedwell_models.model_files.sparse import Splade
from embedwell_models.vectors import Floats
from tests.models.built import BUILT
from tests.models.encoder.linear_factories import assert_equal, numbers

VOCABULARY, WIDTH, HIDDEN, LENGTHS = 37, 24, 48, [3, 1, 150, 64, 2]
WEIGHTS = MaskedLMWeights(
    dense=(numbers(WIDTH, HIDDEN), numbers(WIDTH, seed=2)),
    norm=(1 + numbers(WIDTH, seed=3), numbers(WIDTH, seed=4)),
    output=(numbers(VOCABULARY, WIDTH, seed=5), numbers(VOCABULARY, seed=6)),
    activation="gelu",
    eps=1e-5,
)
STATES = numbers(sum(LENGTHS), HIDDEN, seed=7, scale=1)

Pooling = Literal["max", "sum"]
ISAS = [isa for isa, dtype in (case.values for case in BUILT) if dtype == "float32"]
every_isa = pytest.mark.parametrize("isa", ISAS)
every_pooling = pytest.mark.parametrize("pooling", ["max", "sum"])


def head(isa: str, pooling: Pooling, log_twice: bool = False) -> KernelSpladeHead:
    linear = KernelLinearFactory(isa, Packing("float32"))
    names = MaskedLMHead(dense="dense", norm="norm", output="output")
    return KernelSpladeHead(Splade(names, pooling, log_twice), WEIGHTS, linear)


def by_hand(pooling: Pooling, log_twice: bool) -> Floats:
    """The weights of each text: (B, V)."""
    assert WEIGHTS.dense is not None and WEIGHTS.norm is not None
    parts = (*WEIGHTS.dense, *WEIGHTS.norm, *WEIGHTS.output)
    dense, dense_bias, scale, shift, output, bias = (torch.from_numpy(p).double() for p in parts)
    x = F.gelu(F.linear(torch.from_numpy(STATES).double(), dense, dense_bias))
    logits = F.linear(F.layer_norm(x, (WIDTH,), scale, shift, WEIGHTS.eps), output, bias)
    weights = logits.relu().log1p()
    weights = weights.log1p() if log_twice else weights
    texts = torch.split(weights, LENGTHS)
    pooled = [text.amax(0) if pooling == "max" else text.sum(0) for text in texts]
    result: Floats = torch.stack(pooled).numpy()
    return result


@every_isa
@every_pooling
@pytest.mark.parametrize("log_twice", [False, True])
def test_weights_are_those_of_the_formula(pooling: Pooling, log_twice: bool, isa: str) -> None:
    whole = head(isa, pooling, log_twice)
    assert whole.vocab_size == VOCABULARY
    assert_equal(whole(STATES, LENGTHS), by_hand(pooling, log_twice))


@every_isa
@every_pooling
def test_a_text_has_the_same_bytes_alone_and_among_others(pooling: Pooling, isa: str) -> None:
    whole, texts = head(isa, pooling), np.split(STATES, np.cumsum(LENGTHS)[:-1])
    alone = np.concatenate([whole(text, [len(text)]) for text in texts])
    assert whole(STATES, LENGTHS).tobytes() == alone.tobytes()


@every_isa
@every_pooling
@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan])
def test_only_a_text_with_states_that_are_not_finite_has_no_finite_weights(
    pooling: Pooling, value: float, isa: str
) -> None:
    states = STATES.copy()
    states[10, 0] = value
    found = np.isnan(head(isa, pooling)(states, LENGTHS))
    assert found[2].all() and not found[[0, 1, 3, 4]].any()
