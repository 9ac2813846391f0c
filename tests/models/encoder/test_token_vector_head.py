"""Modules that are applied to the state of each token."""

from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from safetensors.numpy import save_file

from embedwell_models.encoder.linear import LinearFactory
from embedwell_models.encoder.token_vector_head import TokenVectorHead
from embedwell_models.model_files.vector_modules import Dense, Normalize
from tests.models.encoder.linear_factories import assert_equal, every_factory, numbers

WIDTH, NARROW = 48, 16
DENSE = Dense(
    path="dense", inputs=WIDTH, outputs=NARROW, bias=False, activation="SiLU", residual=True
)
ARRAYS = {
    "linear.weight": numbers(NARROW, WIDTH),
    "residual.weight": numbers(NARROW, WIDTH, seed=2),
}


def head(folder: Path, linear: LinearFactory) -> TokenVectorHead:
    (folder / "dense").mkdir()
    save_file(ARRAYS, folder / "dense" / "model.safetensors")
    return TokenVectorHead(folder, [DENSE, Normalize()], linear)


@every_factory
def test_vectors_are_those_of_torch(linear: LinearFactory, tmp_path: Path) -> None:
    states = numbers(33, WIDTH, seed=3)
    arrays = (states, *ARRAYS.values())
    x, weight, residual = (torch.from_numpy(array).double() for array in arrays)
    expected = F.normalize(F.silu(F.linear(x, weight)) + F.linear(x, residual), dim=-1)
    assert_equal(head(tmp_path, linear)(states), expected.numpy())


@every_factory
def test_a_token_has_the_same_bytes_alone_and_among_others(
    linear: LinearFactory, tmp_path: Path
) -> None:
    apply, states = head(tmp_path, linear), numbers(70, WIDTH, seed=3)
    alone = np.concatenate([apply(row[None]) for row in states])
    assert apply(states).tobytes() == alone.tobytes()
