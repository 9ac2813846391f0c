"""How a GPU computes a model, as it is known before and after the model is loaded."""

from functools import partial
from pathlib import Path

import pytest
import torch

from embedwell_models import families
from embedwell_models.checkpoint import weights
from embedwell_models.encoder.batch_shape import PassPlan
from embedwell_models.torch_backend.cuda_graphs import RECORDED_SHAPES
from embedwell_models.torch_backend.encoder_factory import expected_plan, log_plan
from embedwell_models.torch_backend.layer_builder import TorchLayers
from embedwell_models.torch_backend.linear import TorchLinearFactory
from embedwell_models.torch_backend.operators import Operators, fastest_attention
from tests.models.families.checkpoint import Case, write
from tests.models.families.every import every_family
from tests.models.kalm_reranker import write_kalm_reranker
from tests.models.meta import META
from tests.models.torch_backend.encoders import CASES, DYNAMIC

FLASH = Operators(partial(fastest_attention, has_flash=True, has_triton=False))


@every_family
def test_the_passes_of_a_folder_are_those_of_the_loaded_model(case: Case, tmp_path: Path) -> None:
    write(case, tmp_path)
    spec = families.read(tmp_path)
    linear, loaded = TorchLinearFactory(META, torch.float16), weights.load(tmp_path, spec)
    plan = TorchLayers(spec.config, loaded, linear, META, FLASH).plan(RECORDED_SHAPES)
    assert expected_plan(spec, FLASH, "float16") == plan
    assert sum(plan.attention.values()) <= spec.config.num_layers


def plan_of(case: Case, folder: Path, dtype: str = "bfloat16") -> PassPlan:
    write(case, folder)
    return expected_plan(families.read(folder), FLASH, dtype)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_passes_with_flash_attention_are_recorded(case: Case, tmp_path: Path) -> None:
    plan = plan_of(case, tmp_path)
    assert (plan.attention, plan.kernels, plan.no_graphs) == ({"flash": 3}, "torch", "") or (
        case.options is DYNAMIC
    )
    assert plan.shapes == [
        shape for shape in RECORDED_SHAPES if case.options is not DYNAMIC or shape.max_length <= 24
    ]


@pytest.mark.parametrize(
    ("case", "dtype", "reason"),
    [
        (Case("bert"), "float32", "attention in padded blocks"),
        (Case("t5"), "bfloat16", "attention in padded blocks"),
    ],
    ids=str,
)
def test_the_reason_is_known_where_nothing_is_recorded(
    case: Case, dtype: str, reason: str, tmp_path: Path
) -> None:
    plan = plan_of(case, tmp_path, dtype)
    assert (plan.no_graphs, plan.shapes) == (reason, [])


def test_passes_with_a_decoder_are_not_recorded(tmp_path: Path) -> None:
    spec = families.read(write_kalm_reranker(tmp_path))
    plan = expected_plan(spec, FLASH, "bfloat16")
    assert (plan.attention, plan.no_graphs, plan.shapes) == ({"flash": 3}, "a decoder", ())


def test_what_is_slow_is_not_silent(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("INFO"):
        log_plan(PassPlan({"flash": 12}, shapes=RECORDED_SHAPES), torch.bfloat16)
        log_plan(PassPlan({"padded": 2}, "torch (Triton is not installed)"), torch.float32)
    first, second, *warnings = caplog.records
    assert first.message == (
        "passes in bfloat16: attention flash in 12 layers; kernels triton; CUDA graphs: 114 sizes"
    )
    assert second.message.startswith(
        "passes in float32: attention padded in 2 layers; kernels torch"
    )
    assert [warning.levelname for warning in warnings] == ["WARNING"] * 2
    blocks, kernels = (warning.message for warning in warnings)
    assert "padded blocks" in blocks and kernels.endswith("torch (Triton is not installed)")
