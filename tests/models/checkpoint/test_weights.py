"""Tests of reading checkpoints."""

import json
import math
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor
from transformers import BertForMaskedLM

from embedwell_models import families
from embedwell_models.checkpoint import safetensors_files, weights
from embedwell_models.checkpoint.tables import PlainTable
from embedwell_models.checkpoint.weights import Weights
from embedwell_models.description.model_description import ModelDescription
from embedwell_models.embedder import Embedder
from embedwell_models.errors import ModelError
from embedwell_models.vectors import Floats
from tests.conftest import Folder, precisions
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
    """Load the weights of a BERT, without its config.json next to them."""
    config = reference().config.to_dict() | {"num_hidden_layers": num_layers}
    path = folder / "config.json"
    path.write_text(json.dumps(config), encoding="utf-8")
    return weights.load(folder, families.read(folder))


def rewritten(folder: Path, target: Path, change: Change) -> Path:
    save_file(change(load_file(folder / "model.safetensors")), target / "model.safetensors")
    return target


def equal(a: Weights, b: Weights) -> bool:
    return a.keys() == b.keys() and all(np.array_equal(a[name], b[name]) for name in a)


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
    assert all(np.array_equal(plain[ours], theirs[name]) for ours, name in pairs.items())


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
    assert {array.dtype for array in load(half).values()} == {np.dtype(np.float32)}


def test_an_unknown_tensor_is_named(folder: Path, tmp_path: Path) -> None:
    changed = rewritten(folder, tmp_path, lambda all: all | {"adapter.weight": torch.zeros(1)})
    with pytest.raises(ModelError, match=r"unknown tensor 'adapter\.weight'"):
        load(changed)


def test_a_missing_tensor_is_named(folder: Path, tmp_path: Path) -> None:
    lost = "encoder.layer.2.output.dense.bias"
    changed = rewritten(
        folder, tmp_path, lambda all: {name: t for name, t in all.items() if name != lost}
    )
    with pytest.raises(ModelError, match=rf"lacks \['{lost}'\]; .*fetch both again"):
        load(changed)


def test_a_missing_layer_is_noticed(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"lacks \['encoder\.layer\.3\."):
        load(rewritten(folder, tmp_path, dict), num_layers=LAYERS + 1)


def test_layers_beyond_those_of_the_config_are_named(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"implies no tensors \['encoder\.layer\.2\..*two models"):
        load(rewritten(folder, tmp_path, dict), num_layers=LAYERS - 1)


@pytest.mark.parametrize(
    ("name", "theirs"),
    [
        ("token_table", "embeddings.word_embeddings.weight"),
        ("position_table", "embeddings.position_embeddings.weight"),
        ("segment_table", "embeddings.token_type_embeddings.weight"),
        ("norm.weight", "embeddings.LayerNorm.weight"),
        ("norm.bias", "embeddings.LayerNorm.bias"),
        ("layers.1.query.weight", "encoder.layer.1.attention.self.query.weight"),
        ("layers.1.output.bias", "encoder.layer.1.attention.output.dense.bias"),
        ("layers.0.attention_norm.bias", "encoder.layer.0.attention.output.LayerNorm.bias"),
        ("layers.2.up.weight", "encoder.layer.2.intermediate.dense.weight"),
        ("layers.2.up.bias", "encoder.layer.2.intermediate.dense.bias"),
        ("layers.2.down.weight", "encoder.layer.2.output.dense.weight"),
        ("layers.2.down.bias", "encoder.layer.2.output.dense.bias"),
    ],
)
def test_a_tensor_of_another_shape_has_the_name_that_the_file_gives_it(
    folder: Path, plain: Weights, name: str, theirs: str
) -> None:
    spec = families.read(folder)
    weights.check_shapes(folder, plain, spec)
    tensor = plain[name]
    shorter = [tensor[1:]] * (name != "segment_table")  # the one table of no told length
    for other in [tensor[..., :-1], tensor[None], *shorter]:
        with pytest.raises(ModelError) as refused:
            weights.check_shapes(folder, {**plain, name: other}, spec)
        message = f"{folder}: {theirs} has the shape {other.shape}; config.json requires "
        assert str(refused.value).startswith(message)


