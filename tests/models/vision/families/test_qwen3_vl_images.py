"""Tests of Qwen3-VL with images from files to vectors, against transformers."""

from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from transformers import Qwen2VLImageProcessorPil

from embedwell_models import families
from embedwell_models.config.json_config import read_json
from embedwell_models.cpu_backend import library
from embedwell_models.description import model_fingerprint
from embedwell_models.description.footprint import Footprint
from embedwell_models.description.model_description import ModelDescription
from embedwell_models.embedder import Embedder
from embedwell_models.errors import (
    ImageError,
    ImageTokensError,
    ModelError,
    UnsplittableTextError,
)
from embedwell_models.loading.backends import expect_torch
from tests.models import qwen2_vl
from tests.models.families.checkpoint import assert_close
from tests.models.families.exact import Expected
from tests.models.families.files import change, edit
from tests.models.image_models import encoded, picture
from tests.models.image_tokens import assert_close_in_other_precisions
from tests.models.qwen2_vl import Parts
from tests.models.qwen3_vl import (
    INSTRUCTION,
    OF_KERNELS,
    PROCESSOR,
    VISION,
    save,
    write_layout,
    write_model,
    write_qwen3_vl,
)

WIDE = encoded(picture(150, 60, mode="RGBA"))
SMALL = encoded(picture(40, 70, 1, mode="L"))
SIZES: list[dict[str, Any]] = [{"vision": {**VISION, "hidden_size": 32}}, OF_KERNELS]
CONTENTS: list[Parts] = [
    [WIDE],
    [SMALL, "the license"],
    ["any", WIDE, " of this ", SMALL, "work"],
    ["the license"],
    [SMALL, ""],
]


def load(folder: Path, **options: Any) -> Embedder:
    return Embedder.load(folder, device="cpu", **{"dtype": "float32", **options})


def write(folder: Path, max_length: int = 256, **sizes: Any) -> Any:
    model = write_qwen3_vl(folder, max_length=max_length, **sizes)
    save(folder, "preprocessor_config.json", PROCESSOR)
    return model


def theirs(
    folder: Path, model: Any, parts: Parts, instruction: str = INSTRUCTION, **bounds: int
) -> Expected:
    """The vector by the steps of the authors' Qwen3VLEmbedder."""
    size = {"shortest_edge": 4 * 32**2, "longest_edge": 1800 * 32**2, **bounds}
    processor = Qwen2VLImageProcessorPil.from_pretrained(folder, size=size)

    def read(data: bytes) -> Any:
        with Image.open(BytesIO(data)) as image:
            return processor(image, return_tensors="pt")

    return qwen2_vl.theirs(folder, model, parts, read, of_gme=False, instruction=instruction)


@pytest.mark.parametrize("sizes", SIZES, ids=["torch", "kernels"])
def test_vectors_are_those_of_transformers(sizes: dict[str, Any], tmp_path: Path) -> None:
    model = write(tmp_path, **sizes)
    embedder = load(tmp_path)
    for prompt in (None, "Find a picture."):
        vectors = embedder.embed_contents(CONTENTS, prompt=prompt)
        for parts, vector in zip(CONTENTS, vectors, strict=True):
            expected = theirs(tmp_path, model, parts, prompt or INSTRUCTION)
            assert_close(torch.from_numpy(vector), expected)


@pytest.mark.parametrize("sizes", SIZES, ids=["torch", "kernels"])
def test_a_vector_does_not_depend_on_its_batch_or_route(
    sizes: dict[str, Any], tmp_path: Path
) -> None:
    write(tmp_path, **sizes)
    embedder = load(tmp_path)
    vectors = embedder.embed_contents(CONTENTS)
    for parts, vector in zip(CONTENTS, vectors, strict=True):
        assert np.array_equal(embedder.embed_contents([parts])[0], vector)
    assert np.array_equal(embedder.embed_images(WIDE), vectors[0])
    assert np.array_equal(embedder.embed_images([SMALL, WIDE])[1], vectors[0])
    assert np.array_equal(embedder.embed("the license"), vectors[3])


@pytest.mark.parametrize("isa", ["auto", "none"])
def test_other_precisions_and_torch_alone_are_close(isa: str, tmp_path: Path) -> None:
    write(tmp_path, **OF_KERNELS)
    assert_close_in_other_precisions(tmp_path, CONTENTS, isa)


def test_the_files_of_sentence_transformers_decide_the_sizes(tmp_path: Path) -> None:
    model = write(tmp_path, 512)
    write_layout(tmp_path, {"prompts": {"document": INSTRUCTION}})
    large = encoded(picture(400, 300))
    stated = PROCESSOR["size"]
    found = load(tmp_path).embed_contents([[large]], prompt=INSTRUCTION)[0]
    assert_close(torch.from_numpy(found), theirs(tmp_path, model, [large], **stated))
    (tmp_path / "1_Pooling/config.json").unlink()
    (tmp_path / "1_Pooling").rmdir()
    write_layout(tmp_path, processor_kwargs={"max_pixels": 20_000})
    found = load(tmp_path).embed_contents([[large]], prompt=INSTRUCTION)[0]
    bounds = {**stated, "longest_edge": 20_000}
    assert_close(torch.from_numpy(found), theirs(tmp_path, model, [large], **bounds))


