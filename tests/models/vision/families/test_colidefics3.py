"""Vectors of the tokens of texts and pages, against the steps of the published code."""

from pathlib import Path
from typing import Any

import pytest

from embedwell_models import families
from embedwell_models.config.json_config import read_json
from embedwell_models.description.footprint import Footprint
from embedwell_models.description.model_description import ModelDescription
from embedwell_models.errors import ImageTokensError, ModelError
from tests.models.colidefics3 import write_colidefics3, write_config, write_processor
from tests.models.families.exact import assert_near
from tests.models.families.files import change, edit
from tests.models.image_models import encoded, picture
from tests.models.page_models import assert_same_alone, load

QUERIES = ["the license", "work of any kind, (not) for you", "ends. "]
PICTURES = [picture(150, 61), picture(47, 64, 1), picture(301, 299, 2)]
PAGES = [encoded(each) for each in PICTURES]
PROMPT = "<|im_start|>User:<image>Describe the image.<end_of_utterance>\nAssistant:"


def of_query(processor: Any, query: str) -> Any:
    """The input of a query."""
    return processor(text=[query + "<end_of_utterance>" * 10], return_tensors="pt")


def of_page(processor: Any, page: Any) -> Any:
    """The input of a page."""
    return processor(text=[PROMPT], images=[[page]], return_tensors="pt")


@pytest.mark.parametrize("isa", ["auto", "none"])
def test_vectors_are_those_of_the_code(isa: str, tmp_path: Path) -> None:
    model, processor = write_colidefics3(tmp_path)
    embedder = load(tmp_path, isa=isa)
    for query, vectors in zip(QUERIES, embedder.embed_tokens(QUERIES, "query"), strict=True):
        assert_near(vectors, model.vectors(of_query(processor, query)))
    for page, vectors in zip(PICTURES, embedder.embed_pages(PAGES), strict=True):
        assert_near(vectors, model.vectors(of_page(processor, page)))


def test_vectors_do_not_depend_on_others(tmp_path: Path) -> None:
    write_colidefics3(tmp_path)
    assert_same_alone(load(tmp_path), PAGES)


def test_ids_and_pixels_are_those_of_the_processor(tmp_path: Path) -> None:
    processor = write_processor(tmp_path)
    write_config(processor, tmp_path)
    description = ModelDescription.read(tmp_path)
    tokenizer, pages = description.tokenizer(), description.pages
    assert pages is not None
    for page, data in zip(PICTURES, PAGES, strict=True):
        images, expected = pages.images(data, 1 << 20), of_page(processor, page)
        (row,) = tokenizer.encode([pages.text(images)])
        assert [*row.ids] == expected["input_ids"][0].tolist()
        assert sum(map(pages.tokens, images)) == 4 * expected["pixel_values"].shape[1]


def test_a_page_has_to_fit_into_the_length(tmp_path: Path) -> None:
    write_colidefics3(tmp_path, max_length=20)
    with pytest.raises(ImageTokensError, match=r"has \d+ tokens, of which \d+ fit"):
        load(tmp_path).embed_pages(PAGES)


def test_every_parameter_is_counted(tmp_path: Path) -> None:
    model, _ = write_colidefics3(tmp_path)
    description = ModelDescription.read(tmp_path)
    every = sum(parameter.numel() for parameter in model.parameters())
    assert Footprint.of(description).parameters == every
    assert description.reads_images
    assert description.spec.unread_keys == ()


@pytest.mark.parametrize("part", ["linear", "connector"])
def test_missing_tensors_are_named(part: str, tmp_path: Path) -> None:
    write_colidefics3(tmp_path)
    change(tmp_path, lambda tensors: {k: v for k, v in tensors.items() if part not in k})
    with pytest.raises(ModelError, match=part):
        load(tmp_path)


def test_an_idefics3_without_a_projection_is_refused(tmp_path: Path) -> None:
    write_config(write_processor(tmp_path), tmp_path)
    edit(tmp_path, architectures=["Idefics3ForConditionalGeneration"])
    with pytest.raises(ModelError, match="architectures"):
        families.read(tmp_path)


@pytest.mark.parametrize(
    ("part", "key", "value"),
    [
        *([("text_config", "model_type", "own"), ("vision_config", "model_type", "own")]),
        ("text_config", "qk_layer_norms", True),
    ],
)
def test_other_models_are_refused_by_name(part: str, key: str, value: Any, tmp_path: Path) -> None:
    write_config(write_processor(tmp_path), tmp_path)
    config = read_json(tmp_path / "config.json")
    edit(tmp_path, **{part: {**config[part], key: value}})
    with pytest.raises(ModelError, match=key):
        families.read(tmp_path)
