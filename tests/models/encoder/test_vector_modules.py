"""The modules after an encoder, against torch."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from safetensors.numpy import save_file
from torch import Tensor

from embedwell_models.checkpoint.weights import Weights
from embedwell_models.encoder.encoder import LinearFactory
from embedwell_models.encoder.vector_modules import VectorHead, load_transform, sigmoid
from embedwell_models.errors import ModelError
from embedwell_models.model_files.vector_modules import (
    ACTIVATIONS,
    Dense,
    LayerNorm,
    LogitScore,
    Module,
    Normalize,
    TanhInt8,
    Truncate,
)
from tests.models.encoder.linear_factories import FACTORIES, assert_equal, every_factory, numbers

WIDTH, NARROW, VOCABULARY = 48, 9, 11
TABLE = "lm_head.weight"
Tensors = dict[str, Tensor]
Reference = Callable[[Tensor, Tensors], Tensor]
"""A module as torch computes it for one vector."""


def dense(outputs: int, activation: str, *, bias: bool = True, residual: bool = False) -> Dense:
    return Dense(
        path="dense",
        inputs=WIDTH,
        outputs=outputs,
        bias=bias,
        activation=activation,
        residual=residual,
    )


def of_dense(module: Dense) -> Reference:
    def apply(x: Tensor, tensors: Tensors) -> Tensor:
        product = F.linear(x, tensors["linear.weight"], tensors.get("linear.bias"))
        y: Tensor = getattr(torch.nn, module.activation)()(product)
        if not module.residual:
            return y
        matrix = tensors.get("residual.weight")
        return y + (x if matrix is None else F.linear(x, matrix))

    return apply


def of_norm(module: LayerNorm) -> Reference:
    def apply(x: Tensor, tensors: Tensors) -> Tensor:
        weight, bias = tensors["norm.weight"], tensors.get("norm.bias")
        return F.layer_norm(x, (WIDTH,), weight, bias, module.eps)

    return apply


def score(false_id: int | None) -> LogitScore:
    return LogitScore(
        path="",
        inputs=WIDTH,
        vocabulary=VOCABULARY,
        tensors=("other.weight", TABLE),
        true_id=7,
        false_id=false_id,
    )


DENSE = {
    **{name: dense(NARROW, name) for name in ACTIVATIONS},
    "no bias": dense(NARROW, "Tanh", bias=False),
    "one output": dense(1, "Sigmoid"),
    "residual": dense(WIDTH, "GELU", residual=True),
    "residual of another width": dense(NARROW, "Sigmoid", residual=True),
}
NORMS = {
    "norm": LayerNorm(path="norm", inputs=WIDTH),
    "norm without bias": LayerNorm(path="norm", inputs=WIDTH, bias=False, eps=0.1),
}
CASES: dict[str, tuple[Module, Reference]] = {
    **{name: (module, of_dense(module)) for name, module in DENSE.items()},
    **{name: (module, of_norm(module)) for name, module in NORMS.items()},
    "logit": (score(None), lambda x, tensors: tensors[TABLE][7:8] @ x),
    "two logits": (score(2), lambda x, tensors: (tensors[TABLE][7:8] - tensors[TABLE][2:3]) @ x),
    "truncation": (Truncate(NARROW), lambda x, _: x[:NARROW]),
    "int8": (TanhInt8(), lambda x, _: torch.round(127 * torch.tanh(x))),
    "unit length": (Normalize(), lambda x, _: F.normalize(x, dim=-1)),
}
every_case = pytest.mark.parametrize(("module", "reference"), CASES.values(), ids=CASES)


def write(folder: Path, module: Module) -> Weights:
    """Write random weights of a module to a model's folder, and return them."""
    shapes = {} if isinstance(module, (Truncate, TanhInt8, Normalize)) else module.shapes
    if isinstance(module, LogitScore):
        shapes = {TABLE: (VOCABULARY, WIDTH)}
    arrays = {name: numbers(*shape, seed=seed) for seed, (name, shape) in enumerate(shapes.items())}
    path = folder / getattr(module, "path", "")
    path.mkdir(exist_ok=True)
    save_file(arrays, path / "model.safetensors")
    return arrays


@every_factory
@every_case
def test_every_module_equals_torch(
    module: Module, reference: Reference, linear: LinearFactory, tmp_path: Path
) -> None:
    arrays = write(tmp_path, module)
    vectors = numbers(7, WIDTH, seed=9, scale=1)
    tensors = {name: torch.from_numpy(array).double() for name, array in arrays.items()}
    expected = [reference(torch.from_numpy(row).double(), tensors).numpy() for row in vectors]
    assert_equal(load_transform(tmp_path, module, linear)(vectors), np.stack(expected))


