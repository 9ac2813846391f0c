"""Tests of the device that a model computes on."""

import pytest
import torch

from models.device import find
from models.errors import ModelError


def test_auto_is_a_gpu_where_there_is_one() -> None:
    assert find("auto").type == ("cuda" if torch.cuda.is_available() else "cpu")
    assert find("cpu") == torch.device("cpu")


@pytest.mark.parametrize("name", ["cuda:99", "nonsense", "xla"])
def test_a_device_that_is_not_there_is_refused_in_one_line(name: str) -> None:
    with pytest.raises(
        ModelError, match=f"device '{name}' cannot be had: .* sees here: [0-9]+"
    ) as no:
        find(name)
    assert "\n" not in str(no.value)
