"""Tests of adapters in the layout of PEFT, against transformers with the matrices merged."""

import json
import re
import tracemalloc
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from sentence_transformers import SentenceTransformer
from transformers import (
    AutoModel,
    AutoModelForCausalLM,
    AutoModelForMaskedLM,
    AutoModelForPreTraining,
    AutoModelForSequenceClassification,
    AutoTokenizer,
    BertModel,
)

from embedwell_models import Embedder
from embedwell_models.checkpoint import weights
from embedwell_models.description import model_fingerprint
from embedwell_models.description.model_description import ModelDescription
from embedwell_models.errors import ModelError
from embedwell_models.hub.sources import resolve
from tests.conftest import Folder as Write
from tests.models.cross_encoder import write_cross_encoder
from tests.models.families.exact import Expected, assert_near, exact_vectors, expected
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
    theirs = exact_vectors(SentenceTransformer(str(merged), device="cpu"), TEXTS)
    assert_near(embedder.embed(TEXTS), theirs)
    assert abs(load(base, tmp_path).embed(TEXTS) - theirs.values.numpy()).max() > 0.01


def write_magnitudes(adapter: Path, whole: BertModel, left_out: str = "") -> None:
    """Turn an adapter into one of DoRA; whole: the model with the adapter, whose rows it scales."""
    path, noise = adapter / "adapter_model.safetensors", torch.Generator().manual_seed(12)
    tensors = load_file(path)
    for name in [name for name in tensors if name.endswith(".lora_A.weight")]:
        module = name.removeprefix("base_model.model.").removesuffix(".lora_A.weight")
        matrix = whole.get_parameter(f"{module}.weight")
        lengths = torch.rand(len(matrix), generator=noise) + 0.5
        with torch.no_grad():
            matrix.mul_((lengths / torch.linalg.norm(matrix, dim=1))[:, None])
        if module != left_out:
            tensors[f"base_model.model.{module}.lora_magnitude_vector"] = lengths
    save_file(tensors, path)


def test_dora_sets_the_length_of_every_row(base: Path, tmp_path: Path) -> None:
    adapter, merged = tmp_path / "adapter", tmp_path / "merged"
    model = write_merged(merged, base, write_adapter(adapter, base, use_dora=True))
    write_magnitudes(adapter, model)
    model.save_pretrained(merged)
    write_layout(merged, "mean")
    theirs = exact_vectors(SentenceTransformer(str(merged), device="cpu"), TEXTS)
    embedder = load(adapter, tmp_path / "cache")
    assert_near(embedder.embed(TEXTS), theirs)


def test_dora_without_all_its_vectors_is_refused_by_name(base: Path, tmp_path: Path) -> None:
    adapter, left_out = tmp_path / "adapter", "encoder.layer.1.output.dense"
    model = write_merged(tmp_path / "merged", base, write_adapter(adapter, base, use_dora=True))
    write_magnitudes(adapter, model, left_out)
    with pytest.raises(ModelError, match=rf"lacks \['lora_magnitude_vector'\] of {left_out}"):
        load(adapter, tmp_path / "cache")
    path = adapter / "adapter_model.safetensors"
    name = f"base_model.model.{left_out}.lora_magnitude_vector"
    for shape, message in (((2,), r"the shapes of .* and \(2,\)"), ((2, 2), "is not a vector")):
        save_file({**load_file(path), name: torch.ones(shape)}, path)
        with pytest.raises(ModelError, match=message):
            load(adapter, tmp_path / "cache")
    options = json.loads((adapter / "adapter_config.json").read_text())
    write_json(adapter / "adapter_config.json", {**options, "use_dora": False})
    with pytest.raises(ModelError, match="lora_magnitude_vector is not supported"):
        load(adapter, tmp_path / "cache")


def test_of_a_base_in_half_precision_one_matrix_at_a_time_is_in_float32(
    base: Path, tmp_path: Path
) -> None:
    path, name = base / "model.safetensors", "encoder.layer.1.output.dense.weight"
    tensors = {name: tensor.bfloat16() for name, tensor in load_file(path).items()}
    save_file(tensors, path, {"format": "pt"})
    added = write_adapter(tmp_path / "adapter", base)
    folder = resolve(str(tmp_path / "adapter"), cache=tmp_path / "cache")
    spec = ModelDescription.read(folder).spec
    tracemalloc.start()
    loaded = weights.load(folder, spec)
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert kept < sum(3 * addition.numel() for addition in added.values())
    merged = tensors[name].float() + added[name]
    np.testing.assert_allclose(loaded["layers.1.down.weight"], merged, atol=1e-6)


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
    theirs = exact_vectors(SentenceTransformer(str(merged), device="cpu"), TEXTS)
    assert_near(embedder.embed(TEXTS), theirs)


