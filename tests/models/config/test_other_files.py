"""Files of a model that are something else are named, with what to do."""

import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest

from embedwell_classic.convert import gensim_models
from embedwell_models.checkpoint import safetensors_files
from embedwell_models.config import other_files
from embedwell_models.config.json_config import read_json
from embedwell_models.errors import ModelError
from embedwell_models.tokenizer.loading import loader
from tests.models.hub_server import POINTER

Read = Callable[[Path], object]
READERS: dict[str, Read] = {
    "config.json": read_json,
    "tokenizer.json": lambda path: loader.load(path.parent, file_only=True),
    "model.safetensors": lambda path: safetensors_files.headers(path.parent),
    "pytorch_model.bin": lambda path: safetensors_files.require_weight_files(path.parent),
    "name.vectors.npy": lambda path: gensim_models.read_array(
        path.with_name("name"), gensim_models.Attributes(), "vectors"
    ),
}


@pytest.mark.parametrize("name", READERS)
def test_a_git_lfs_pointer_is_named_with_what_to_do(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_text(POINTER, encoding="utf-8")
    with pytest.raises(ModelError, match=rf"{name} is a Git LFS pointer.*git lfs pull.*fetch"):
        READERS[name](path)


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json"])
@pytest.mark.parametrize(
    ("encoding", "message"),
    [
        ("utf-8-sig", "begins with a byte order mark (BOM), which JSON must not have: save it as"),
        ("utf-16", "is UTF-16: save it as UTF-8"),
        ("utf-16-be", "is UTF-16: save it as UTF-8"),
    ],
)
def test_json_that_begins_with_a_mark_is_named(
    tmp_path: Path, name: str, encoding: str, message: str
) -> None:
    mark = "\ufeff" * (encoding == "utf-16-be")
    (tmp_path / name).write_text(mark + "{}", encoding=encoding)
    with pytest.raises(ModelError) as refused:
        READERS[name](tmp_path / name)
    assert f"{name} {message}" in str(refused.value)


@pytest.mark.parametrize(
    ("name", "format"),
    [
        ("openvino/openvino_model.xml", "OpenVINO"),
        ("tf_model.h5", "TensorFlow"),
        ("flax_model.msgpack", "Flax"),
    ],
)
@pytest.mark.parametrize("lacking", ["config.json", "model.safetensors"])
def test_a_model_of_another_program_is_named(
    tmp_path: Path, name: str, format: str, lacking: str
) -> None:
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).touch()
    with pytest.raises(ModelError) as refused:
        READERS[lacking](tmp_path / lacking)
    message = f"{name} is in the format {format}, which embedwell does not read: give the folder"
    assert message in str(refused.value) and lacking in str(refused.value)


@pytest.mark.parametrize(
    ("lacking", "names"),
    [
        ("config.json", ["onnx/model.onnx"]),
        ("model.safetensors", ["onnx/model_O3.onnx", "onnx/model_quantized.onnx"]),
    ],
)
def test_an_onnx_file_is_named_with_what_else_is_read(
    tmp_path: Path, lacking: str, names: list[str]
) -> None:
    (tmp_path / "onnx").mkdir()
    for name in names:
        (tmp_path / name).touch()
    with pytest.raises(ModelError) as refused:
        READERS[lacking](tmp_path / lacking)
    message = f"{names[0]} is in the format ONNX, which is read from a folder: give one with config"
    assert message in str(refused.value) and lacking in str(refused.value)


@pytest.mark.parametrize("inside", ["first", "snapshots/0123"])
def test_a_folder_of_models_names_one_of_them(tmp_path: Path, inside: str) -> None:
    (tmp_path / inside).mkdir(parents=True)
    (tmp_path / inside / "config.json").write_text("{}")
    with pytest.raises(
        ModelError, match=rf"not a model folder; give .* such as {tmp_path / inside}"
    ):
        read_json(tmp_path / "config.json")


@pytest.mark.parametrize("files", [["1_Pooling"], ["modules.json", "first"]])
def test_folders_of_modules_are_no_models(tmp_path: Path, files: list[str]) -> None:
    for name in files:
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.json").write_text("{}")
    assert other_files.folders_inside(tmp_path) == ""


@pytest.mark.parametrize("lacking", ["config.json", "model.safetensors"])
def test_a_file_in_gguf_is_named_as_the_model_to_give(tmp_path: Path, lacking: str) -> None:
    (tmp_path / "model-Q8_0.gguf").touch()
    with pytest.raises(ModelError, match=r"Q8_0\.gguf is in the format GGUF .*: give the path of"):
        READERS[lacking](tmp_path / lacking)


def test_a_gliner_is_named(tmp_path: Path) -> None:
    (tmp_path / "gliner_config.json").write_text("{}", encoding="utf-8")
    with pytest.raises(ModelError, match=r"not a model folder; gliner_config\.json is of a GLiNER"):
        read_json(tmp_path / "config.json")


def test_a_small_file_reserves_little_memory(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_bytes(b"{}")
    tracemalloc.start()
    try:
        assert other_files.read(path) == b"{}"
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < other_files.MAX_SIZE // 16
