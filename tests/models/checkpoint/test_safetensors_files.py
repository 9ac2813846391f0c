"""A tensor read without torch is the one that torch reads."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from embedwell_models.checkpoint import safetensors_files
from embedwell_models.errors import ModelError

TABLE = torch.randn(32, 12, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("file", ["model.safetensors", "model-00002-of-00002.safetensors"])
def test_a_tensor_is_read_as_float32_whatever_its_type(
    tmp_path: Path, dtype: torch.dtype, file: str
) -> None:
    table = TABLE.to(dtype)
    save_file({"first": torch.ones(7), "wanted": table, "z": torch.ones(3)}, tmp_path / file)
    if file.startswith("model-"):
        save_file({"another": torch.zeros(5)}, tmp_path / "model-00001-of-00002.safetensors")
    found = safetensors_files.read_tensor(tmp_path, "wanted")
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, table.to(torch.float32).numpy())


def test_a_tensor_of_another_type_is_refused_by_name(tmp_path: Path) -> None:
    save_file({"wanted": torch.ones(3, dtype=torch.int64)}, tmp_path / "model.safetensors")
    with pytest.raises(ModelError, match="wanted is of type I64"):
        safetensors_files.read_tensor(tmp_path, "wanted")


def shards(folder: Path, *names: str, listed: tuple[str, ...] = ()) -> None:
    """Files of a tensor each, and an index of those that are listed."""
    for name in names:
        save_file({name: torch.ones(2)}, folder / name)
    index = {"weight_map": {f"t{number}": name for number, name in enumerate(listed)}}
    if listed:
        (folder / "model.safetensors.index.json").write_text(json.dumps(index), encoding="utf-8")


def test_an_index_says_which_are_the_shards_whatever_their_names(tmp_path: Path) -> None:
    names = ("a.safetensors", "b.safetensors")
    shards(tmp_path, *names, "model-00001-of-00001.safetensors", listed=(*names, names[0]))
    assert [path.name for path in safetensors_files.require_weight_files(tmp_path)] == [*names]


def test_a_single_file_goes_before_shards(tmp_path: Path) -> None:
    other = "model-00001-of-00001.safetensors"
    shards(tmp_path, "model.safetensors", other, listed=(other,))
    assert [path.name for path in safetensors_files.require_weight_files(tmp_path)] == [
        "model.safetensors"
    ]


@pytest.mark.parametrize("name", ["b.safetensors", "../b.safetensors", ""])
def test_a_shard_that_is_not_next_to_its_index_is_named(tmp_path: Path, name: str) -> None:
    inner = tmp_path / "inner"
    inner.mkdir()
    shards(tmp_path, "b.safetensors")
    shards(inner, "a.safetensors", listed=("a.safetensors", name))
    with pytest.raises(ModelError, match=rf"index\.json: the checkpoint lacks \['{name}'\]"):
        safetensors_files.require_weight_files(inner)


def test_files_of_other_names_are_named(tmp_path: Path) -> None:
    shards(tmp_path, "weights-2.safetensors", "weights-1.safetensors")
    named = r"\['weights-1\.safetensors', 'weights-2\.safetensors'\] as its shards: rename"
    with pytest.raises(ModelError, match=named):
        safetensors_files.require_weight_files(tmp_path)


@pytest.mark.parametrize(
    ("names", "chosen"),
    [
        (("model.onnx", "onnx/model.onnx", "model_O2.onnx"), "model.onnx"),
        (("onnx/model.onnx", "onnx/model_quantized.onnx"), "onnx/model.onnx"),
        (("bert.onnx",), "bert.onnx"),
        (("onnx/model_fp16.onnx",), "onnx/model_fp16.onnx"),
        (("onnx/a.onnx", "b.onnx"), None),
        (("model.safetensors", "model.onnx"), "model.safetensors"),
        (("weights.safetensors", "model.onnx"), None),
        (("pytorch_model.bin", "onnx/model.onnx"), None),
    ],
)
def test_an_export_in_onnx_is_read_where_there_are_no_other_weights(
    tmp_path: Path, names: tuple[str, ...], chosen: str | None
) -> None:
    for name in names:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    assert safetensors_files.weight_files(tmp_path) == ([tmp_path / chosen] if chosen else [])


def test_a_tensor_at_an_odd_address_is_copied_to_an_even_one(tmp_path: Path) -> None:
    header = {
        "byte": {"dtype": "U8", "shape": [1], "data_offsets": [0, 1]},
        "wanted": {"dtype": "F32", "shape": [3], "data_offsets": [1, 13]},
    }
    text = json.dumps(header).encode()
    numbers = np.array([1.5, -2.0, 3.0], "<f4")
    path = tmp_path / "model.safetensors"
    path.write_bytes(len(text).to_bytes(8, "little") + text + b"\x07" + numbers.tobytes())
    array = safetensors_files.map_arrays(path)["wanted"]
    assert array.flags.aligned and array.tolist() == numbers.tolist()


def test_changed_numbers_never_reach_the_file(tmp_path: Path) -> None:
    save_file({"table": TABLE}, tmp_path / "model.safetensors")
    array = safetensors_files.map_folder(tmp_path)["table"]
    array[:] = 0
    again = safetensors_files.map_folder(tmp_path)["table"]
    np.testing.assert_array_equal(again, TABLE.numpy())


def resident_file_pages() -> int:
    """The bytes of mapped files in this process's memory."""
    lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith("RssFile:"))


@pytest.mark.skipif(sys.platform != "linux", reason="reads RssFile of /proc, which only Linux has")
def test_pages_that_were_read_are_released_and_read_again(tmp_path: Path) -> None:
    table = torch.arange(1 << 22, dtype=torch.float32).reshape(1 << 12, -1)
    save_file({"table": table}, tmp_path / "model.safetensors")
    ((_, stored),) = safetensors_files.map_file(tmp_path / "model.safetensors")
    before = resident_file_pages()
    total = stored.to_float32().sum()
    read = resident_file_pages()
    safetensors_files.release_pages([stored.array])
    assert read - before > 12e6 and read - resident_file_pages() > 12e6
    assert stored.to_float32().sum() == total


def test_an_array_that_is_not_mapped_has_no_pages_to_release() -> None:
    array = np.ones((2, 2), dtype=np.float32)
    safetensors_files.release_pages([array[1:]])
    assert array.all()