def test_a_folder_is_made_once_and_its_fingerprint_follows_the_adapter(
    base: Path, tmp_path: Path
) -> None:
    adapter, cache = tmp_path / "adapter", tmp_path / "cache"
    write_adapter(adapter, base)
    folder = resolve(str(adapter), cache=cache)
    before = model_fingerprint.fingerprint(ModelDescription.read(folder))
    write_adapter(adapter, base, lora_alpha=1)
    assert resolve(str(adapter), cache=cache) == folder
    assert model_fingerprint.fingerprint(ModelDescription.read(folder)) != before


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"base_model_name_or_path": None}, "base_model_name_or_path is missing"),
        ({"base_model_name_or_path": "/no/model"}, "the base model '/no/model': .*there is no"),
        ({"use_qalora": True}, "use_qalora = True is not supported"),
        ({"modules_to_save": "classifier"}, "modules_to_save.* a list of strings"),
        ({"task_type": "SEQ_CLS"}, "lacks|the checkpoint has .*requires"),
    ],
    ids=["none", "missing", "qalora", "modules", "head"],
)
def test_an_adapter_that_cannot_be_added_is_refused_by_name(
    options: dict[str, Any], message: str, base: Path, tmp_path: Path
) -> None:
    write_adapter(tmp_path / "adapter", base, **options)
    with pytest.raises(ModelError, match=message):
        load(tmp_path / "adapter", tmp_path / "cache")


def test_an_addition_to_an_unused_matrix_that_the_model_lacks_has_no_effect(
    base: Path, tmp_path: Path
) -> None:
    write_adapter(tmp_path / "adapter", base)
    before = load(tmp_path / "adapter", tmp_path / "cache").embed(TEXTS)
    tensors = load_file(base / "model.safetensors")
    kept = {name: tensor for name, tensor in tensors.items() if "pooler" not in name}
    assert len(kept) < len(tensors)
    save_file(kept, base / "model.safetensors")
    after = load(tmp_path / "adapter", tmp_path / "cache").embed(TEXTS)
    assert np.array_equal(before, after)


def test_an_addition_to_a_layer_that_the_model_lacks_is_refused(base: Path, tmp_path: Path) -> None:
    adapter = tmp_path / "adapter"
    write_adapter(adapter, base)
    tensors = load_file(adapter / "adapter_model.safetensors")
    tensors = {name.replace("layer.2.", "layer.7."): tensor for name, tensor in tensors.items()}
    save_file(tensors, adapter / "adapter_model.safetensors")
    with pytest.raises(
        ModelError, match=r"implies no encoder\.layer\.7\..*, which the adapter has"
    ):
        load(adapter, tmp_path / "cache")


def test_an_addition_of_another_shape_is_refused_by_name(base: Path, tmp_path: Path) -> None:
    adapter = tmp_path / "adapter"
    write_adapter(adapter, base)
    tensors = load_file(adapter / "adapter_model.safetensors")
    name = next(name for name in tensors if "layer.1" in name and "lora_A" in name)
    tensors[name] = tensors[name][:, :-1].contiguous()
    save_file(tensors, adapter / "adapter_model.safetensors")
    with pytest.raises(ModelError, match=r"layer.* has the shape .*, and the addition \("):
        load(adapter, tmp_path / "cache")


def test_two_tensors_for_one_part_of_an_addition_are_refused_by_name(
    base: Path, tmp_path: Path
) -> None:
    adapter = tmp_path / "adapter"
    write_adapter(adapter, base)
    tensors = load_file(adapter / "adapter_model.safetensors")
    name = next(name for name in tensors if name.endswith(".lora_A.weight"))
    plain = name.removesuffix(".weight")
    tensors[plain] = tensors[name] + 1
    save_file(tensors, adapter / "adapter_model.safetensors")
    with pytest.raises(ModelError, match=f"there are two of {re.escape(plain)}"):
        load(adapter, tmp_path / "cache")


