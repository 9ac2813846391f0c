"""Tests of copies to the host."""

from typing import Any

import numpy as np
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from embedwell_models.torch_backend.tensors import HostCopy
from tests.models.meta import META, ToHost


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
