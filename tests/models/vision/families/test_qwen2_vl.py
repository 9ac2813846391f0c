"""Tests of Qwen2-VL and GME for texts, with and without images, against transformers."""

from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from embedwell_models import families
from embedwell_models.config.json_config import read_json
from embedwell_models.description.footprint import Footprint
from embedwell_models.description.model_description import ModelDescription
from embedwell_models.embedder import Embedder
from embedwell_models.errors import ImageError, ImageTokensError, ModelError
from embedwell_vision.images.patches import PatchPreprocessing
from tests.models.families.checkpoint import (
    Case,
    assert_close,
    assert_equal_states,
    assert_same_bits,
    encoder,
    exact_states,
    states,
    texts,
    write,
)
from tests.models.families.compiled import skip_without_kernels
from tests.models.families.exact import Expected
from tests.models.families.files import edit, loaded, rename
from tests.models.image_models import encoded, picture
from tests.models.qwen2_vl import (
    AREA,
    CONTENTS,
    INSTRUCTION,
    LARGE,
    OF_KERNELS,
    SIZES,
    SMALL,
    TOKENS,
    WIDE,
    Parts,
    flatten,
    processed,
    theirs,
    write_gme,
    write_model,
    write_qwen2_vl,
)
from tests.models.qwen3_vl import last_states, rendered, save, tokenized, write_layout

CASES = [
    Case("qwen2_vl_text", {}, {"vocab_size": 99, **SIZES}),
    Case(
        "qwen2_vl_text",
        {"use_sliding_window": True, "sliding_window": 8, "max_window_layers": 1},
        {"vocab_size": 99, **SIZES},
    ),
]
cases = pytest.mark.parametrize("case", CASES, ids=str)
TEXTS = ["the license", "", " \n any of this work\n", "a <|im_end|> mark"]
BOUNDS = TOKENS["min_image_tokens"], TOKENS["max_image_tokens"]
both = pytest.mark.parametrize("sizes", [{}, OF_KERNELS], ids=["torch", "kernels"])
END = "<|endoftext|>"  # which GME's code puts at the end


def load(folder: Path, **options: Any) -> Embedder:
    return Embedder.load(folder, device="cpu", **{"dtype": "float32", **options})


@cases
def test_every_layer_equals_transformers(case: Case, tmp_path: Path) -> None:
    assert_equal_states(write(case, tmp_path), tmp_path)


@cases
def test_a_text_is_the_same_bits_in_every_batch(case: Case, tmp_path: Path) -> None:
    write(case, tmp_path)
    assert_same_bits(tmp_path)


@torch.inference_mode()
def test_a_text_has_the_states_of_the_whole_model(tmp_path: Path) -> None:
    model, rows = write_model(tmp_path), texts(99)
    for mine, row in zip(states(encoder(tmp_path), rows, 3), rows, strict=True):
        assert_close(mine, exact_states(model.model, row))


def test_the_names_of_newer_and_older_files_say_the_same(tmp_path: Path) -> None:
    write_model(tmp_path)
    today, before = families.read(tmp_path), loaded(tmp_path)
    rename(tmp_path, {"^model.": "model.language_model.", "^visual.": "model.visual."})
    assert all(np.array_equal(before[name], part) for name, part in loaded(tmp_path).items())
    flatten(tmp_path)
    assert families.read(tmp_path) == today


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"is_causal": False}, "is_causal = False"),
        ({"architectures": ["OwnVLModel"]}, "architectures"),
        ({"auto_map": {"AutoModel": "modeling.OwnVL"}}, "auto_map"),
        ({"text_config": {"model_type": "qwen2"}}, r"text_config\.model_type"),
    ],
)
@pytest.mark.parametrize("is_flat", [True, False])
def test_other_options_are_refused_by_name(
    options: dict[str, Any], named: str, is_flat: bool, tmp_path: Path
) -> None:
    write_model(tmp_path)
    if is_flat:
        flatten(tmp_path)
    edit(tmp_path, **options)
    with pytest.raises(ModelError, match=named):
        families.read(tmp_path)


@pytest.mark.parametrize("modules", [True, False])
def test_texts_are_read_as_in_the_code_of_gme(modules: bool, tmp_path: Path) -> None:
    model = write_gme(tmp_path, modules)
    embedder = load(tmp_path)
    assert embedder.recipe.default_prompt == INSTRUCTION and embedder.recipe.normalize
    for instruction in (None, "Find a license."):
        read = [rendered(text, instruction or INSTRUCTION) + END for text in TEXTS]
        rows = [tokenized(tmp_path, text) for text in read]
        assert embedder.tokenize(TEXTS, prompt=instruction) == rows
        vectors = embedder.embed(TEXTS, prompt=instruction)
        assert_close(torch.from_numpy(vectors), last_states(model, rows))
        for text, vector in zip(TEXTS, vectors, strict=True):
            assert np.array_equal(embedder.embed([text], prompt=instruction)[0], vector)
    plain = embedder.embed(TEXTS, prompt="")  # which gives the default instruction, too
    assert np.array_equal(plain, embedder.embed(TEXTS))