@every_factory
@every_case
def test_a_row_has_the_same_bytes_alone_and_among_others(
    module: Module, reference: Reference, linear: LinearFactory, tmp_path: Path
) -> None:
    write(tmp_path, module)
    transform, vectors = load_transform(tmp_path, module, linear), numbers(70, WIDTH, seed=9)
    alone = np.concatenate([transform(row[None]) for row in vectors])
    assert transform(vectors).tobytes() == alone.tobytes()


def test_the_sigmoid_is_exact_where_the_power_is_large() -> None:
    x = np.array([[-1e4, -80, -1, 0, 1, 80, 1e4, -np.inf, np.inf, np.nan]], np.float32)
    with np.errstate(all="raise", under="ignore"):
        found = sigmoid(x)
    expected = torch.sigmoid(torch.from_numpy(x).double()).numpy()
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_an_array_that_is_missing_is_named(tmp_path: Path) -> None:
    write(tmp_path, DENSE["no bias"])
    with pytest.raises(ModelError, match=r"dense: the checkpoint has .* requires .*linear\.bias"):
        load_transform(tmp_path, DENSE["Tanh"], FACTORIES["torch"])


def test_a_table_that_is_missing_or_of_another_shape_is_refused(tmp_path: Path) -> None:
    save_file({TABLE: numbers(VOCABULARY, WIDTH + 1)}, tmp_path / "model.safetensors")
    with pytest.raises(ModelError, match=rf"{TABLE} has the shape \(11, 49\)"):
        load_transform(tmp_path, score(2), FACTORIES["torch"])
    save_file({"norm.weight": numbers(WIDTH)}, tmp_path / "model.safetensors")
    with pytest.raises(ModelError, match=r"the checkpoint lacks other\.weight"):
        load_transform(tmp_path, score(2), FACTORIES["torch"])


CHAIN: list[Module] = [dense(NARROW, "Tanh"), Truncate(5), Normalize()]
WEIGHT, BIAS = numbers(NARROW, WIDTH), numbers(NARROW, seed=2)
VECTORS = numbers(6, WIDTH, seed=3)
RESIDUAL = dense(NARROW, "SiLU", bias=False, residual=True)
ARRAYS = {
    "linear.weight": numbers(NARROW, WIDTH),
    "residual.weight": numbers(NARROW, WIDTH, seed=2),
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "dense").mkdir()
    arrays = {"linear.weight": WEIGHT, "linear.bias": BIAS}
    save_file(arrays, tmp_path / "dense" / "model.safetensors")
    return tmp_path


@every_factory
def test_modules_are_applied_in_their_order(folder: Path, linear: LinearFactory) -> None:
    x, weight, bias = (torch.from_numpy(each).double() for each in (VECTORS, WEIGHT, BIAS))
    whole = torch.tanh(F.linear(x, weight, bias))[:, :5]
    head = VectorHead(folder, CHAIN, linear)
    assert_equal(head(VECTORS), F.normalize(whole, dim=-1).numpy())
    assert_equal(head.without_last()(VECTORS), whole.numpy())


def test_without_modules_vectors_stay_as_they_are(tmp_path: Path) -> None:
    assert VectorHead(tmp_path, [], FACTORIES["torch"])(VECTORS) is VECTORS


@pytest.mark.parametrize("value", [np.inf, np.nan])
def test_only_a_vector_that_is_not_finite_has_no_finite_result(folder: Path, value: float) -> None:
    vectors = VECTORS.copy()
    vectors[2, 0] = value
    modules = [*CHAIN[:1], Normalize()]
    found = np.isfinite(VectorHead(folder, modules, FACTORIES["kernels"])(vectors))
    assert found[[0, 1, 3, 4, 5]].all() and (np.isinf(value) or not found[2].any())


def token_head(folder: Path, linear: LinearFactory) -> VectorHead:
    (folder / "dense").mkdir()
    save_file(ARRAYS, folder / "dense" / "model.safetensors")
    return VectorHead(folder, [RESIDUAL, Normalize()], linear)


@every_factory
def test_vectors_of_tokens_are_those_of_torch(linear: LinearFactory, tmp_path: Path) -> None:
    states = numbers(33, WIDTH, seed=3)
    arrays = (states, *ARRAYS.values())
    x, weight, residual = (torch.from_numpy(array).double() for array in arrays)
    expected = F.normalize(F.silu(F.linear(x, weight)) + F.linear(x, residual), dim=-1)
    assert_equal(token_head(tmp_path, linear)(states), expected.numpy())


@every_factory
def test_a_token_has_the_same_bytes_alone_and_among_others(
    linear: LinearFactory, tmp_path: Path
) -> None:
    apply, states = token_head(tmp_path, linear), numbers(70, WIDTH, seed=3)
    alone = np.concatenate([apply(row[None]) for row in states])
    assert apply(states).tobytes() == alone.tobytes()
