"""Pickles become safetensors, and anything but tensors is refused without being run."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

from embedwell_classic.convert import weights
from embedwell_models.checkpoint import safetensors_files
from embedwell_models.errors import ModelError
from tests.models.hub_server import POINTER

FORMATS = pytest.mark.parametrize("zipped", [True, False], ids=["zip", "first format"])
TYPES = (torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.int64)


def write(folder: Path, state: Any, zipped: bool = True, name: str = "pytorch_model.bin") -> None:
    torch.save(state, folder / name, _use_new_zipfile_serialization=zipped)


def converted(folder: Path) -> dict[str, Tensor]:
    target = folder / "target"
    target.mkdir()
    weights.convert(folder, target)
    found = [load_file(path) for path in safetensors_files.require_weight_files(target)]
    return {name: tensor for part in found for name, tensor in part.items()}


@FORMATS
def test_each_tensor_keeps_its_type_and_its_bytes(tmp_path: Path, zipped: bool) -> None:
    state = {f"{dtype}": (100 * torch.randn(3, 5)).to(dtype) for dtype in TYPES}
    write(tmp_path, state, zipped)
    found = converted(tmp_path)
    assert found.keys() == state.keys()
    for name, tensor in state.items():
        assert found[name].dtype == tensor.dtype and torch.equal(found[name], tensor)


@FORMATS
def test_tensors_that_share_memory_are_all_written(tmp_path: Path, zipped: bool) -> None:
    table = torch.randn(6, 4)
    state = {"a": table, "tied": table, "part": table[2:4], "turned": table.T}
    write(tmp_path, state, zipped)
    found = converted(tmp_path)
    assert all(torch.equal(found[name], tensor) for name, tensor in state.items())


def test_whoever_may_read_new_files_may_read_the_weights(tmp_path: Path) -> None:
    write(tmp_path, {"a": torch.zeros(2)})
    converted(tmp_path)
    weights.convert_file(tmp_path / "pytorch_model.bin", tmp_path / "target" / "one.safetensors")
    (tmp_path / "new").touch()
    permissions = (tmp_path / "new").stat().st_mode
    written = [*(tmp_path / "target").iterdir()]
    assert [path.stat().st_mode for path in written] == [permissions] * 2


def test_shards_stay_shards_with_an_index(tmp_path: Path) -> None:
    for number in (1, 2):
        name = f"pytorch_model-{number:05}-of-00002.bin"
        write(tmp_path, {f"t{number}": torch.full((2,), number)}, name=name)
    found = converted(tmp_path)
    assert {name: tensor.tolist() for name, tensor in found.items()} == {"t1": [1, 1], "t2": [2, 2]}
    index = json.loads((tmp_path / "target" / "model.safetensors.index.json").read_text())
    assert index["weight_map"] == {
        "t1": "model-00001-of-00002.safetensors",
        "t2": "model-00002-of-00002.safetensors",
    }


class Command:
    """An object whose pickle runs a command when it is read."""

    def __init__(self, file: Path) -> None:
        self.command = f"touch {file}"

    def __reduce__(self) -> Any:
        return os.system, (self.command,)


@FORMATS
def test_a_pickle_that_would_run_a_command_is_refused_and_runs_nothing(
    tmp_path: Path, zipped: bool
) -> None:
    ran = tmp_path / "ran"
    write(tmp_path, {"weight": torch.ones(2), "other": Command(ran)}, zipped)
    with pytest.raises(ModelError, match=r"pytorch_model\.bin holds more than tensors"):
        converted(tmp_path)
    assert not ran.exists()
    torch.load(tmp_path / "pytorch_model.bin", weights_only=False)
    assert ran.exists()  # the file does what it is feared for


@pytest.mark.parametrize(
    ("state", "message"),
    [
        ([torch.ones(1)], "must hold tensors by name, but holds a list"),
        ({"state_dict": {"a": torch.ones(1)}}, "'state_dict' is not a tensor but dict"),
        ({"a": torch.ones(1), "epoch": 3}, "'epoch' is not a tensor but int"),
    ],
)
def test_what_is_no_table_of_tensors_is_refused(tmp_path: Path, state: Any, message: str) -> None:
    write(tmp_path, state)
    with pytest.raises(ModelError, match=message):
        converted(tmp_path)


@FORMATS
@pytest.mark.parametrize("share", [0.0, 0.3, 0.9])
def test_a_file_that_was_cut_is_refused(tmp_path: Path, zipped: bool, share: float) -> None:
    write(tmp_path, {"weight": torch.ones(1000)}, zipped)
    path = tmp_path / "pytorch_model.bin"
    whole = path.read_bytes()
    path.write_bytes(whole[: int(share * len(whole))])
    with pytest.raises(ModelError, match=r"pytorch_model\.bin (cannot be read|holds more)"):
        converted(tmp_path)


def test_a_folder_without_weights_is_named(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"has neither model\.safetensors nor pytorch_model\.bin"):
        converted(tmp_path)


def test_a_folder_with_weights_of_another_program_is_named(tmp_path: Path) -> None:
    (tmp_path / "model.onnx").touch()
    with pytest.raises(ModelError, match=r"pytorch_model\.bin; model\.onnx is in the format ONNX"):
        converted(tmp_path)


def test_a_git_lfs_pointer_is_named(tmp_path: Path) -> None:
    (tmp_path / "pytorch_model.bin").write_text(POINTER, encoding="utf-8")
    with pytest.raises(ModelError, match=r"pytorch_model\.bin is a Git LFS pointer.*git lfs pull"):
        converted(tmp_path)
