"""Tests of EmbeddingGemma 2 with images from files to vectors, against transformers."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from embedwell_models import families
from embedwell_models.cpu_backend import library
from embedwell_models.description import model_fingerprint
from embedwell_models.description.footprint import Footprint
from embedwell_models.description.model_description import ModelDescription
from embedwell_models.embedder import Embedder
from embedwell_models.errors import ImageTokensError, ModelError
from embedwell_models.loading.backends import expect_torch
from tests.models.embedding_gemma2 import (
    OF_KERNELS,
    PROCESSOR,
    TEXT,
    VISION,
    Parts,
    theirs,
    write_images_model,
)
from tests.models.families.checkpoint import assert_close
from tests.models.families.files import change, edit
from tests.models.image_models import encoded, picture
from tests.models.image_tokens import assert_close_in_other_precisions
from tests.models.qwen3_vl import save

WIDE = encoded(picture(150, 60))
SMALL = encoded(picture(21, 50, 1))
SIZES: list[dict[str, Any]] = [{"vision": {"hidden_size": 96}}, OF_KERNELS]
CONTENTS: list[Parts] = [
    [WIDE],
    [SMALL, "the license"],
    ["any ", WIDE, " of this ", SMALL, "work"],
    ["the license"],
    [SMALL, ""],
]
needs_kernels = pytest.mark.skipif(library.best_isa("float32") is None, reason="no kernels")
PROMPT = "task: search result | query: "


def load(folder: Path, **options: Any) -> Embedder:
    return Embedder.load(folder, device="cpu", **{"dtype": "float32", **options})


@pytest.mark.parametrize(
    ("sizes", "std"),
    [(SIZES[0], 0.3), (SIZES[1], 0.3), (SIZES[1], 0.02)],
    ids=["torch", "kernels", "kernels-initial"],
)
def test_vectors_are_those_of_transformers(
    sizes: dict[str, Any], std: float, tmp_path: Path
) -> None:
    model = write_images_model(tmp_path, std=std, **sizes)
    embedder = load(tmp_path)
    for prompt, contents in ((None, CONTENTS), (PROMPT, CONTENTS[1:3])):
        vectors = embedder.embed_contents(contents, prompt=prompt)
        for parts, vector in zip(contents, vectors, strict=True):
            expected = theirs(tmp_path, model, parts, prompt or "")
            assert_close(torch.from_numpy(vector), expected)


@pytest.mark.parametrize("sizes", SIZES, ids=["torch", "kernels"])
def test_a_vector_does_not_depend_on_its_batch_or_route(
    sizes: dict[str, Any], tmp_path: Path
) -> None:
    write_images_model(tmp_path, **sizes)
    embedder = load(tmp_path)
    vectors = embedder.embed_contents(CONTENTS)
    for parts, vector in zip(CONTENTS, vectors, strict=True):
        assert np.array_equal(embedder.embed_contents([parts])[0], vector)
    assert np.array_equal(embedder.embed_images(WIDE), vectors[0])
    assert np.array_equal(embedder.embed_images([SMALL, WIDE])[1], vectors[0])
    assert np.array_equal(embedder.embed("the license"), vectors[3])


def test_a_model_that_reads_images_has_the_vectors_of_texts_alone(tmp_path: Path) -> None:
    write_images_model(tmp_path, **OF_KERNELS)
    texts = ["the license", "<|image|> of this work", ""]
    vectors = load(tmp_path).embed(texts, prompt=PROMPT)
    (tmp_path / "processor_config.json").unlink()
    edit(tmp_path, vision_config=None)
    method = {"method": "forward", "method_output_name": "last_hidden_state"}
    save(tmp_path, "sentence_bert_config.json", {"modality_config": {"text": method}})
    embedder = load(tmp_path)
    assert embedder.patches is None
    assert np.array_equal(embedder.embed(texts, prompt=PROMPT), vectors)


@pytest.mark.parametrize("isa", ["auto", "none"])
def test_other_precisions_and_torch_alone_are_close(isa: str, tmp_path: Path) -> None:
    write_images_model(tmp_path, **OF_KERNELS)
    assert_close_in_other_precisions(tmp_path, CONTENTS, isa)


def test_images_have_to_fit_and_the_text_after_them_is_cut(tmp_path: Path) -> None:
    write_images_model(tmp_path, max_length=128, **OF_KERNELS)
    embedder = load(tmp_path)
    long: list[Parts] = [[SMALL, "any work " * 200], [SMALL, "any work " * 300]]
    cut = embedder.embed_contents(long)
    assert np.array_equal(cut[0], cut[1])
    with pytest.raises(ImageTokensError, match=r"have 1\d\d tokens, of which"):
        embedder.embed_contents([[SMALL, SMALL, SMALL]])
    with pytest.raises(ImageTokensError, match="a text next to images has the token"):
        embedder.embed_contents([[SMALL, "<|image|>"]])


@pytest.mark.parametrize("file", ["processor_config.json", "chat_template.jinja"])
def test_a_folder_without_a_processor_or_a_template_reads_texts_alone(
    file: str, tmp_path: Path
) -> None:
    write_images_model(tmp_path, **OF_KERNELS)
    (tmp_path / file).unlink()
    method = {"method": "forward", "method_output_name": "last_hidden_state"}
    save(tmp_path, "sentence_bert_config.json", {"modality_config": {"text": method}})
    with pytest.raises(ValueError, match="reads no texts with images"):
        load(tmp_path).embed_contents([[WIDE]])


def test_the_image_encoder_is_counted_and_those_of_other_media_are_not(tmp_path: Path) -> None:
    model = write_images_model(tmp_path, **OF_KERNELS)
    every = sum(parameter.numel() for parameter in model.parameters())
    every += TEXT["num_hidden_layers"]  # factors, which are buffers in torch
    sounds = {"audio_tower.layers.0.weight": torch.zeros(3), "embed_audio.w": torch.zeros(3)}
    change(tmp_path, lambda tensors: tensors | sounds)
    folder = ModelDescription.read(tmp_path)
    assert folder.reads_images and Footprint.of(folder).parameters == every
    assert load(tmp_path).image_dtype == "float32"


def test_a_missing_tensor_is_named(tmp_path: Path) -> None:
    write_images_model(tmp_path, **OF_KERNELS)
    name = "vision_tower.encoder.layers.1.mlp.up_proj.linear.weight"
    change(tmp_path, lambda tensors: {k: v for k, v in tensors.items() if k != name})
    with pytest.raises(ModelError, match=r"encoder\.layers\.1\.mlp"):
        load(tmp_path).embed_images([WIDE])


@needs_kernels
@pytest.mark.parametrize(
    ("vision", "reason"),
    [
        ({}, None),
        ({"hidden_size": 96}, "hidden_size is 96, not a multiple of 64"),
        ({"head_dim": 24}, "the width of a head is 24, not a multiple of 32"),
    ],
)
def test_the_kernels_compute_images_of_sizes_that_they_know(
    vision: dict[str, Any], reason: str | None, tmp_path: Path
) -> None:
    write_images_model(tmp_path, **OF_KERNELS, vision=vision)
    folder, features = ModelDescription.read(tmp_path), library.features("auto")
    expected = reason and f"the layers of the image encoder ({reason})"
    assert load(tmp_path).why_torch == expect_torch(folder, "cpu", features) == expected


def test_the_processor_and_the_template_are_part_of_the_fingerprint(tmp_path: Path) -> None:
    write_images_model(tmp_path)
    fingerprints = {model_fingerprint.fingerprint(ModelDescription.read(tmp_path))}
    image = {**PROCESSOR["image_processor"], "max_soft_tokens": 140}
    edit(tmp_path, vision_config={**VISION, "position_embedding_size": 420})
    save(tmp_path, "processor_config.json", {**PROCESSOR, "image_processor": image})
    fingerprints.add(model_fingerprint.fingerprint(ModelDescription.read(tmp_path)))
    with (tmp_path / "chat_template.jinja").open("a") as file:
        file.write("{# the same #}")
    fingerprints.add(model_fingerprint.fingerprint(ModelDescription.read(tmp_path)))
    assert len(fingerprints) == 3


def test_options_of_the_published_file_change_nothing(tmp_path: Path) -> None:
    write_images_model(tmp_path)
    before = families.read(tmp_path)
    assert before.unread_keys == ()
    rope = {"rope_type": "default", "rope_theta": 100.0}  # as in older files
    edit(tmp_path, vision_config={**VISION, "rope_parameters": rope, "standardize": False})
    edit(tmp_path, vision_soft_tokens_per_image=280)
    assert families.read(tmp_path) == before
    edit(tmp_path, vision_config={**VISION, "new_gate": True})
    assert families.read(tmp_path).unread_keys == ("vision_config.new_gate",)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        *([("model_type", "siglip_vision_model"), ("use_clipped_linears", True)]),
        *([("standardize", True), ("head_dim", 30), ("hidden_activation", "mish")]),
        *([("position_embedding_size", 0), ("pooling_kernel_size", -1)]),
        ("rope_parameters", {"rope_type": "linear"}),
    ],
)
def test_other_image_encoders_are_refused_by_name(key: str, value: Any, tmp_path: Path) -> None:
    write_images_model(tmp_path)
    edit(tmp_path, vision_config={**VISION, key: value})
    with pytest.raises(ModelError, match=key if key != "rope_parameters" else "rope_type"):
        families.read(tmp_path)


def test_an_id_of_images_beyond_the_vocabulary_is_refused(tmp_path: Path) -> None:
    write_images_model(tmp_path)
    edit(tmp_path, image_token_id=1 << 20)
    with pytest.raises(ModelError, match="image_token_id = 1048576"):
        families.read(tmp_path)
