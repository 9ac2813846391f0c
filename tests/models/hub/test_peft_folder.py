"""Tests of adapters in the layout of PEFT, against transformers with the matrices merged."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from sentence_transformers import SentenceTransformer
from transformers import BertModel

from embedwell_models import Embedder
from embedwell_models.errors import ModelError
from embedwell_models.hub.sources import resolve
from embedwell_models.model_description import ModelDescription
from tests.conftest import Folder as Write
from tests.models.model_files.options import NORMALIZE, POOLING, TRANSFORMER
from tests.models.tiny import write_tokenizer

TEXTS = ["the license", "a copyright of this work, by any", "x", ""]
RANK, ALPHA = 4, 6
LAYOUT = [TRANSFORMER, POOLING, NORMALIZE]


def write_json(path: Path, content: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content), encoding="utf-8")


def write_adapter(folder: Path, base: Path | str, **options: Any) -> Mapping[str, torch.Tensor]:
    """Save an adapter of every linear layer of a BERT; return what it adds, by parameter."""
    added, tensors = {}, {}
    noise = torch.Generator().manual_seed(11)
    model = BertModel.from_pretrained(base)
    for name, layer in model.named_modules():
        if isinstance(layer, torch.nn.Linear):
            down = torch.randn(RANK, layer.in_features, generator=noise) * 0.3
            up = torch.randn(layer.out_features, RANK, generator=noise) * 0.3
            tensors[f"base_model.model.{name}.lora_A.weight"] = down
            tensors[f"base_model.model.{name}.lora_B.weight"] = up
            added[f"{name}.weight"] = up @ down * (ALPHA / RANK)
    folder.mkdir(exist_ok=True)
    save_file(tensors, folder / "adapter_model.safetensors")
    written = {"peft_type": "LORA", "r": RANK, "lora_alpha": ALPHA, "target_modules": "all-linear"}
    written |= {"base_model_name_or_path": str(base), "revision": None, "use_dora": False}
    write_json(folder / "adapter_config.json", {**written, **options})
    return added


def write_merged(folder: Path, base: Path, added: Mapping[str, torch.Tensor]) -> BertModel:
    """Save a model with what an adapter adds; return it."""
    model = BertModel.from_pretrained(base)
    with torch.no_grad():
        for name, addition in added.items():
            model.get_parameter(name).add_(addition)
    model.save_pretrained(folder)
    write_tokenizer(folder)
    return model


def write_layout(folder: Path, pooling: str) -> None:
    write_json(folder / "modules.json", LAYOUT)
    options = {"word_embedding_dimension": 48, "pooling_mode": pooling}
    write_json(folder / "1_Pooling/config.json", options)


def load(folder: Path, cache: Path) -> Embedder:
    return Embedder.load(folder, device="cpu", dtype="float32", cache=cache)


@pytest.fixture
def base(tiny_bert: Write) -> Path:
    folder = tiny_bert()
    write_layout(folder, "mean")
    return folder


def test_an_adapter_alone_is_added_to_its_base_model(base: Path, tmp_path: Path) -> None:
    added = write_adapter(tmp_path / "adapter", base)
    merged = tmp_path / "merged"
    write_merged(merged, base, added)
    write_layout(merged, "mean")
    embedder = load(tmp_path / "adapter", tmp_path / "cache")
    expected = SentenceTransformer(str(merged), device="cpu").encode(TEXTS)
    np.testing.assert_allclose(embedder.embed(TEXTS), expected, atol=3e-6)
    assert abs(load(base, tmp_path).embed(TEXTS) - expected).max() > 0.01


def test_modules_and_tokenizer_of_the_adapter_replace_the_base_model_s(
    base: Path, tmp_path: Path
) -> None:
    adapter = tmp_path / "adapter"
    added = write_adapter(adapter, base)
    write_layout(adapter, "cls")
    write_tokenizer(adapter)
    (base / "tokenizer.json").unlink()
    merged = tmp_path / "merged"
    write_merged(merged, base, added)
    write_layout(merged, "cls")
    embedder = load(adapter, tmp_path / "cache")
    expected = SentenceTransformer(str(merged), device="cpu").encode(TEXTS)
    np.testing.assert_allclose(embedder.embed(TEXTS), expected, atol=3e-6)


def test_a_folder_is_made_once_and_its_fingerprint_follows_the_adapter(
    base: Path, tmp_path: Path
) -> None:
    adapter, cache = tmp_path / "adapter", tmp_path / "cache"
    write_adapter(adapter, base)
    folder = resolve(str(adapter), cache=cache)
    before = ModelDescription.read(folder).fingerprint()
    write_adapter(adapter, base, lora_alpha=1)
    assert resolve(str(adapter), cache=cache) == folder
    assert ModelDescription.read(folder).fingerprint() != before


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"base_model_name_or_path": None}, "base_model_name_or_path is missing"),
        ({"base_model_name_or_path": "/no/model"}, "the base model '/no/model': .*there is no"),
        ({"use_dora": True}, "use_dora = True is not supported"),
        ({"modules_to_save": ["classifier"]}, "modules_to_save = "),
    ],
    ids=["none", "missing", "dora", "modules"],
)
def test_an_adapter_that_cannot_be_added_is_refused_by_name(
    options: dict[str, Any], message: str, base: Path, tmp_path: Path
) -> None:
    write_adapter(tmp_path / "adapter", base, **options)
    with pytest.raises(ModelError, match=message):
        load(tmp_path / "adapter", tmp_path / "cache")


def test_an_adapter_of_a_model_with_an_adapter_is_refused(base: Path, tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    write_adapter(first, base)
    write_adapter(second, base, base_model_name_or_path=str(first))
    with pytest.raises(ModelError, match=r"second.*the base model .*first.* is adapted itself"):
        resolve(str(second), cache=tmp_path / "cache")
