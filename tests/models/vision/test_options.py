"""Tests of the preprocessing of images, in the description of a model."""

import sys
from pathlib import Path

import pytest

from embedwell_models.description.model_description import ModelDescription
from tests.models.qwen3_vl import PROCESSOR, VISION, save, write_qwen3_vl


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_qwen3_vl(tmp_path)
    save(tmp_path, "preprocessor_config.json", PROCESSOR)
    return tmp_path


def test_images_that_are_tokens_are_read_with_a_template_for_them(folder: Path) -> None:
    description = ModelDescription.read(folder)
    assert description.patches and description.reads_images and not description.preprocessing


def test_where_torch_is_missing_texts_alone_are_read_and_the_log_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    write_qwen3_vl(tmp_path, vision={**VISION, "hidden_size": 32})
    save(tmp_path, "preprocessor_config.json", PROCESSOR)
    monkeypatch.setitem(sys.modules, "torch", None)
    assert not ModelDescription.read(tmp_path).reads_images
    assert "texts only, because images need PyTorch" in caplog.text
