"""Tests of the options of adapters, against PEFT's own classes and models."""

import itertools
import json
import re
import typing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from peft import LoraConfig, PeftModel, get_peft_model
from peft.tuners.tuners_utils import check_target_module_exists
from transformers import AutoTokenizer, BertModel

from embedwell_formats.peft import options as peft_options
from embedwell_formats.peft.options import PeftOptions
from embedwell_models import Embedder
from embedwell_models.config.json_config import JsonConfig
from embedwell_models.errors import ModelError
from tests.conftest import Folder as Write
from tests.models.families.exact import Expected, assert_near, expected

pytestmark = pytest.mark.filterwarnings(
    "ignore:`is_gradient_checkpointing` is deprecated:FutureWarning",  # which PEFT reads
    "ignore:(?i).*eva:UserWarning",
)

TEXTS = ["the license", "a copyright of this work, by any", "x"]
UNCHANGED: list[Any] = [True, False, "gaussian", "eva", "orthogonal", "mica"]
CHANGED = ["pissa", "pissa_niter_4", "olora", "OLoRA", "corda", "loftq", "lora_ga", "new"]
FIELDS = {field.name: field for field in LoraConfig.__dataclass_fields__.values()}


def write_adapter(folder: Path, base: Path, **options: Any) -> None:
    """Save an adapter with random weights, as PEFT does."""
    config = LoraConfig(r=4, lora_alpha=6, **{"target_modules": "all-linear", **options})
    model: Any = get_peft_model(BertModel.from_pretrained(base), config)
    noise = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "lora_magnitude" in name:
                parameter.mul_(1.5)
            elif "lora_" in name:
                parameter.copy_(torch.randn(parameter.shape, generator=noise) * 0.3)
    model.save_pretrained(folder)


def means(folder: Path, base: Path) -> Expected:
    """Compute the mean states of TEXTS with PEFT."""
    tokenizer = AutoTokenizer.from_pretrained(base)
    model: Any = PeftModel.from_pretrained(BertModel.from_pretrained(base), folder).eval()
    rows = [tokenizer(text, return_tensors="pt") for text in TEXTS]
    return expected(
        model, lambda either: torch.stack([either(**row)[0][0].mean(0) for row in rows])
    )


def embed(folder: Path, cache: Path) -> np.ndarray[Any, Any]:
    embedder = Embedder.load(folder, device="cpu", dtype="float32", cache=cache, pooling="mean")
    return embedder.embed(TEXTS)


@pytest.mark.parametrize(
    "options",
    [
        *({"init_lora_weights": value} for value in UNCHANGED),
        {"use_dora": True},
        {"use_rslora": True, "lora_dropout": 0.5},
        {
            "target_modules": ["query", "output.dense"],
            "exclude_modules": ["attention.output.dense"],
        },
        {"target_modules": ["query"], "layers_to_transform": 1},
    ],
    ids=str,
)
def test_vectors_are_those_of_peft(
    options: dict[str, Any], tiny_bert: Write, tmp_path: Path
) -> None:
    base, adapter = tiny_bert(), tmp_path / "adapter"
    write_adapter(adapter, base, **options)
    vectors = embed(adapter, tmp_path / "cache")
    assert_near(vectors, means(adapter, base))


@pytest.mark.parametrize("value", CHANGED)
def test_an_initialization_that_changes_the_base_model_is_refused(
    value: str, tiny_bert: Write, tmp_path: Path
) -> None:
    base, adapter = tiny_bert(), tmp_path / "adapter"
    made_by_peft = value.startswith(("pissa", "olora"))
    write_adapter(adapter, base, init_lora_weights=value if made_by_peft else True)
    path = adapter / "adapter_config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "init_lora_weights": value}))
    with pytest.raises(ModelError, match=f"init_lora_weights = '{value}' .* merge"):
        embed(adapter, tmp_path / "cache")


def test_every_initialization_of_peft_is_one_that_is_tested() -> None:
    kind = typing.get_type_hints(LoraConfig)["init_lora_weights"]
    named = {name for part in typing.get_args(kind) for name in typing.get_args(part)}
    tested = {re.sub(r"\d", "[number of iters]", str(value)) for value in (*UNCHANGED, *CHANGED)}
    assert named and named <= tested


def test_every_key_of_peft_is_read_required_or_without_effect() -> None:
    groups = [{*peft_options.REQUIRED}, {*peft_options.READ}, {*peft_options.IGNORED}]
    assert FIELDS.keys() <= set.union(*groups)
    assert not any(one & other for one, other in itertools.combinations(groups, 2))


def test_the_supported_value_of_a_key_is_peft_s_default() -> None:
    written: dict[str, Any] = LoraConfig().to_dict()  # type: ignore[no-untyped-call]
    defaults = {key: written[key] for key in peft_options.REQUIRED if key != "peft_type"}
    required = {key: value for key, value in peft_options.REQUIRED.items() if key != "peft_type"}
    assert defaults == required


MODULES = [f"encoder.layer.{layer}.{name}" for layer in (0, 1) for name in ("query", "out.query")]


@pytest.mark.parametrize("layers", [None, 1, [0, 1], []], ids=str)
@pytest.mark.parametrize("lists", [None, "layer", ["layer", "h"], "h"], ids=str)
@pytest.mark.parametrize("excluded", [None, ["out.query"], ["ut.query"]], ids=str)
def test_the_adapted_modules_are_those_of_peft(
    layers: Any, lists: Any, excluded: Any, tmp_path: Path
) -> None:
    options = {"target_modules": ["query"], "exclude_modules": excluded}
    if layers is not None:
        options |= {"layers_to_transform": layers, "layers_pattern": lists}
    config = LoraConfig(**options)
    read = PeftOptions.read(JsonConfig(tmp_path, {**options, "lora_alpha": 1}))
    for module in (*MODULES, "pooler.query", "query", "encoder.layer.0.key"):
        assert read.adapts(module) == (check_target_module_exists(config, module) is True), module


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"target_modules": ["query"]}, "has .*, which PEFT does not load.*target_modules"),
        ({"layers_to_transform": 7, "target_modules": ["dense"]}, "which PEFT does not load"),
        ({"target_modules": 3}, "target_modules = 3"),
        ({"layers_to_transform": ["a"]}, "layers_to_transform = "),
        ({"layers_pattern": ["("]}, "layers_pattern = "),
        ({"arrow_config": {"top_k": 3}}, "arrow_config = "),
        ({"ensure_weight_tying": True}, "ensure_weight_tying = True"),
        ({"velora_config": {}}, "velora_config = {}"),
    ],
    ids=str,
)
def test_options_that_are_not_supported_are_refused_by_name(
    options: dict[str, Any], message: str, tiny_bert: Write, tmp_path: Path
) -> None:
    base, adapter = tiny_bert(), tmp_path / "adapter"
    write_adapter(adapter, base)
    path = adapter / "adapter_config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **options}))
    with pytest.raises(ModelError, match=message):
        embed(adapter, tmp_path / "cache")
