"""Tests of reading checkpoints."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor
from transformers import BertForMaskedLM

from models import families, weights
from models.errors import ModelError
from models.weights import Weights
from tests.conftest import Folder
from tests.models.tiny import reference

LAYERS = 3
Change = Callable[[dict[str, Tensor]], dict[str, Tensor]]


@pytest.fixture(scope="module")
def folder(tiny_bert: Folder) -> Path:
    return tiny_bert()


@pytest.fixture(scope="module")
def plain(folder: Path) -> Weights:
    return load(folder)


def load(folder: Path, *, num_layers: int = LAYERS) -> Weights:
    """The weights of a BERT, whose config.json need not lie beside them."""
    config = reference().config.to_dict() | {"num_hidden_layers": num_layers}
    path = folder / "config.json"
    path.write_text(json.dumps(config), encoding="utf-8")
    return weights.load(folder, families.read(folder))


def rewritten(folder: Path, target: Path, change: Change) -> Path:
    save_file(change(load_file(folder / "model.safetensors")), target / "model.safetensors")
    return target


def equal(a: Weights, b: Weights) -> bool:
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


def test_tensors_arrive_under_our_names(folder: Path, plain: Weights) -> None:
    theirs = load_file(folder / "model.safetensors")
    pairs = {
        "token_table": "embeddings.word_embeddings.weight",
        "position_table": "embeddings.position_embeddings.weight",
        "segment_table": "embeddings.token_type_embeddings.weight",
        "norm.weight": "embeddings.LayerNorm.weight",
        "layers.0.query.bias": "encoder.layer.0.attention.self.query.bias",
        "layers.1.key.weight": "encoder.layer.1.attention.self.key.weight",
        "layers.1.value.weight": "encoder.layer.1.attention.self.value.weight",
        "layers.1.output.weight": "encoder.layer.1.attention.output.dense.weight",
        "layers.2.attention_norm.bias": "encoder.layer.2.attention.output.LayerNorm.bias",
        "layers.2.up.weight": "encoder.layer.2.intermediate.dense.weight",
        "layers.2.down.bias": "encoder.layer.2.output.dense.bias",
        "layers.2.ffn_norm.weight": "encoder.layer.2.output.LayerNorm.weight",
    }
    assert all(torch.equal(plain[ours], theirs[name]) for ours, name in pairs.items())


def test_a_checkpoint_with_a_task_head_gives_the_same_weights(
    tmp_path: Path, plain: Weights
) -> None:
    encoder = reference()
    model = BertForMaskedLM(encoder.config)
    model.bert.load_state_dict(encoder.state_dict(), strict=False)
    model.save_pretrained(tmp_path)
    assert any(name.startswith("bert.") for name in load_file(tmp_path / "model.safetensors"))
    assert equal(load(tmp_path), plain)


def test_a_sharded_checkpoint_gives_the_same_weights(tmp_path: Path, plain: Weights) -> None:
    reference().save_pretrained(tmp_path, max_shard_size="60KB")
    assert len(list(tmp_path.glob("model-*-of-*.safetensors"))) > 1
    assert equal(load(tmp_path), plain)


def test_a_lost_shard_is_noticed(tmp_path: Path) -> None:
    reference().save_pretrained(tmp_path, max_shard_size="60KB")
    min(tmp_path.glob("model-*.safetensors")).unlink()
    with pytest.raises(ModelError, match="the checkpoint lacks"):
        load(tmp_path)


def gamma_and_beta(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    def old(name: str) -> str:
        name = name.replace("LayerNorm.weight", "LayerNorm.gamma")
        return name.replace("LayerNorm.bias", "LayerNorm.beta")

    return {old(name): tensor for name, tensor in tensors.items()}


def prefixed(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {f"bert.{name}": tensor for name, tensor in tensors.items()}


def with_position_ids(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return tensors | {"embeddings.position_ids": torch.arange(64)[None]}


def without_pooler(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name: tensor for name, tensor in tensors.items() if not name.startswith("pooler.")}


@pytest.mark.parametrize("change", [gamma_and_beta, prefixed, with_position_ids, without_pooler])
def test_older_and_barer_layouts_give_the_same_weights(
    folder: Path, tmp_path: Path, plain: Weights, change: Change
) -> None:
    assert equal(load(rewritten(folder, tmp_path, change)), plain)


def test_a_checkpoint_of_half_precision_is_read_as_float32(folder: Path, tmp_path: Path) -> None:
    half = rewritten(folder, tmp_path, lambda all: {name: t.half() for name, t in all.items()})
    assert {tensor.dtype for tensor in load(half).values()} == {torch.float32}


def test_an_unknown_tensor_is_named(folder: Path, tmp_path: Path) -> None:
    changed = rewritten(folder, tmp_path, lambda all: all | {"adapter.weight": torch.zeros(1)})
    with pytest.raises(ModelError, match=r"unknown tensor 'adapter\.weight'"):
        load(changed)


def test_a_missing_tensor_is_named(folder: Path, tmp_path: Path) -> None:
    lost = "encoder.layer.2.output.dense.bias"
    changed = rewritten(
        folder, tmp_path, lambda all: {name: t for name, t in all.items() if name != lost}
    )
    with pytest.raises(ModelError, match=r"lacks \['layers\.2\.down\.bias'\]"):
        load(changed)


def test_a_missing_layer_is_noticed(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"lacks \['layers\.3\."):
        load(rewritten(folder, tmp_path, dict), num_layers=LAYERS + 1)


@pytest.mark.parametrize(
    "name",
    [
        *("token_table", "position_table", "segment_table", "norm.weight", "norm.bias"),
        *("layers.1.query.weight", "layers.1.output.bias", "layers.0.attention_norm.bias"),
        *("layers.2.up.weight", "layers.2.up.bias", "layers.2.down.weight", "layers.2.down.bias"),
    ],
)
def test_a_tensor_of_another_shape_is_named(folder: Path, plain: Weights, name: str) -> None:
    config = families.read(folder).config
    weights.check(plain, config)
    tensor = plain[name]
    shorter = [tensor[1:]] * (name != "segment_table")  # the one table of no told length
    for other in [tensor[..., :-1], tensor[None], *shorter]:
        with pytest.raises(ModelError, match=rf"^{name} has the shape .* by config\.json it is"):
            weights.check(plain | {name: other}, config)


def test_a_broken_file_is_named(folder: Path, tmp_path: Path) -> None:
    whole = (folder / "model.safetensors").read_bytes()
    (tmp_path / "model.safetensors").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ModelError, match=r"model\.safetensors cannot be read: .*fetch the model"):
        load(tmp_path)


def test_a_pickle_is_refused_with_advice(tmp_path: Path) -> None:
    torch.save({"weight": torch.zeros(1)}, tmp_path / "pytorch_model.bin")
    with pytest.raises(ModelError, match=r"convert pytorch_model\.bin to safetensors"):
        load(tmp_path)


def test_a_pickle_that_was_left_on_the_hub_is_refused_with_advice(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"convert pytorch_model\.bin to safetensors"):
        load(tmp_path)
