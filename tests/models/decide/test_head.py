"""The layers of Laya's head, on random arrays."""

from collections import defaultdict
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pytest

from embedwell_decide.head import DecisionHead, load, shapes
from embedwell_models.config.model_options import ModelOptions
from embedwell_models.cpu_backend import library
from embedwell_models.description.model_description import ModelDescription
from embedwell_models.encoder.batch import Batch
from embedwell_models.encoder.encoder import Linear, LinearFactory
from embedwell_models.hub.sources import resolve
from embedwell_models.loading.backends import HostLinearFactory
from embedwell_models.loading.loaded_model import LoadedModel
from embedwell_models.vectors import Floats
from tests.models.encoder.linear_factories import FACTORIES, every_factory, numbers
from tests.models.laya_model import write_laya

WIDTH, TOKENS = 128, 70
STATES = numbers(TOKENS, WIDTH, scale=1.0)


def arrays(layers: int = 2) -> dict[str, Floats]:
    named = dict(shapes(WIDTH, layers)).items()
    return {name: numbers(*shape, seed=index) for index, (name, shape) in enumerate(named)}


def marks(*tokens: int) -> np.ndarray:
    return np.isin(np.arange(TOKENS), tokens)


@dataclass
class Counting(LinearFactory):
    """Factory that counts the rows that each of its layers reads."""

    inner: LinearFactory
    rows: dict[str, int] = field(default_factory=lambda: defaultdict(int))

    def __call__(
        self, weight: Floats, bias: Floats, activation: str = "none", *, name: str = ""
    ) -> Linear:
        linear = self.inner(weight, bias, activation, name=name)

        def run(x: Floats, residual: Floats | None = None) -> Floats:
            self.rows[name] += len(x)
            return linear(x, residual)

        return run


@every_factory
def test_the_score_of_a_marked_state_does_not_depend_on_which_others_are_marked(
    linear: LinearFactory,
) -> None:
    head = DecisionHead(arrays(), 2, linear, linear)
    whole = head(STATES, marks(*range(TOKENS)))  # every row of every layer
    for tokens in ([3], [3, 9, 40], [*range(1, TOKENS, 2)]):
        np.testing.assert_allclose(head(STATES, marks(*tokens)), whole[tokens], rtol=1e-4)


def test_the_last_layer_computes_only_the_keys_and_values_of_all_states() -> None:
    linear = Counting(FACTORIES["kernels"])
    DecisionHead(arrays(), 2, linear, linear)(STATES, marks(5, 6, 7))
    of_all = {name for name, rows in linear.rows.items() if rows == TOKENS}
    assert {rows for name, rows in linear.rows.items() if name not in of_all} == {3}
    last = {name for name in of_all if not name.startswith("head.layers.0.")}
    assert last == {"head.layers.1.self_attn.key_value"}


@pytest.mark.skipif(library.best_isa("bfloat16") is None, reason="there is no bfloat16")
def test_layers_in_bfloat16_are_close() -> None:
    fast, exact = HostLinearFactory(library.features(), "bfloat16"), FACTORIES["kernels"]
    every = marks(*range(TOKENS))
    expected = DecisionHead(arrays(), 2, exact, exact)(STATES, every)
    scores = DecisionHead(arrays(), 2, fast, exact)(STATES, every)
    assert 0 < np.linalg.norm(scores - expected) < 0.03 * np.linalg.norm(expected)


def test_the_layers_are_fast_and_the_score_is_exact(tmp_path: Path) -> None:
    folder = resolve(str(write_laya(tmp_path / "laya")), cache=tmp_path / "cache")
    options = ModelOptions(device="cpu", dtype="float32")
    model = LoadedModel.load(ModelDescription.read(folder), options)
    fast, exact = (Counting(each) for each in (model.fast_linear, model.linear))
    outputs = load(replace(model, fast_linear=fast, linear=exact))
    mask = model.tokenizer.special_id("mask")
    assert mask is not None
    outputs(Batch.of([np.array([5, mask, 7])]), [])
    assert {name.split(".")[0] for name in fast.rows} == {"head"}
    assert {name.split(".")[0] for name in exact.rows} == {"scorer"}


def test_a_row_without_marks_has_one_score_of_zero() -> None:
    linear = Counting(FACTORIES["kernels"])
    scores = DecisionHead(arrays(), 2, linear, linear)(STATES, marks())
    assert (scores.tolist(), dict(linear.rows)) == ([[0.0]], {})
