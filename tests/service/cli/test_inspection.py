"""Inspection of a model without loading it."""

import json
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from embedwell.cli.inspection import inspect, lines
from embedwell_models.cpu_backend import library
from embedwell_models.description.model_description import ModelDescription
from embedwell_models.embedder import Embedder
from tests.conftest import Folder as WriteModel
from tests.models.colqwen2 import write_colqwen2
from tests.models.families.checkpoint import SPECIAL, Case, write
from tests.models.families.every import every_family
from tests.models.listwise_reranker import write_listwise_reranker
from tests.models.model_files.options import NORMALIZE, POOLING, TRANSFORMER
from tests.models.tiny import write_tokenizer
from tests.service.server import MAX_ISA

DENSE = {"type": "sentence_transformers.models.Dense", "path": "2_Dense"}


def sentence_model(tiny_bert: WriteModel) -> ModelDescription:
    dense = {"in_features": 96, "out_features": 7, "bias": False}
    path = tiny_bert(
        {
            "modules.json": [TRANSFORMER, POOLING, DENSE, NORMALIZE],
            "1_Pooling/config.json": {"pooling_mode": ["mean", "cls"]},
            "2_Dense/config.json": dense,
            "tokenizer_config.json": {"truncation_side": "left"},
            "config_sentence_transformers.json": {"prompts": {"query": "query: ", "text": ""}},
        }
    )
    save_file({"linear.weight": np.ones((7, 96))}, path / "2_Dense" / "model.safetensors")
    return ModelDescription.read(path)


def test_an_inspection_has_all_that_determines_the_vectors(tiny_bert: WriteModel) -> None:
    inspection = inspect(sentence_model(tiny_bert))
    expected = {
        "family": "bert",
        "num_layers": 3,
        "hidden_size": 48,
        "max_positions": 64,
        "truncation_side": "left",
        "pooling": ("mean", "cls"),
        "normalize": True,
        "dim": 7,
        "prompts": {"query": "query: ", "text": ""},
        "modules": [
            {
                "kind": "Dense",
                "path": "2_Dense",
                "inputs": 96,
                "outputs": 7,
                "bias": False,
                "activation": "Tanh",
                "tensor": "linear.weight",
                "residual": False,
                "divisor": 1.0,
                "factor": 1.0,
            }
        ],
    }
    assert {name: inspection[name] for name in expected} == expected
    counts = {kind: n for kind, n in inspection["weights"].items() if kind.startswith("F")}
    assert inspection["parameters"] == sum(counts.values())
    assert inspection["memory_bytes"]["float32"] <= 4 * inspection["parameters"]


@pytest.mark.parametrize(
    ("size", "device", "isa", "reason"),
    [
        (64, "cpu", "auto", None),
        (
            48,
            "cpu",
            "auto",
            "the layers of this bert model (hidden_size is 48, not a multiple of 64)",
        ),
        (64, "cuda:1", "auto", "the device cuda:1"),
        (64, "cpu", "none", "a processor or an installation without compiled kernels"),
    ],
)
@pytest.mark.skipif(library.best_isa("float32") is None, reason="there are no kernels")
def test_an_inspection_says_what_torch_computes(
    tiny_bert: WriteModel, size: int, device: str, isa: str, reason: str | None
) -> None:
    folder = tiny_bert(hidden_size=size, num_attention_heads=size // 32 or 1, intermediate_size=64)
    inspection = inspect(ModelDescription.read(folder), device, isa)
    assert inspection["torch"] == reason
    if device == "cpu":
        assert inspection["gpu"] is None
        assert Embedder.load(folder, device=device, dtype="float32", isa=isa).why_torch == reason


@every_family
def test_an_inspection_expects_torch_where_the_engine_uses_it(case: Case, tmp_path: Path) -> None:
    write(case, tmp_path)
    write_tokenizer(tmp_path)
    inspection = inspect(ModelDescription.read(tmp_path), "cpu", MAX_ISA)
    loaded = Embedder.load(tmp_path, device="cpu", dtype="float32")
    assert inspection["torch"] == loaded.why_torch


def test_an_inspection_can_be_json_or_lines(tiny_bert: WriteModel) -> None:
    inspection = inspect(sentence_model(tiny_bert))
    assert json.loads(json.dumps(inspection))["dim"] == 7
    text = "\n".join(lines(inspection))
    assert 'prompts            query "query: ", text ' in text
    assert "pooling            mean, cls" in text
    assert "normalize          yes" in text
    assert "modules            kind Dense, path 2_Dense, inputs 96, outputs 7, bias no" in text


def test_absent_modules_and_prompts_are_shown_as_none(tiny_bert: WriteModel) -> None:
    text = list(lines(inspect(ModelDescription.read(tiny_bert()))))
    assert "modules            none" in text and "prompts            none" in text


def test_an_inspection_has_every_position_scheme_with_its_parameters(tmp_path: Path) -> None:
    write(Case("modernbert", {**SPECIAL, "vocab_size": 128}), tmp_path)
    write_tokenizer(tmp_path)
    full_attention, local_attention = inspect(ModelDescription.read(tmp_path))["positions"]
    assert (full_attention["scheme"], full_attention["dim"], full_attention["base"]) == (
        "rotary",
        16,
        160_000.0,
    )
    assert (local_attention["scheme"], local_attention["base"]) == ("rotary", 10_000.0)
    assert full_attention["scaling"]["kind"] == "default"


def test_the_limits_of_a_list_are_shown(tmp_path: Path) -> None:
    folder = write_listwise_reranker(tmp_path)
    inspection = inspect(ModelDescription.read(folder))
    limits = {"documents": 125, "tokens": 16384, "query_tokens": 512, "document_tokens": 2048}
    assert (inspection["task"], inspection["lists"]) == ("rerank", limits)


def test_a_model_whose_images_are_tokens_of_a_text_reads_images(tmp_path: Path) -> None:
    write_colqwen2(tmp_path)
    properties = inspect(ModelDescription.read(tmp_path))
    assert properties["modalities"] == ["text", "image"]
