"""The kernel that shows whether Triton works, in Triton's interpreter."""

import pytest
import torch

from embedwell_models.torch_backend.triton_kernels import probe

pytestmark = pytest.mark.interpreter


def test_the_kernel_has_run() -> None:
    assert probe.launch(torch.device("cpu")).tolist() == [1.0]
