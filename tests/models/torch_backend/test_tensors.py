"""Tests of the tensors of a checkpoint, of copies to the host, and of its memory."""

import gc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from embedwell_models.checkpoint.tables import Array, decoded
from embedwell_models.checkpoint.weights import StoredWeights
from embedwell_models.torch_backend.embedding_tables import EmbeddingTables
from embedwell_models.torch_backend.encoder import InputEmbeddings
from embedwell_models.torch_backend.layer_builder import TorchLayers
from embedwell_models.torch_backend.linear import Linear, LinearFactory
from embedwell_models.torch_backend.sequence_layout import SequenceLayout
from embedwell_models.torch_backend.tensors import HostCopy, to_tensors
from tests.models.meta import META, ToHost
from tests.models.shapes import llama, random_weights

CPU = torch.device("cpu")


def bfloat16(values: Array) -> Array:
    return (values.view(np.uint32) >> 16).astype(np.uint16)


def read_only(values: Array) -> Array:
    values.flags.writeable = False
    return values


VALUES = np.array([[1.5, -0.0, 3e-6], [65504.0, 1e-7, -2.25]], np.float32)


@pytest.mark.parametrize(
    "store",
    [
        bfloat16,
        lambda values: values.astype(np.float16),
        lambda values: values.copy(),
        lambda values: read_only(bfloat16(values)),
    ],
    ids=["bfloat16", "float16", "float32", "read-only bfloat16"],
)
def test_a_tensor_has_the_numbers_of_the_file(store: Callable[[Array], Array]) -> None:
    array = store(VALUES)
    tensors = to_tensors(StoredWeights({"a": array}))
    assert [*tensors] == ["a"] and len(tensors) == 1 and "b" not in tensors
    assert tensors["a"].dtype == torch.float32
    assert tensors["a"].numpy().tobytes() == decoded(array).tobytes()
    assert to_tensors(StoredWeights({"a": array}), META)["a"].device == META


def test_float32_is_not_copied_on_the_host() -> None:
    array, tensor = VALUES.copy(), torch.ones(2)
    tensors = to_tensors(StoredWeights({"a": array}))
    assert tensors["a"].data_ptr() == array.ctypes.data
    assert to_tensors({"a": tensor})["a"] is tensor


def float32_tensors() -> list[Tensor]:
    """Return all float32 tensors of the process on the host."""
    # isinstance would ask other tests' objects, such as dead proxies, for their class.
    tensors = [each for each in gc.get_objects() if type(each) is Tensor]
    return [each for each in tensors if each.dtype == torch.float32 and each.device == CPU]


class Device(LinearFactory):
    """Factory on a device with memory of its own; notes the new float32 bytes that the host has."""

    dtype = torch.float32

    def __init__(self) -> None:
        self._others = float32_tensors()  # of other tests; some have no memory to ask for
        self.host_bytes: list[int] = []

    def __call__(
        self, weight: Tensor, bias: Tensor, activation: str = "none", *, name: str = ""
    ) -> Linear:
        others = {id(each) for each in self._others}
        new = [each for each in float32_tensors() if id(each) not in others]
        storages = {each.data_ptr(): each.untyped_storage().nbytes() for each in new}
        self.host_bytes.append(sum(storages.values()))
        return lambda x, residual=None: x


def test_the_host_has_one_matrix_at_a_time_in_float32() -> None:
    config = llama(layers=8, hidden=128, windows=())
    arrays = {name: bfloat16(np.array(array)) for name, array in random_weights(config).items()}
    whole = sum(2 * array.nbytes for array in arrays.values())
    device = Device()
    TorchLayers(config, StoredWeights(arrays), device, CPU)
    matrices = [2 * arrays[f"layers.0.{name}.weight"].nbytes for name in ("query", "key", "value")]
    # A matrix, the three that are joined to one, and the norms, which stay.
    assert 0 < max(device.host_bytes) < 2 * sum(matrices) < whole / 8


def test_a_kernel_that_embeds_reads_the_table_as_it_is_stored() -> None:
    config = llama(layers=1, hidden=128, windows=())
    arrays = {name: bfloat16(np.array(array)) for name, array in random_weights(config).items()}
    layout, types = SequenceLayout([2], CPU, ids=[1, 2]), list[torch.dtype]()

    def embed(tables: EmbeddingTables, ids: Tensor, places: Tensor, dtype: torch.dtype) -> Tensor:
        types.append(tables.tokens.dtype)
        return torch.zeros(len(ids), 128, dtype=dtype)

    inputs = InputEmbeddings(config, StoredWeights(arrays), CPU, embed)
    assert inputs(layout.ids, layout, torch.bfloat16).dtype == torch.bfloat16
    assert types == [torch.bfloat16]
    assert InputEmbeddings(config, StoredWeights(arrays), CPU).tokens.dtype == torch.float32


class Blocking(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Mode that notes whether copies return before they have ended."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.copies: list[bool] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.ops.aten._to_copy.default:
            self.copies.append(not (kwargs or {}).get("non_blocking", False))
        return func(*args, **(kwargs or {}))


def test_without_an_event_to_wait_for_a_copy_blocks() -> None:
    with ToHost(), Blocking() as seen:
        values = HostCopy(torch.empty(2, 3, device=META)).wait()
    assert seen.copies == [True]
    assert np.array_equal(values, np.zeros((2, 3)))
