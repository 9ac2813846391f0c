"""Tests of Nomic Embed Vision next to a model of texts, against a reference by the paper."""

import json
import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from transformers import CLIPImageProcessorPil

from embedwell_models.cpu_backend import library
from embedwell_models.cpu_backend.encoder import KernelEncoder
from embedwell_models.embedder import Embedder
from embedwell_models.errors import ModelError
from embedwell_models.torch_backend.encoder import TorchEncoder
from embedwell_vision.image_encoders import ImageEncoders
from embedwell_vision.options import read_other_encoder
from tests.models.families.exact import assert_near, exactly
from tests.models.image_models import encoded, picture
from tests.models.tiny import write_bert
from tests.models.vision.families.nomic_vision import (
    PUBLISHED,
    SQUARE,
    WIDTH,
    Reference,
    write_nomic_vision,
)

IMAGES = [picture(*size, seed) for seed, size in enumerate([(200, 100), (90, 333), (17, 40)])]
FILES = [encoded(image) for image in IMAGES]
ISAS = ["auto", "none", *(cap for cap in library.lower_caps() if cap != "none")]


def load(folder: Path, isa: str = "auto", dtype: str = "float32") -> Embedder:
    if not (folder / "texts").exists():
        write_bert(folder / "texts", hidden_size=WIDTH)
    return Embedder.load(
        folder / "texts",
        device="cpu",
        dtype=dtype,
        isa=isa,
        cache=folder / "cache",
        image_model=folder / "images",
    )


@exactly
def expected_vectors(reference: Reference) -> Any:
    processor: Any = CLIPImageProcessorPil(size=SQUARE, crop_size=SQUARE)
    return reference(processor(IMAGES, return_tensors="pt")["pixel_values"])


@pytest.mark.parametrize("isa", ISAS)
def test_images_have_the_published_vectors(isa: str, tmp_path: Path) -> None:
    expected = expected_vectors(write_nomic_vision(tmp_path / "images"))
    first, second = expected.values[:2]
    assert abs(first - second).max() > 0.1 * abs(expected.values).max()
    assert_near(load(tmp_path, isa).embed_images(FILES), expected)


@pytest.mark.parametrize(
    "options", [{"layer_norm_epsilon": 0.05}, {"ref_feat_shape": [6, 6]}], ids=str
)
def test_every_option_has_the_published_vectors(options: Any, tmp_path: Path) -> None:
    expected = expected_vectors(write_nomic_vision(tmp_path / "images", **options))
    for isa in ("auto", "none"):
        assert_near(load(tmp_path, isa).embed_images(FILES), expected)


def test_the_kernels_compute_images_where_they_can(tmp_path: Path) -> None:
    write_nomic_vision(tmp_path / "images")
    images = load(tmp_path).images
    compiled = library.best_isa("float32") is not None
    assert isinstance(images, ImageEncoders) and images.embedder is not None
    assert type(images.embedder._encoder) is (KernelEncoder if compiled else TorchEncoder)


@pytest.mark.parametrize("isa", ISAS)
def test_an_image_is_the_same_bits_alone_and_in_a_batch(isa: str, tmp_path: Path) -> None:
    write_nomic_vision(tmp_path / "images")
    ours = load(tmp_path, isa)
    together = ours.embed_images(FILES * 3)
    for index, data in enumerate(FILES):
        alone = ours.embed_images([data])[0].tobytes()
        assert [row.tobytes() for row in together[index :: len(FILES)]] == [alone] * 3


def test_an_image_in_a_lower_precision_is_close(tmp_path: Path) -> None:
    write_nomic_vision(tmp_path / "images")
    expected = load(tmp_path).embed_images(FILES)
    for trial in load(tmp_path, dtype="auto").trials:
        found = load(tmp_path, dtype=trial.dtype).embed_images(FILES)
        lengths = np.linalg.norm(found, axis=1) * np.linalg.norm(expected, axis=1)
        assert ((found * expected).sum(axis=1) / lengths).min() > 0.99


def test_each_published_key_is_known(tmp_path: Path) -> None:
    write_nomic_vision(tmp_path)
    assert read_other_encoder(tmp_path).encoder.unread_keys == ()


def test_an_unknown_key_is_named(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    write_nomic_vision(tmp_path / "images", attention_temperature=2)
    with caplog.at_level(logging.WARNING):
        load(tmp_path)
    assert "attention_temperature" in caplog.text


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("norm_mlp", False),
        ("use_rotary_pos_emb", False),
        ("register_tokens", 4),
        ("qkv_proj_bias", False),
        ("global_pool", "avg"),
        ("activation_function", "gelu"),
        ("ref_feat_shape", [4, 5]),
        ("n_embd", 60),
    ],
)
def test_other_values_are_refused_by_name(key: str, value: Any, tmp_path: Path) -> None:
    write_nomic_vision(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps({**PUBLISHED, key: value}))
    with pytest.raises(ModelError, match=key):
        read_other_encoder(tmp_path)


def test_the_images_alone_name_the_setting(tmp_path: Path) -> None:
    write_nomic_vision(tmp_path)
    with pytest.raises(ModelError, match="EMBEDWELL_IMAGE_MODEL"):
        Embedder.load(tmp_path, device="cpu")
