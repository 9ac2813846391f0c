"""Tests of the number of kernels that layers launch, where each operator of a GPU counts as one."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes

from embedwell_models import families
from embedwell_models.checkpoint import weights
from embedwell_models.encoder.batch_shape import BatchShape
from embedwell_models.torch_backend.layer_builder import TorchLayers
from embedwell_models.torch_backend.linear import TorchLinearFactory
from embedwell_models.torch_backend.norm import Norm, Sum, sum_and_norm
from embedwell_models.torch_backend.operators import (
    EfficientAttention,
    Operators,
    PackedAttention,
)
from embedwell_models.torch_backend.rotary import rotate_pairs
from embedwell_models.torch_backend.sequence_layout import SequenceLayout
from tests.models.families.checkpoint import CPU, Case, write
from tests.models.kernel import efficient_kernel

VIEWS = {"flatten", "select", "slice", "split", "split_with_sizes", "unsqueeze", "view"}


def attend(query: Tensor, *_: Any) -> Tensor:
    """Return the queries in place of attention: only launches count."""
    return query


class Launches(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Mode that counts operators that compute; a function that counts as one hides its own."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.counts = Counter[str]()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func.overloadpacket.__name__
        if name not in VIEWS:
            self.counts[name] += 1
        return func(*args, **(kwargs or {}))

    def of_layers(self, layers: TorchLayers, width: int) -> Counter[str]:
        """Return the launches of a pass over all layers."""
        layout = SequenceLayout([3, 9, 5], CPU)
        hidden = torch.ones(layout.rows, width)
        layers(hidden, layout, len(layers))  # which computes what all layers share
        self.counts.clear()
        with torch.inference_mode(), self:
            layers(hidden, layout, len(layers))
        return self.counts

    def norm(self, parts: Sum, norm: Norm, keeps_sum: bool = True) -> tuple[Tensor, Tensor]:
        """Compute a sum and its norm; count one kernel, and a sum if it is written."""
        self.counts["sum"] += keeps_sum
        result: tuple[Tensor, Tensor] = self.one("norm", sum_and_norm)(parts, norm)
        return result

    def one(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function that counts as one kernel."""

        def launch(*args: Any, **options: Any) -> Any:
            self.counts[name] += 1
            with _disable_current_modes():
                return function(*args, **options)

        return launch


CASES = [
    (Case("bert"), {"norm": 2, "linear": 4, "gelu": 1}),
    (Case("nomic_bert"), {"norm": 2, "linear": 5, "silu": 1, "mul": 1, "rotation": 1}),
    (
        Case("gpt_neox"),
        {"norm": 1, "sum": 1, "linear": 4, "gelu": 1, "rotation": 1, "layer_norm": 1, "add": 1},
    ),
    (Case("gemma2"), {"norm": 2, "sum": 2, "linear": 5, "gelu": 1, "mul": 1, "rotation": 1}),
]


@pytest.mark.parametrize(("case", "kernels"), CASES, ids=str)
def test_a_layer_launches_few_kernels(case: Case, kernels: dict[str, int], tmp_path: Path) -> None:
    write(case, tmp_path)
    spec = families.read(tmp_path)
    launches = Launches()
    attention = PackedAttention(launches.one("attention", attend))
    layers = TorchLayers(
        *(spec.config, weights.load(tmp_path, spec), TorchLinearFactory(CPU, torch.float32), CPU),
        Operators(
            lambda *_: attention,
            launches.norm,
            launches.one("rotation", rotate_pairs),
        ),
    )
    assert launches.of_layers(layers, spec.config.hidden_size) == Counter(
        {name: count * len(layers) for name, count in ({"attention": 1} | kernels).items()}
    ) + Counter(norm=1), "and the final norm"


def test_a_gpu_before_ampere_launches_one_kernel_for_attention(tmp_path: Path) -> None:
    write(Case("bert"), tmp_path)
    spec = families.read(tmp_path)
    launches = Launches()
    attention = EfficientAttention(launches.one("attention", efficient_kernel))
    layers = TorchLayers(
        *(spec.config, weights.load(tmp_path, spec), TorchLinearFactory(CPU, torch.float32), CPU),
        Operators(lambda *_: attention),
    )
    each = {"attention": 1, "linear": 4, "gelu": 1, "add": 2, "layer_norm": 2}
    assert launches.of_layers(layers, spec.config.hidden_size) == Counter(
        {name: count * len(layers) for name, count in each.items()}
    )
    shapes = [BatchShape(64, 4, 16)]
    plan = layers.plan(shapes)
    assert (plan.attention, plan.shapes) == ({"efficient": len(layers)}, shapes)
