"""Tests of the doors to the formats of weights, and of quantisations of other packages."""

import json
import sys
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from embedwell_models import Embedder
from embedwell_models.checkpoint import formats
from embedwell_models.checkpoint.safetensors_files import SafetensorsFile
from embedwell_models.errors import ModelError
from tests.conftest import Folder

METHOD, MATRIX = "acme_negation", "encoder.layer.0.attention.self.query.weight"
MODULE = """
from dataclasses import replace

class Negation:
    def __init__(self, options):
        options.refuse_unknown({"quant_method"})

    def tensors(self, folder, stored):
        for name, tensor in stored:
            if name.endswith(".negated"):
                name, tensor = name.removesuffix(".negated"), replace(tensor, array=-tensor.array)
            yield name, tensor
"""


def install(environment: Path, source: str) -> None:
    """Write a package with a quantisation, and its entry point, as pip does."""
    (environment / f"{METHOD}.py").write_text(source, encoding="utf-8")
    metadata = environment / f"{METHOD}-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(f"Name: {METHOD}\nVersion: 1.0\n", encoding="utf-8")
    text = f"[{formats.GROUP}]\n{METHOD} = {METHOD}:Negation\n"
    (metadata / "entry_points.txt").write_text(text, encoding="utf-8")


def state_method(folder: Path, method: str) -> None:
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    config["quantization_config"] = {"quant_method": method}
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")


def test_a_quantisation_of_another_package_gives_the_vectors(
    tiny_bert: Folder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path, MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    folder, texts = tiny_bert(), ["The Cat sat.", "Ships"]
    load = partial(Embedder.load, folder, device="cpu", dtype="float32")
    expected = load().embed(texts)
    tensors = load_file(folder / "model.safetensors")
    tensors[f"{MATRIX}.negated"] = -tensors.pop(MATRIX)
    save_file(tensors, folder / "model.safetensors")
    state_method(folder, METHOD)
    np.testing.assert_array_equal(load().embed(texts), expected)


def test_a_package_that_cannot_be_imported_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    environment, folder = tmp_path / "environment", tmp_path / "model"
    environment.mkdir()
    folder.mkdir()
    install(environment, "raise OSError('no driver')")
    monkeypatch.syspath_prepend(environment)
    monkeypatch.delitem(sys.modules, METHOD, raising=False)
    (folder / "config.json").write_text("{}", encoding="utf-8")
    state_method(folder, METHOD)
    with pytest.raises(ModelError) as raised:
        formats.quantization(folder)
    assert str(raised.value) == (
        "embedwell.quantizations 'acme_negation' of acme_negation (acme_negation:Negation) cannot "
        "be imported: OSError('no driver'); repair or uninstall acme_negation"
    )


def test_an_unknown_method_is_refused_with_those_that_are_read(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}", encoding="utf-8")
    assert formats.quantization(tmp_path) is None
    state_method(tmp_path, "hqq")
    with pytest.raises(ModelError, match=r"method = 'hqq' is not supported; supported: .*awq"):
        formats.quantization(tmp_path)


def test_the_suffix_tells_what_opens_a_file(tmp_path: Path) -> None:
    assert isinstance(formats.opened(tmp_path / "model.safetensors"), SafetensorsFile)
    opened = [type(formats.opened(tmp_path / f"model{suffix}")) for suffix in formats.FILES]
    assert {each.__module__.partition(".")[0] for each in opened} == {"embedwell_formats"}
