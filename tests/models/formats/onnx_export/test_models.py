"""Models whose weights are an ONNX file have the vectors of the models that were exported."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from embedwell_classic.convert.model import convert_folder
from embedwell_models.description import model_fingerprint
from embedwell_models.description.footprint import Footprint
from embedwell_models.description.model_description import ModelDescription
from embedwell_models.embedder import Embedder
from embedwell_models.errors import ModelError
from embedwell_models.hub.sources import resolve
from tests.conftest import Folder
from tests.models.onnx_files import node, write, write_traced

TEXTS = ["the license", "a copyright of this work, by any", "x"]
WEIGHTS = "model.safetensors"


def export(folder: Path, target: Path, name: str = "onnx/model.onnx", external: str = "") -> Path:
    """Copy a model with its weights as an ONNX file; return the new folder."""
    shutil.copytree(folder, target, ignore=shutil.ignore_patterns(WEIGHTS))
    write_traced(target / name, load_file(folder / WEIGHTS), external)
    return target


@pytest.mark.parametrize("external", ["", "model.onnx_data"])
def test_an_export_has_the_bits_and_the_description_of_its_model(
    minilm_folder: Path, embedder: Embedder, texts: list[str], tmp_path: Path, external: str
) -> None:
    folder = export(minilm_folder, tmp_path / "exported", external=external)
    loaded = Embedder.load(folder, device="cpu", dtype="float32")
    assert np.array_equal(loaded.embed(texts[30:40]), embedder.embed(texts[30:40]))
    original, exported = (ModelDescription.read(each) for each in (minilm_folder, folder))
    assert (exported.weights_format, original.weights_format) == ("ONNX", "safetensors")
    assert Footprint.of(exported) == Footprint.of(original)
    assert exported.stored_numbers["F32"] == original.stored_numbers["F32"]


def test_of_the_exports_of_a_hub_the_one_with_all_weights_is_read(
    tiny_bert: Folder, tmp_path: Path
) -> None:
    base = tiny_bert()
    folder = export(base, tmp_path / "exported")
    quantized = [node("MatMulInteger", ["x", "w"], name="/query/quant")]
    for name in ("model_quantized", "model_int8", "model_q4f16"):
        write(folder / f"onnx/{name}.onnx", quantized, [])
    weights = load_file(base / WEIGHTS)
    halves = {key: numbers.astype("<f2") for key, numbers in weights.items()}
    write_traced(folder / "onnx/model_fp16.onnx", halves)
    description = ModelDescription.read(folder)
    assert (description.weights_format, {*description.stored_numbers}) == ("ONNX", {"F32"})
    (folder / "onnx/model.onnx").unlink()
    assert {*ModelDescription.read(folder).stored_numbers} == {"F16"}
    (folder / "onnx/model_fp16.onnx").unlink()
    with pytest.raises(ModelError, match=r"give one with config\.json, and with model\.onnx or"):
        Embedder.load(folder, device="cpu", pooling="mean")


def test_numbers_next_to_the_graph_are_part_of_the_fingerprint(
    tiny_bert: Folder, tmp_path: Path
) -> None:
    folder = export(tiny_bert(), tmp_path / "exported", external="model.onnx_data")
    before = model_fingerprint.fingerprint(ModelDescription.read(folder))
    data = bytearray((folder / "onnx/model.onnx_data").read_bytes())
    data[5] ^= 1
    (folder / "onnx/model.onnx_data").write_bytes(data)
    assert model_fingerprint.fingerprint(ModelDescription.read(folder)) != before


def test_an_adapter_is_added_to_an_export(tiny_bert: Folder, tmp_path: Path) -> None:
    base = tiny_bert()
    exported = export(base, tmp_path / "exported", external="model.onnx_data")
    query = "encoder.layer.0.attention.self.query"
    outputs, inputs = load_file(base / WEIGHTS)[f"{query}.weight"].shape
    shapes = {"lora_A": (2, inputs), "lora_B": (outputs, 2)}
    factors = {
        f"base_model.model.{query}.{part}.weight": np.full(shape, 0.3, np.float32)
        for part, shape in shapes.items()
    }
    vectors = []
    for number, folder in enumerate((base, exported)):
        adapter = tmp_path / f"adapter-{number}"
        adapter.mkdir()
        save_file(factors, adapter / "adapter_model.safetensors")
        options = {
            "peft_type": "LORA",
            "r": 2,
            "lora_alpha": 3,
            "base_model_name_or_path": str(folder),
        }
        (adapter / "adapter_config.json").write_text(json.dumps(options))
        joined = resolve(str(adapter), cache=tmp_path / "cache")
        loaded = Embedder.load(joined, device="cpu", dtype="float32", pooling="mean")
        vectors.append(loaded.embed(TEXTS))
    assert np.array_equal(vectors[0], vectors[1])


def test_weights_that_lack_a_tensor_are_refused_by_its_name(
    tiny_bert: Folder, tmp_path: Path
) -> None:
    base = tiny_bert()
    folder = export(base, tmp_path / "exported")
    weights = load_file(base / WEIGHTS)
    del weights["encoder.layer.0.attention.self.query.weight"]
    write_traced(folder / "onnx/model.onnx", weights)
    named = r"lacks \['encoder\.layer\.0\.attention\.self\.query\.weight'\]; .*the original model"
    with pytest.raises(ModelError, match=named):
        Embedder.load(folder, device="cpu", pooling="mean")


def test_convert_writes_the_weights_of_an_export(tiny_bert: Folder, tmp_path: Path) -> None:
    base = tiny_bert()
    folder = export(base, tmp_path / "exported", "model.onnx")
    convert_folder(folder, tmp_path / "converted")
    expected, actual = (load_file(each / WEIGHTS) for each in (base, tmp_path / "converted"))
    assert expected.keys() == actual.keys()
    for name, numbers in expected.items():
        np.testing.assert_array_equal(actual[name], numbers)
