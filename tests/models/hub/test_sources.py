"""Tests of where models come from."""

import os
from pathlib import Path

import pytest

from embedwell_models.config.model_options import ModelOptions
from embedwell_models.config.other_files import sha256
from embedwell_models.errors import ModelError
from embedwell_models.hub.sources import DEFAULT, default_cache, resolve


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"


def test_a_folder_is_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert resolve(str(tmp_path)) == tmp_path
    monkeypatch.chdir(tmp_path)
    (tmp_path / "organisation" / "name").mkdir(parents=True)
    assert resolve("organisation/name") == tmp_path / "organisation" / "name"


def test_a_revision_of_a_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"revision 'v1': only models on a hub .* leave it out"):
        resolve(str(tmp_path), ModelOptions(revision="v1"))


@pytest.mark.parametrize("name", ["no-such-model", "/no/such/folder", "./no/such", "a/b/c"])
def test_an_unknown_name_is_refused_with_what_may_be_given(cache: Path, name: str) -> None:
    with pytest.raises(ModelError) as refused:
        resolve(name, cache=cache)
    start, end = str(refused.value).split("; ")
    assert start == (
        f"no model {name!r}: give a folder, organisation/name (`embedwell models` lists some), or "
        f"{DEFAULT}"
    )
    assert end == f"there is no folder {os.path.abspath(name)}"
    assert not cache.exists()


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("all-minilm-l6-v2", DEFAULT),
        ("all-minilm-l6-v3", DEFAULT),
        ("all-MiniLM-L6-v3", DEFAULT),
        ("bge-m3", "BAAI/bge-m3"),
        ("bge-reranker-", "BAAI/bge-reranker-base or BAAI/bge-reranker-large or BAAI/bge-reran"),
    ],
)
def test_a_part_of_a_known_name_or_a_misspelt_name_is_completed(
    cache: Path, name: str, meant: str
) -> None:
    with pytest.raises(ModelError, match=f"no model '{name}': did you mean {meant}"):
        resolve(name, cache=cache)


@pytest.mark.parametrize(
    ("name", "told"),
    [
        (
            "https://huggingface.co/a/b-1.5/tree/main",
            "did you mean a/b-1.5? Otherwise give a folder",
        ),
        ("hf.co/a/b-GGUF:Q8_0", "did you mean a/b-GGUF? Otherwise give a folder"),
        ("s3://bucket/a", "addresses are not read; download the model's files, and give a folder"),
    ],
)
def test_an_address_is_refused_with_what_may_be_given(cache: Path, name: str, told: str) -> None:
    with pytest.raises(ModelError) as refused:
        resolve(name, cache=cache)
    assert str(refused.value).startswith(f"no model {name!r}: {told}, organisation/name")


def test_a_hash_is_that_of_the_bytes(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"abc")
    expected = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    assert sha256(tmp_path / "file") == expected


def test_the_cache_follows_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/elsewhere")
    assert default_cache() == Path("/elsewhere/embedwell")
    monkeypatch.setenv("XDG_CACHE_HOME", "")
    monkeypatch.setenv("HOME", "/somebody")
    assert default_cache() == Path("/somebody/.cache/embedwell")


def test_a_user_without_a_home_has_a_cache_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "")
    monkeypatch.setenv("HOME", "~")  # a name that leads to no folder, as for an unknown user
    assert default_cache() == Path("/.cache/embedwell")


def test_a_file_is_refused_with_the_command_for_word_vectors(tmp_path: Path) -> None:
    (tmp_path / "glove.txt").write_text("the 1 2")
    with pytest.raises(ModelError, match=r"is a file: `embedwell convert \S+glove\.txt -o"):
        resolve(str(tmp_path / "glove.txt"))


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("model-Q8_0.gguf", "model-Q8_0.gguf cannot be read as GGUF"),
        ("model.onnx", "model.onnx is in the format ONNX, which is read from a folder: give one"),
        ("model.safetensors", "model.safetensors is a file: give the folder that has it"),
    ],
)
def test_another_file_is_refused_with_what_to_give(tmp_path: Path, name: str, message: str) -> None:
    (tmp_path / name).touch()
    with pytest.raises(ModelError) as refused:
        resolve(str(tmp_path / name))
    assert message in str(refused.value) and "convert" not in str(refused.value)