def spoilt(name: str, value: float) -> Change:
    def change(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
        tensors[name].view(-1)[7] = value
        return tensors

    return change


@pytest.mark.parametrize("kind", [torch.float16, torch.bfloat16], ids=str)
def test_matrices_in_half_precision_take_no_more_memory_than_their_file(
    folder: Path, tmp_path: Path, kind: torch.dtype
) -> None:
    half = rewritten(folder, tmp_path, lambda all: {key: t.to(kind) for key, t in all.items()})
    stored = weights.load(half, families.read(folder))
    tensor = load_file(half / "model.safetensors")["encoder.layer.1.output.dense.weight"]
    table = stored.table("layers.1.down.weight")
    assert isinstance(table, PlainTable) and table.values.itemsize == 2
    assert np.array_equal(stored["layers.1.down.weight"], tensor.float().numpy())


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize("kind", [torch.float32, torch.float16, torch.bfloat16], ids=str)
def test_a_tensor_with_a_number_that_is_not_finite_is_named(
    folder: Path, tmp_path: Path, value: float, kind: torch.dtype
) -> None:
    name = "encoder.layer.1.attention.self.query.weight"
    half = rewritten(folder, tmp_path, lambda all: {key: t.to(kind) for key, t in all.items()})
    load(half)
    with pytest.raises(ModelError, match=rf"{name} has NaN or infinity.*fetch the model again"):
        load(rewritten(half, tmp_path, spoilt(name, value)))


def test_a_number_that_is_not_finite_where_nothing_reads_it_is_no_fault(
    folder: Path, tmp_path: Path, plain: Weights
) -> None:
    change = spoilt("pooler.dense.weight", float("nan"))
    assert equal(load(rewritten(folder, tmp_path, change)), plain)


@pytest.mark.parametrize(
    ("kind", "stored"),
    [(torch.int8, "I8"), (torch.uint8, "U8"), (torch.float8_e4m3fn, "F8_E4M3")],
    ids=str,
)
def test_a_quantised_tensor_is_named_with_its_type(
    folder: Path, tmp_path: Path, kind: torch.dtype, stored: str
) -> None:
    name = "encoder.layer.1.output.dense.weight"
    changed = rewritten(folder, tmp_path, lambda all: all | {name: all[name].to(kind)})
    with pytest.raises(ModelError, match=rf"{name} is of type {stored}; supported: .*F32"):
        load(changed)


def test_a_part_of_the_arrays_stays_as_stored(folder: Path, tmp_path: Path) -> None:
    half = rewritten(folder, tmp_path, lambda all: {name: all[name].bfloat16() for name in all})
    loaded = weights.load(half, families.read(folder))
    zeros = np.zeros((1, 2), np.float32)
    part = loaded.without(("layers.", "position"), {"bias_table": zeros, "token_table": zeros})
    assert {*part} == {"token_table", "segment_table", "norm.weight", "norm.bias", "bias_table"}
    table = part.stored("token_table")
    assert table is loaded.stored("token_table") and isinstance(table, np.ndarray)
    assert table.dtype == np.uint16, "bfloat16, which takes half the memory"
    assert part["bias_table"] is zeros


def test_a_broken_file_is_named(folder: Path, tmp_path: Path) -> None:
    whole = (folder / "model.safetensors").read_bytes()
    (tmp_path / "model.safetensors").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ModelError, match=r"model\.safetensors cannot be read: .*fetch the model"):
        load(tmp_path)


def test_a_pickle_is_refused_with_the_command(tmp_path: Path) -> None:
    torch.save({"weight": torch.zeros(1)}, tmp_path / "pytorch_model.bin")
    with pytest.raises(ModelError, match=r"pytorch_model\.bin is a pickle, .*convert MODEL`"):
        load(tmp_path)


def test_a_folder_without_weights_is_named(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"has no model\.safetensors$"):
        load(tmp_path)


def resident(path: Path) -> int:
    """Bytes of a file that are mapped into this process and in memory."""
    maps, total = Path("/proc/self/smaps").read_text().split("VmFlags:"), 0
    for area in maps:
        if str(path) in area:
            total += 1024 * int(area.partition("\nRss:")[2].split()[0])
    return total


@pytest.mark.full
def test_of_the_file_only_the_used_rows_of_tables_stay_in_memory(
    minilm_folder: Path, tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(minilm_folder, tmp_path / "model"))  # mapped by no other test
    path = (folder / "model.safetensors").resolve()
    headers = safetensors_files.headers(folder).items()
    layers = sum(4 * math.prod(header.shape) for name, header in headers if "layer." in name)
    rest = path.stat().st_size - layers
    assert layers > 40_000_000
    loaded = weights.load(folder, ModelDescription.read(folder).spec)
    assert resident(path) < rest / 2, "the pages of the checks are released"
    for name in loaded:
        assert loaded[name].any()
    assert resident(path) > rest + layers / 2, "the weights are read where they lie"
    loaded.release_pages()
    assert resident(path) < rest / 2
    del loaded
    for dtype in precisions():
        embedder = Embedder.load(folder, device="cpu", dtype=dtype)
        embedder.embed(["a text"])
        assert resident(path) < rest / 2, dtype


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        ({"a": (2, 3), "b": (3,)}, "the checkpoint lacks head.b"),
        ({}, "config.json implies no head.a"),
        ({"a": (3, 2)}, r"head.a has the shape \(2, 3\); config.json requires \(3, 2\)"),
    ],
)
def test_tensors_after_an_encoder_have_the_shapes_that_its_options_require(
    shapes: dict[str, tuple[int, ...]], message: str, tmp_path: Path
) -> None:
    tensors = {"head.a": torch.ones(2, 3), "encoder.a": torch.ones(1)}
    save_file(tensors, tmp_path / "model.safetensors")

    def read(shapes: dict[str, tuple[int, ...]]) -> dict[str, Floats]:
        return weights.read_others(tmp_path, shapes, lambda name: "head" in name, "head.")

    assert read({"a": (2, 3)})["a"].tolist() == [[1, 1, 1]] * 2
    with pytest.raises(ModelError, match=message):
        read(shapes)