def test_an_adapter_of_a_model_with_an_adapter_is_refused(base: Path, tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    write_adapter(first, base)
    write_adapter(second, base, base_model_name_or_path=str(first))
    with pytest.raises(ModelError, match=r"second.*the base model .*first.* is adapted itself"):
        resolve(str(second), cache=tmp_path / "cache")


PAIRS = [("the license", "a copyright of this work"), ("x", "the"), ("by any", "of this")]


def write_classifier_adapter(
    folder: Path, whole: Path, base: Path, saved: list[str], **options: Any
) -> Any:
    """Split a classifier into a base model and an adapter; return it with the adapter merged.

    whole: the classifier's folder. base: folder of its base model, of which the adapter has
    products and the modules `saved`.
    """
    noise = torch.Generator().manual_seed(7)
    model: Any = AutoModelForSequenceClassification.from_pretrained(whole)
    tensors = {
        f"base_model.model.{name}": parameter.detach().clone()
        for name, parameter in model.named_parameters()
        if name.startswith(tuple(saved))
    }
    with torch.no_grad():
        for name, layer in model.named_modules():
            if isinstance(layer, torch.nn.Linear) and not name.startswith(tuple(saved)):
                down = torch.randn(RANK, layer.in_features, generator=noise) * 0.3
                up = torch.randn(layer.out_features, RANK, generator=noise) * 0.3
                tensors[f"base_model.model.{name}.lora_A.weight"] = down
                tensors[f"base_model.model.{name}.lora_B.weight"] = up
                layer.weight.add_(up @ down * (ALPHA / RANK))
    folder.mkdir(exist_ok=True)
    save_file(tensors, folder / "adapter_model.safetensors")
    written = {"peft_type": "LORA", "r": RANK, "lora_alpha": ALPHA, "modules_to_save": saved}
    written |= {"base_model_name_or_path": str(base), "task_type": "SEQ_CLS"}
    write_json(folder / "adapter_config.json", {**written, **options})
    return model


def exact_logits(model: Any, folder: Path) -> Expected:
    """Compute the logits of PAIRS with transformers, one pair at a time."""
    tokenizer = AutoTokenizer.from_pretrained(folder)
    rows = [tokenizer(*pair, return_tensors="pt") for pair in PAIRS]
    return expected(model.eval(), lambda either: torch.cat([either(**row).logits for row in rows]))


@pytest.mark.parametrize(
    ("kind", "auto", "saved", "labels"),
    [
        ("bert", AutoModel, ["classifier", "score"], 1),
        ("bert", AutoModelForPreTraining, ["classifier", "score"], 3),
        ("roberta", AutoModelForMaskedLM, ["classifier"], 2),
        ("qwen3", AutoModelForCausalLM, ["score"], 1),
        ("qwen3", AutoModel, ["score"], 2),
        ("bert", AutoModelForSequenceClassification, ["classifier"], 1),
    ],
    ids=["bert", "bert-pretrained", "roberta-mlm", "qwen3-lm", "qwen3", "bert-classifier"],
)
def test_a_classifier_is_made_of_a_base_model_and_an_adapter_with_the_head(
    kind: str, auto: Any, saved: list[str], labels: int, tmp_path: Path
) -> None:
    whole, base, adapter = (tmp_path / name for name in ("whole", "base", "adapter"))
    write_cross_encoder(whole, labels, kind)
    auto.from_pretrained(whole).save_pretrained(base)
    for file in whole.glob("tokenizer*"):
        (base / file.name).write_bytes(file.read_bytes())
    model = write_classifier_adapter(adapter, whole, base, saved)
    if auto is AutoModelForSequenceClassification:  # the adapter's head is another than the base's
        head = load_file(adapter / "adapter_model.safetensors")
        head = {name: -t if ".classifier." in name else t for name, t in head.items()}
        save_file(head, adapter / "adapter_model.safetensors")
        with torch.no_grad():
            for parameter in model.classifier.parameters():
                parameter.neg_()
    embedder = load(adapter, tmp_path / "cache")
    assert embedder.classifier is not None
    assert len(embedder.classifier.labels) == labels
    assert_near(embedder.score(PAIRS), exact_logits(model, whole))


def test_a_module_trained_as_a_whole_replaces_the_encoder_s(base: Path, tmp_path: Path) -> None:
    adapter, merged = tmp_path / "adapter", tmp_path / "merged"
    added = write_adapter(adapter, base, modules_to_save=["LayerNorm"])
    model = write_merged(merged, base, added)
    write_layout(merged, "mean")
    tensors = load_file(adapter / "adapter_model.safetensors")
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "LayerNorm" in name:
                parameter.mul_(-0.5)
                tensors[f"base_model.model.{name}"] = parameter.detach().clone()
    save_file(tensors, adapter / "adapter_model.safetensors")
    model.save_pretrained(merged)
    theirs = exact_vectors(SentenceTransformer(str(merged), device="cpu"), TEXTS)
    embedder = load(adapter, tmp_path / "cache")
    assert_near(embedder.embed(TEXTS), theirs)


@pytest.mark.parametrize(
    ("name", "saved", "message"),
    [
        ("pooler.dense.weight", ["classifier"], "pooler.dense.weight is not supported"),
        ("pooler.dense.weight", ["pooler"], "trained as a whole and has"),
        (
            "embeddings.word_embeddings.weight",
            ["word_embeddings"],
            "trained by an adapter, is not supported",
        ),
        ("other.weight", ["other"], "unknown tensor 'other.weight'"),
    ],
    ids=["unnamed", "both", "table", "unknown"],
)
def test_a_tensor_that_cannot_replace_another_is_refused_by_name(
    name: str, saved: list[str], message: str, base: Path, tmp_path: Path
) -> None:
    adapter = tmp_path / "adapter"
    write_adapter(adapter, base, modules_to_save=saved)
    tensors = load_file(adapter / "adapter_model.safetensors")
    tensors[f"base_model.model.{name}"] = torch.ones(48, 48)
    save_file(tensors, adapter / "adapter_model.safetensors")
    with pytest.raises(ModelError, match=message):
        load(adapter, tmp_path / "cache")
