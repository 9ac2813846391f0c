"""Tests of models whose image encoder, or config.json of the text encoder, is another model's."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file, save_file
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Dense, Pooling, Transformer

from embedwell_models.config.json_config import read_object
from embedwell_models.config.model_options import ModelOptions
from embedwell_models.description import model_fingerprint
from embedwell_models.description.footprint import Footprint
from embedwell_models.description.model_description import ModelDescription
from embedwell_models.embedder import Embedder
from embedwell_models.errors import ModelError
from embedwell_models.hub.sources import resolve
from embedwell_models.model_files.modules import IMAGE_ENCODER
from tests.models.families.exact import assert_near, exact_vectors
from tests.models.image_models import encoded, picture, write_clip, write_siglip
from tests.models.tiny import write_bert
from tests.models.vision.families.jina_clip import write_v1

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
    options = ModelOptions(image_model=str(images))
    return resolve(str(texts), options, texts.parent / "cache")


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
    assert_near(both.embed(TEXTS), exact_vectors(model, TEXTS))
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
    with pytest.raises(ModelError, match="24 dimensions, vectors of images 64"):
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
        ModelDescription.read(joined(texts, images), ModelOptions(pooling="splade"))


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A Jina CLIP as it is published, which names a folder in place of a model of the hub."""
    folder, other = tmp_path / "model", tmp_path / "other"
    write_v1(folder)
    other.mkdir()
    (folder / "text_config.json").rename(other / "config.json")
    name_other(folder, str(other))
    return folder


def name_other(folder: Path, other: str) -> None:
    config = read_object(folder / "config.json")
    config["text_config"]["hf_model_name_or_path"] = other
    (folder / "config.json").write_text(json.dumps(config))


def test_the_file_of_the_named_model_is_linked(model: Path) -> None:
    cache = model.parent / "cache"
    joined = resolve(str(model), cache=cache)
    assert {path.name for path in joined.iterdir()} > {path.name for path in model.iterdir()}
    assert (joined / "text_config.json").resolve() == model.parent / "other/config.json"
    assert resolve(str(model), cache=cache) == joined
    vectors = Embedder.load(model, device="cpu", dtype="float32", cache=cache).embed(TEXTS)
    (model / "text_config.json").write_bytes((joined / "text_config.json").read_bytes())
    assert resolve(str(model), cache=cache) == model
    assert np.array_equal(Embedder.load(model, device="cpu", dtype="float32").embed(TEXTS), vectors)


def test_what_to_do_without_a_hub_is_said(model: Path) -> None:
    name_other(model, "no/such")
    with pytest.raises(ModelError, match=r"names 'no/such' for .* there as text_config.json"):
        resolve(str(model), cache=model.parent / "cache")


def test_a_model_that_names_no_other_is_returned_itself(model: Path) -> None:
    config = read_object(model / "config.json")
    config["text_config"] = {"hf_model_name_or_path": None}
    (model / "config.json").write_text(json.dumps(config))
    assert resolve(str(model), cache=model.parent / "cache") == model