def test_images_have_to_fit_and_the_text_after_them_is_cut(tmp_path: Path) -> None:
    write(tmp_path, 128)
    embedder = load(tmp_path)
    long: list[Parts] = [[SMALL, "x " * 200], [SMALL, "x " * 300]]
    cut = embedder.embed_contents(long)
    assert np.array_equal(cut[0], cut[1])
    large = encoded(picture(400, 400))
    with pytest.raises(ImageTokensError, match=r"have 1\d\d tokens, of which"):
        embedder.embed_contents([[large]])
    with pytest.raises(ImageTokensError, match="a text next to images has the token"):
        embedder.embed_contents([[SMALL, "<|image_pad|>"]])


def test_wrong_parts_are_refused(tmp_path: Path) -> None:
    write(tmp_path)
    embedder = load(tmp_path)
    with pytest.raises(ImageError, match="none of the formats"):
        embedder.embed_contents([[b"no image"]])
    with pytest.raises(UnsplittableTextError, match="input 1: more than") as unsplittable:
        embedder.embed_contents([["a"], ["x" * 300_000]])
    assert unsplittable.value.index == 1
    with pytest.raises(ImageError, match="the limit is 100"):
        embedder.embed_contents([[WIDE]], max_pixels=100)
    wrong: list[Any] = [["a"], [[]], [[1]]]
    for contents in wrong:
        with pytest.raises(TypeError):
            embedder.embed_contents(contents)


def test_a_folder_without_preprocessing_reads_texts_alone(tmp_path: Path) -> None:
    write_qwen3_vl(tmp_path)
    embedder = load(tmp_path)
    assert embedder.patches is None
    with pytest.raises(ValueError, match="reads no texts with images"):
        embedder.embed_contents([[WIDE]])
    with pytest.raises(ValueError, match="no image encoder"):
        embedder.embed_images([WIDE])


def test_a_missing_tensor_is_named(tmp_path: Path) -> None:
    write(tmp_path)
    change(tmp_path, lambda tensors: {k: v for k, v in tensors.items() if "blocks.1" not in k})
    embedder = load(tmp_path)
    assert embedder.embed("the license").shape == (64,)
    with pytest.raises(ModelError, match=r"blocks\.1"):
        embedder.embed_images([WIDE])


def test_the_image_encoder_is_counted(tmp_path: Path) -> None:
    model = write(tmp_path, **OF_KERNELS)
    folder = ModelDescription.read(tmp_path)
    assert folder.reads_images
    every = sum(parameter.numel() for parameter in model.model.parameters())
    assert Footprint.of(folder).parameters == every
    assert load(tmp_path).image_dtype == "float32"


needs_kernels = pytest.mark.skipif(library.best_isa("float32") is None, reason="no kernels")

REASON = "hidden_size is 32, not a multiple of 64"


@needs_kernels
@pytest.mark.parametrize(
    ("vision", "reason"),
    [
        (VISION, None),
        (SIZES[0]["vision"], f"the layers of the image encoder ({REASON})"),
    ],
)
def test_the_kernels_compute_images_of_sizes_that_they_know(
    vision: dict[str, Any], reason: str | None, tmp_path: Path
) -> None:
    write(tmp_path, **OF_KERNELS, vision=vision)
    folder, features = ModelDescription.read(tmp_path), library.features("auto")
    assert load(tmp_path).why_torch == expect_torch(folder, "cpu", features) == reason


def test_the_preprocessing_is_part_of_the_fingerprint(tmp_path: Path) -> None:
    write(tmp_path)
    before = model_fingerprint.fingerprint(ModelDescription.read(tmp_path))
    save(tmp_path, "preprocessor_config.json", {**PROCESSOR, "resample": 0})
    assert model_fingerprint.fingerprint(ModelDescription.read(tmp_path)) != before


@pytest.mark.parametrize(
    ("key", "value"),
    [
        *([("model_type", "own"), ("in_channels", 4), ("out_hidden_size", 32)]),
        ("deepstack_visual_indexes", [2]),
        ("rope_parameters", {"rope_type": "default"}),
    ],
)
def test_other_image_encoders_are_refused_by_name(key: str, value: Any, tmp_path: Path) -> None:
    write_model(tmp_path)
    vision = read_json(tmp_path / "config.json")["vision_config"]
    edit(tmp_path, vision_config={**vision, key: value})
    with pytest.raises(ModelError, match=key):
        families.read(tmp_path)
