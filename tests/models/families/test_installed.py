"""Tests of families of other packages, which entry points name."""

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest

from embedwell_models import Embedder, families
from embedwell_models.errors import ModelError
from tests.conftest import Folder

ROOT = Path(__file__).parents[3]
FAMILY = """
from dataclasses import replace
from embedwell_models.families import bert

FAMILIES = (replace(bert.FAMILIES[0], model_types=("{}",)),)
"""


def install(environment: Path, model_type: str, module: str, source: str) -> None:
    """Write a package with a family, and its entry point, as pip does."""
    path = environment / module.replace(".", "/")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.with_suffix(".py").write_text(source, encoding="utf-8")
    metadata = environment / f"{model_type}-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(f"Name: {model_type}\nVersion: 1.0\n", encoding="utf-8")
    entry_points = f"[embedwell.families]\n{model_type} = {module}\n"
    (metadata / "entry_points.txt").write_text(entry_points, encoding="utf-8")


def rename(folder: Path, model_type: str) -> None:
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    config["model_type"] = model_type
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")


def documented() -> tuple[str, str]:
    """The entry point in CONTRIBUTING.md: a model_type and a module."""
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"^```toml\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    ((model_type, module),) = tomllib.loads(block)["project"]["entry-points"][
        "embedwell.families"
    ].items()
    return model_type, module


def test_a_family_of_another_package_gives_its_vectors(
    tiny_bert: Folder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (model_type, module), texts = documented(), ["The Cat sat.", "Ships"]
    install(tmp_path, model_type, module, FAMILY.format(model_type))
    monkeypatch.syspath_prepend(tmp_path)
    folder = tiny_bert()
    expected = Embedder.load(folder, device="cpu", dtype="float32").embed(texts)
    rename(folder, model_type)
    ours = Embedder.load(folder, device="cpu", dtype="float32")
    assert families.read(folder).config.family == model_type
    np.testing.assert_array_equal(ours.embed(texts), expected)


def test_a_family_of_another_package_may_have_a_name_and_several_model_types(
    tiny_bert: Folder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = FAMILY.replace("model_types=", "name='named_bert', model_types=")
    install(tmp_path, "first_bert", "named_families", source.format('first_bert", "second_bert'))
    install(tmp_path, "second_bert", "named_families", source.format('first_bert", "second_bert'))
    monkeypatch.syspath_prepend(tmp_path)
    folder = tiny_bert()
    expected = Embedder.load(folder, device="cpu", dtype="float32").embed("the cat")
    rename(folder, "second_bert")
    ours = Embedder.load(folder, device="cpu", dtype="float32")
    assert ours.config.family == "named_bert"
    np.testing.assert_array_equal(ours.embed("the cat"), expected)


def test_an_error_lists_its_model_type_and_names_a_broken_package(
    tiny_bert: Folder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path, "broken_bert", "broken_families", "import acme_missing")
    monkeypatch.syspath_prepend(tmp_path)
    folder = tiny_bert()
    rename(folder, "broken_bert")
    message = (
        r"embedwell.families 'broken_bert' of broken_bert \(broken_families\) cannot be imported: "
        r".*acme_missing.*; repair or uninstall broken_bert"
    )
    with pytest.raises(ModelError, match=message):
        families.read(folder)
    rename(folder, "broken_brt")
    with pytest.raises(ModelError, match="similar names that are: broken_bert"):
        families.read(folder)


def test_a_family_of_another_package_has_no_name_of_this_one(
    tiny_bert: Folder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = FAMILY.replace("model_types=", "name='qwen3_vl', model_types=")
    install(tmp_path, "taken_bert", "taken_families", source.format("taken_bert"))
    monkeypatch.syspath_prepend(tmp_path)
    folder = tiny_bert()
    rename(folder, "taken_bert")
    with pytest.raises(ModelError, match=r"taken_families\) has the name .*, 'qwen3_vl': change"):
        families.read(folder)


def test_a_family_of_this_package_reads_no_entry_points(tiny_bert: Folder) -> None:
    program = (
        "import sys; from embedwell_models import Embedder\n"
        f"Embedder.load({str(tiny_bert())!r}, device='cpu').embed(['a'])\n"
        "assert 'embedwell_models.families.installed' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