def test_a_long_text_keeps_what_is_around_it(tmp_path: Path) -> None:
    write_gme(tmp_path, max_length=64)
    (row,) = load(tmp_path).tokenize(["you may copy " * 60])
    end = tokenized(tmp_path, rendered("\0").partition("\0")[2] + END)
    whole = tokenized(tmp_path, rendered("you may copy " * 60, INSTRUCTION) + END)
    assert row == [*whole[: 64 - len(end)], *end]


@pytest.mark.parametrize("key", ["auto_map", "architectures"])
def test_a_gme_is_known_by_its_code(key: str, tmp_path: Path) -> None:
    write_qwen2_vl(tmp_path)
    own = {"auto_map": {"AutoModel": "own.GmeQwen2VL"}, "architectures": ["GmeQwen2VL"]}
    edit(tmp_path, **{key: own[key]})
    assert families.read(tmp_path).config.family == "gme"
    assert ModelDescription.read(tmp_path).recipe.pooling == ("lasttoken",)


def test_other_code_in_modules_is_refused(tmp_path: Path) -> None:
    write_gme(tmp_path)
    edit(tmp_path, auto_map=None)
    with pytest.raises(ModelError, match="remote code"):
        ModelDescription.read(tmp_path)


def test_a_model_without_a_known_format_is_refused(tmp_path: Path) -> None:
    write_qwen2_vl(tmp_path)
    with pytest.raises(ModelError, match="a Qwen2-VL without modules"):
        ModelDescription.read(tmp_path)
    assert load(tmp_path, pooling="lasttoken").embed("the license").shape == (64,)


def test_texts_are_read_in_the_template_that_modules_name(tmp_path: Path) -> None:
    model = write_qwen2_vl(tmp_path)
    write_layout(tmp_path)
    embedder = load(tmp_path)
    rows = [tokenized(tmp_path, rendered(text, "Find it.")) for text in TEXTS]
    assert embedder.tokenize(TEXTS, prompt="Find it.") == rows
    vectors = embedder.embed(TEXTS, prompt="Find it.")
    assert_close(torch.from_numpy(vectors), last_states(model, rows))


def by_gme(folder: Path, model: Any, parts: Parts, bounds: tuple[int, int]) -> Expected:
    """The vector by the steps of the code of GME."""

    def read(data: bytes) -> Any:
        return processed(folder, data, bounds, twice=True)

    return theirs(folder, model, parts, read, of_gme=True)


@both
@pytest.mark.parametrize("modules", [True, False])
def test_vectors_of_gme_are_those_of_its_code(
    sizes: dict[str, Any], modules: bool, tmp_path: Path
) -> None:
    model = write_gme(tmp_path, modules, **sizes)
    embedder = load(tmp_path)
    for parts, vector in zip(CONTENTS, embedder.embed_contents(CONTENTS), strict=True):
        assert_close(torch.from_numpy(vector), by_gme(tmp_path, model, parts, BOUNDS))


def test_without_other_limits_gme_has_those_of_its_code(tmp_path: Path) -> None:
    model = write_gme(tmp_path, max_length=2000, num_hidden_layers=1)
    edit(tmp_path, min_image_tokens=None, max_image_tokens=None)
    found = load(tmp_path).embed_contents([[LARGE]])[0]
    assert_close(torch.from_numpy(found), by_gme(tmp_path, model, [LARGE], (256, 1280)))
    patches = ModelDescription.read(tmp_path).patches
    assert patches is not None
    assert patches.tokens(patches.pixels(encoded(picture(1500, 1200)), 1 << 22)) <= 1280


@both
def test_vectors_of_qwen2_vl_are_those_of_transformers(
    sizes: dict[str, Any], tmp_path: Path
) -> None:
    model = write_qwen2_vl(tmp_path, **sizes)
    write_layout(tmp_path, processor_kwargs={"min_pixels": 4 * AREA, "max_pixels": 40 * AREA})
    embedder = load(tmp_path)

    def read(data: bytes) -> Any:
        return processed(tmp_path, data, (4, 40), twice=False)

    vectors = embedder.embed_contents(CONTENTS, prompt=INSTRUCTION)
    for parts, vector in zip(CONTENTS, vectors, strict=True):
        expected = theirs(tmp_path, model, parts, read, of_gme=False)
        assert_close(torch.from_numpy(vector), expected)


@both
def test_a_vector_does_not_depend_on_its_batch_or_route(
    sizes: dict[str, Any], tmp_path: Path
) -> None:
    write_gme(tmp_path, **sizes)
    embedder = load(tmp_path)
    vectors = embedder.embed_contents(CONTENTS)
    for parts, vector in zip(CONTENTS, vectors, strict=True):
        assert np.array_equal(embedder.embed_contents([parts])[0], vector)
    assert np.array_equal(embedder.embed_images([SMALL, WIDE])[1], vectors[0])
    assert np.array_equal(embedder.embed("the license"), vectors[-1])


