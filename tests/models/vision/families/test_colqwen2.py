"""Vectors of the tokens of texts and pages, against transformers."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sentence_transformers import MultiVectorEncoder
from transformers import Qwen2VLImageProcessorPil

from embedwell_models import families
from embedwell_models.config.json_config import read_json
from embedwell_models.description import model_fingerprint
from embedwell_models.description.footprint import Footprint
from embedwell_models.description.model_description import ModelDescription
from embedwell_models.errors import ImageTokensError, ModelError
from embedwell_vision.images.patches import PatchPreprocessing
from tests.models.colqwen2 import AREA, write_colqwen2, write_config, write_processor
from tests.models.families.compiled import skip_without_kernels
from tests.models.families.exact import assert_near, exactly
from tests.models.families.files import change, edit
from tests.models.image_models import encoded, picture
from tests.models.model_files.options import TRANSFORMER
from tests.models.page_models import (
    assert_close_pages,
    assert_same_alone,
    edit_processor,
    load,
    token_vectors,
)
from tests.models.qwen2_vl import OF_KERNELS, SIZES
from tests.models.qwen3_vl import save

QUERIES = ["the license", "work of any kind, (not) for you", "", "ends. \n"]
PICTURES = [picture(150, 61), picture(21, 50, 1), picture(333, 190, 2), picture(700, 33, 3)]
PAGES = [encoded(each) for each in PICTURES]

both = pytest.mark.parametrize("sizes", [SIZES, OF_KERNELS], ids=["torch", "kernels"])


@both
def test_vectors_are_those_of_transformers(sizes: dict[str, Any], tmp_path: Path) -> None:
    model, processor = write_colqwen2(tmp_path, sizes=sizes)
    embedder = load(tmp_path)
    for query, vectors in zip(QUERIES, embedder.embed_tokens(QUERIES, "query"), strict=True):
        assert_near(vectors, token_vectors(model, processor.process_queries([query])))
    for text, vectors in zip(QUERIES[:2], embedder.embed_tokens(QUERIES[:2]), strict=True):
        assert_near(vectors, token_vectors(model, processor.tokenizer(text, return_tensors="pt")))
    for page, vectors in zip(PICTURES, embedder.embed_pages(PAGES), strict=True):
        assert_near(vectors, token_vectors(model, processor.process_images([page])))


@pytest.mark.parametrize("size", [(150, 61), (21, 50), (333, 190), (700, 33), (28, 57)], ids=str)
def test_pixels_are_those_of_the_processor(size: tuple[int, int], tmp_path: Path) -> None:
    processor = write_processor(tmp_path)
    write_config(processor, tmp_path)
    pages = ModelDescription.read(tmp_path).pages
    assert isinstance(pages, PatchPreprocessing)
    (pixels,) = pages.images(encoded(picture(*size)), 1 << 20)
    cut, expected = pages.cut(pixels), processor.process_images([picture(*size)])
    assert expected["image_grid_thw"].tolist() == [[1, cut.rows, cut.columns]]
    assert np.array_equal(cut.values, expected["pixel_values"][0].numpy())


@pytest.mark.parametrize("options", [{}, {"query_prefix": "Find: "}], ids=["own", "stated"])
def test_ids_are_those_of_the_processor(options: dict[str, Any], tmp_path: Path) -> None:
    processor = write_processor(tmp_path, **options)
    write_config(processor, tmp_path)
    description = ModelDescription.read(tmp_path)
    tokenizer = description.tokenizer()
    rules, pages = description.multi_vector_rules(tokenizer), description.pages
    assert rules is not None and pages is not None
    for query in QUERIES:
        (row,) = tokenizer.encode([description.recipe.prompts["query"] + query])
        expected = processor.process_queries([query])["input_ids"][0].tolist()
        assert rules.expand(row.ids, "query") == expected
    for page, data in zip(PICTURES, PAGES, strict=True):
        (row,) = tokenizer.encode([pages.text(pages.images(data, 1 << 20))])
        assert [*row.ids] == processor.process_images([page])["input_ids"][0].tolist()


def test_the_prompt_of_a_page_is_that_of_the_processor(tmp_path: Path) -> None:
    prompt = "<|image_pad|>Read it."
    model, processor = write_colqwen2(tmp_path, visual_prompt_prefix=prompt)
    expected = token_vectors(model, processor.process_images(PICTURES[:1]))
    assert_near(load(tmp_path).embed_pages(PAGES[:1])[0], expected)


@both
def test_vectors_do_not_depend_on_others(sizes: dict[str, Any], tmp_path: Path) -> None:
    write_colqwen2(tmp_path, sizes=sizes)
    assert_same_alone(load(tmp_path), PAGES, QUERIES)


@pytest.mark.parametrize("dtype", ["bfloat16", "int8"])
def test_other_precisions_are_close(dtype: str, tmp_path: Path) -> None:
    skip_without_kernels(dtype)
    write_colqwen2(tmp_path, sizes=OF_KERNELS)
    assert_close_pages(tmp_path, dtype, PAGES)


def test_a_page_has_to_fit_into_the_length(tmp_path: Path) -> None:
    write_colqwen2(tmp_path, max_length=24)
    with pytest.raises(ImageTokensError, match=r"have \d+ tokens, of which"):
        load(tmp_path).embed_pages(PAGES)


def test_wrong_calls_name_the_right_one(tmp_path: Path) -> None:
    write_colqwen2(tmp_path)
    embedder = load(tmp_path)
    with pytest.raises(ValueError, match="use embed_pages"):
        embedder.embed_images(PAGES)
    with pytest.raises(ValueError, match="use encode_page"):
        embedder.encode_images([])
    with pytest.raises(ValueError, match="reads no texts with images"):
        embedder.embed_contents([PAGES])


def test_every_parameter_is_counted(tmp_path: Path) -> None:
    model, _ = write_colqwen2(tmp_path)
    description = ModelDescription.read(tmp_path)
    every = sum(parameter.numel() for parameter in model.parameters())
    assert Footprint.of(description).parameters == every
    assert description.reads_images
    assert description.spec.unread_keys == ()


def test_the_preprocessing_is_part_of_the_fingerprint(tmp_path: Path) -> None:
    write_colqwen2(tmp_path)
    before = model_fingerprint.fingerprint(ModelDescription.read(tmp_path))
    edit_processor(tmp_path, query_prefix="Find ")
    assert model_fingerprint.fingerprint(ModelDescription.read(tmp_path)) != before


def test_names_of_earlier_versions_are_read(tmp_path: Path) -> None:
    write_colqwen2(tmp_path)
    expected = load(tmp_path).embed_pages(PAGES[:1])

    def earlier(name: str) -> str:
        return name.replace("vlm.language_model.", "vlm.model.")

    change(tmp_path, lambda tensors: {earlier(name): each for name, each in tensors.items()})
    assert np.array_equal(load(tmp_path).embed_pages(PAGES[:1]), expected)


def test_the_files_of_sentence_transformers_are_read(tmp_path: Path) -> None:
    write_colqwen2(tmp_path / "own")
    theirs = MultiVectorEncoder(str(tmp_path / "own"), device="cpu")
    theirs.save(str(tmp_path / "theirs"))
    embedder = load(tmp_path / "theirs")
    for query, vectors in zip(QUERIES, embedder.embed_tokens(QUERIES, "query"), strict=True):
        assert_near(vectors, exactly(theirs.encode_query)(query))
    for page, vectors in zip(PICTURES, embedder.embed_pages(PAGES), strict=True):
        assert_near(vectors, exactly(theirs.encode_document)(page))


def test_the_files_of_sentence_transformers_may_state_sizes(tmp_path: Path) -> None:
    write_config(write_processor(tmp_path), tmp_path)
    save(tmp_path, "modules.json", [TRANSFORMER])
    bounds = {"min_pixels": 4 * AREA, "max_pixels": 6 * AREA}
    save(tmp_path, "sentence_bert_config.json", {"processor_kwargs": bounds})
    pages = ModelDescription.read(tmp_path).pages
    assert isinstance(pages, PatchPreprocessing)
    size = {"shortest_edge": 4 * AREA, "longest_edge": 6 * AREA}
    processor: Any = Qwen2VLImageProcessorPil.from_pretrained(tmp_path, size=size)
    for page, data in zip(PICTURES, PAGES, strict=True):
        cut = pages.cut(pages.images(data, 1 << 20)[0])
        expected = processor(page, return_tensors="pt")["pixel_values"]
        assert np.array_equal(cut.values, expected.numpy())


@pytest.mark.parametrize(
    ("mask", "named"),
    [({"skiplist_words": ["."]}, "skiplist_words"), ({"keep_only_token_ids": [1]}, "keep_only")],
)
def test_tokens_without_a_vector_are_refused(
    mask: dict[str, Any], named: str, tmp_path: Path
) -> None:
    write_colqwen2(tmp_path / "own")
    MultiVectorEncoder(str(tmp_path / "own"), device="cpu").save(str(tmp_path / "theirs"))
    save(tmp_path / "theirs" / "1_MultiVectorMask", "config.json", mask)
    with pytest.raises(ModelError, match=named):
        ModelDescription.read(tmp_path / "theirs")


def test_a_projection_after_that_of_the_model_is_refused(tmp_path: Path) -> None:
    write_config(write_processor(tmp_path), tmp_path)
    dense = {"name": "1", "type": "sentence_transformers.models.Dense", "path": "1_Dense"}
    save(tmp_path, "modules.json", [TRANSFORMER, dense])
    with pytest.raises(ModelError, match=r"\['Transformer', 'Dense'\] of a multi-vector model"):
        ModelDescription.read(tmp_path)


def test_missing_tensors_are_named(tmp_path: Path) -> None:
    write_colqwen2(tmp_path)
    change(tmp_path, lambda tensors: {k: v for k, v in tensors.items() if "proj_layer" not in k})
    with pytest.raises(ModelError, match="embedding_proj_layer"):
        load(tmp_path)


def test_a_model_of_another_body_is_refused(tmp_path: Path) -> None:
    write_config(write_processor(tmp_path), tmp_path)
    model = read_json(tmp_path / "config.json")["vlm_config"]
    edit(tmp_path, vlm_config={**model, "model_type": "own"})
    with pytest.raises(ModelError, match="model_type"):
        families.read(tmp_path)
