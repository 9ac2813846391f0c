"""Tests of a model of texts with the image encoder of another model."""

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file, save_file
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Dense, Pooling, Transformer

from embedwell_models import model_fingerprint
from embedwell_models.embedder import Embedder
from embedwell_models.errors import ModelError
from embedwell_models.hub.sources import resolve
from embedwell_models.loading.footprint import Footprint
from embedwell_models.model_description import ModelDescription
from embedwell_models.model_files.modules import IMAGE_ENCODER
from tests.models.image_models import encoded, picture, write_clip, write_siglip
from tests.models.tiny import write_bert

FILES = [encoded(picture(90, 70, seed)) for seed in range(2)]
TEXTS = ["the license", "a copyright of this work"]
DIM = 24  # of the vectors of the small CLIP


def _write(folder: Path, width: int) -> Path:
    write_bert(folder, hidden_size=width)
    return folder


@pytest.fixture
def texts(tmp_path: Path) -> Path:
    return _write(tmp_path / "texts", DIM)


@pytest.fixture
def images(tmp_path: Path) -> Path:
    write_clip(tmp_path / "images")
    return tmp_path / "images"


def joined(texts: Path, images: Path) -> Path:
    return resolve(str(texts), cache=texts.parent / "cache", image_model=str(images))


def load(folder: Path, **options: Any) -> Embedder:
    return Embedder.load(folder, device="cpu", dtype="float32", **options)


def test_texts_and_images_have_the_vectors_of_their_models(texts: Path, images: Path) -> None:
    both = load(texts, image_model=images, cache=texts.parent / "cache")
    assert np.array_equal(both.embed(TEXTS), load(texts).embed(TEXTS))
    assert np.array_equal(both.embed_images(FILES), load(images).embed_images(FILES))


def test_modules_after_the_encoder_are_linked(tmp_path: Path, images: Path) -> None:
    model = SentenceTransformer(
        modules=[
            Transformer(str(_write(tmp_path / "bert", 48))),
            Pooling(48),
            Dense(48, DIM, activation_function=torch.nn.Identity()),
        ],
        device="cpu",
    )
    model.save_pretrained(str(tmp_path / "texts"), create_model_card=False)
    both = load(tmp_path / "texts", image_model=images, cache=tmp_path / "cache")
    np.testing.assert_allclose(both.embed(TEXTS), model.encode(TEXTS), atol=1e-5)
    assert both.embed_images(FILES).shape == (2, DIM)


def test_a_folder_can_hold_the_image_encoder(texts: Path, images: Path) -> None:
    expected = load(images).embed_images(FILES)
    shutil.move(images, texts / IMAGE_ENCODER)
    assert np.array_equal(load(texts).embed_images(FILES), expected)


def test_the_folder_is_made_once_and_its_fingerprint_follows_the_images(
    texts: Path, images: Path
) -> None:
    folder = joined(texts, images)
    before = model_fingerprint.fingerprint(ModelDescription.read(folder))
    weights = images / "model.safetensors"
    save_file({name: np.array(2 * each) for name, each in load_file(weights).items()}, weights)
    assert joined(texts, images) == folder
    assert model_fingerprint.fingerprint(ModelDescription.read(folder)) not in (
        before,
        model_fingerprint.fingerprint(ModelDescription.read(texts)),
    )


def test_the_parameters_of_both_models_are_counted(texts: Path, images: Path) -> None:
    alone, both = (Footprint.of(ModelDescription.read(f)) for f in (texts, joined(texts, images)))
    names = ("vision_model.", "visual_projection.")
    tensors = load_file(images / "model.safetensors").items()
    added = sum(each.size for name, each in tensors if name.startswith(names))
    assert both.parameters == alone.parameters + added


def test_vectors_of_texts_and_images_have_one_width(texts: Path, tmp_path: Path) -> None:
    write_siglip(tmp_path / "images")
    with pytest.raises(ModelError, match="24 dimensions, those of the image encoder 64"):
        ModelDescription.read(joined(texts, tmp_path / "images"))


def test_a_model_without_image_encoder_is_named(texts: Path, tmp_path: Path) -> None:
    write_bert(tmp_path / "images", hidden_size=DIM)
    with pytest.raises(ModelError, match="has no image encoder"):
        ModelDescription.read(joined(texts, tmp_path / "images"))


def test_images_need_their_preprocessing(texts: Path, images: Path) -> None:
    (images / "preprocessor_config.json").unlink()
    with pytest.raises(ModelError, match=r"has no preprocessor_config\.json"):
        ModelDescription.read(joined(texts, images))


def test_a_model_without_dense_vectors_takes_no_images(texts: Path, images: Path) -> None:
    config = texts / "config.json"
    config.write_text(config.read_text().replace("BertModel", "BertForMaskedLM"))
    with pytest.raises(ModelError, match="without dense vectors takes no images"):
        ModelDescription.read(joined(texts, images), pooling="splade")