@pytest.mark.parametrize("size", [(21, 50), (150, 60), (333, 190), (700, 33), (121, 1)], ids=str)
def test_pixels_have_the_numbers_of_the_processor(size: tuple[int, int], tmp_path: Path) -> None:
    write_gme(tmp_path)
    patches = ModelDescription.read(tmp_path).patches
    assert isinstance(patches, PatchPreprocessing)
    data = encoded(picture(*size))
    cut = patches.cut(patches.pixels(data, 1 << 20))
    if 1 in size:  # a strip, which the code makes 28 pixels high before it looks at its pixels
        with Image.open(BytesIO(data)) as image:
            data = encoded(image.resize((112, 28)))
    expected = processed(tmp_path, data, BOUNDS, twice=1 not in size)
    assert expected["image_grid_thw"].tolist() == [[1, cut.rows, cut.columns]]
    np.testing.assert_array_equal(cut.values, expected["pixel_values"].numpy())


def test_a_strip_is_cut_to_200_times_its_height(tmp_path: Path) -> None:
    write_gme(tmp_path)
    edit(tmp_path, max_image_tokens=1280)
    patches = ModelDescription.read(tmp_path).patches
    assert patches is not None  # 41 pixels become 28, so that 8,200 are more than 200 times as many
    with Image.open(BytesIO(encoded(picture(8200, 41)))) as image:
        expected = encoded(image.resize((5600, 28)))
    expected_pixels = patches.pixels(expected, 1 << 20)
    assert expected_pixels.shape == (28, 5600, 3)
    pixels = patches.pixels(encoded(picture(8200, 41)), 1 << 20)
    np.testing.assert_array_equal(pixels, expected_pixels)
    with pytest.raises(ImageError, match="200 times the other"):
        patches.pixels(encoded(picture(201, 1)), 1 << 20)


def test_images_have_to_fit_into_the_length_and_the_limit_of_pixels(tmp_path: Path) -> None:
    write_gme(tmp_path, max_length=64)
    embedder = load(tmp_path)
    with pytest.raises(ImageTokensError, match=r"have \d+ tokens, of which"):
        embedder.embed_contents([[LARGE, WIDE, LARGE]])
    with pytest.raises(ImageError, match="the limit is 9000"):
        embedder.embed_contents([[LARGE]], max_pixels=9000)
    with pytest.raises(ImageError, match="the limit is 1500"):  # of the resized image
        embedder.embed_contents([[SMALL]], max_pixels=1500)


@pytest.mark.parametrize("dtype", ["bfloat16", "int8"])
def test_other_precisions_are_close(dtype: str, tmp_path: Path) -> None:
    skip_without_kernels(dtype)
    write_gme(tmp_path, **OF_KERNELS)
    exact = load(tmp_path).embed_contents(CONTENTS)
    embedder = load(tmp_path, dtype=dtype)
    assert (embedder.embed_contents(CONTENTS) * exact).sum(1).min() > 0.95  # weights are random


def test_the_image_encoder_is_counted(tmp_path: Path) -> None:
    model = write_gme(tmp_path, **OF_KERNELS)
    every = sum(parameter.numel() for parameter in model.model.parameters())
    assert Footprint.of(ModelDescription.read(tmp_path)).parameters == every


@pytest.mark.parametrize(
    ("key", "value"),
    [
        *([("model_type", "own"), ("in_channels", 4), ("hidden_size", 32)]),
        ("rope_parameters", {"rope_type": "default"}),
    ],
)
def test_other_image_encoders_are_refused_by_name(key: str, value: Any, tmp_path: Path) -> None:
    write_model(tmp_path)
    vision = read_json(tmp_path / "config.json")["vision_config"]
    edit(tmp_path, vision_config={**vision, key: value})
    with pytest.raises(ModelError, match=key):
        families.read(tmp_path)


@pytest.mark.parametrize("sections", [[4, 2], [4, 2, "2"], [4, 2, 1]])
def test_other_sections_are_refused_by_name(sections: list[Any], tmp_path: Path) -> None:
    write_model(tmp_path)
    text = read_json(tmp_path / "config.json")["text_config"]
    rope = {**text["rope_parameters"], "mrope_section": sections}
    edit(tmp_path, text_config={**text, "rope_parameters": rope})
    with pytest.raises(ModelError, match="mrope_section"):
        families.read(tmp_path)


def test_the_sizes_of_a_processor_with_older_names_are_read(tmp_path: Path) -> None:
    write_qwen2_vl(tmp_path)
    write_layout(tmp_path)
    file = read_json(tmp_path / "preprocessor_config.json")
    file = {key: value for key, value in file.items() if key not in ("min_pixels", "max_pixels")}
    save(tmp_path, "preprocessor_config.json", {**file, "size": {"max_pixels": 9, "min_pixels": 4}})
    patches = ModelDescription.read(tmp_path).patches
    assert isinstance(patches, PatchPreprocessing)
    assert (patches.min_pixels, patches.max_pixels) == (4, 9)
