"""Vectors of the tokens of texts and pages of ColQwen3, against the steps of its authors' code."""

import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from transformers import Qwen2VLImageProcessorPil

from embedwell_models import families
from embedwell_models.config.json_config import read_json
from embedwell_models.description import model_fingerprint
from embedwell_models.description.footprint import Footprint
from embedwell_models.description.model_description import ModelDescription
from embedwell_models.embedder import Embedder
from embedwell_models.errors import ImageTokensError, ModelError
from embedwell_vision.images.patches import PatchPreprocessing
from tests.models.colqwen3 import AREA, PUBLICATIONS, write_colqwen3
from tests.models.families.compiled import skip_without_kernels
from tests.models.families.exact import assert_near
from tests.models.families.files import change, edit
from tests.models.image_models import encoded, picture
from tests.models.nomic_multimodal import write_adapter
from tests.models.page_models import (
    assert_close_pages,
    assert_same_alone,
    edit_processor,
    load,
)
from tests.models.qwen3_vl import OF_KERNELS, save, tokenized

QUERIES = ["the license", "work of any kind, (not) for you", ""]
PICTURES = [picture(150, 61), picture(21, 50, 1), picture(333, 190, 2)]
PAGES = [encoded(each) for each in PICTURES]
ADAPTED = re.compile(
    r"language_model\.layers\..*(down|gate|up|k|q|v|o)_proj\.weight|custom_text_proj\.weight"
)

both = pytest.mark.parametrize("sizes", [{}, OF_KERNELS], ids=["torch", "kernels"])
every = pytest.mark.parametrize("name", PUBLICATIONS)


@both
@every
def test_vectors_are_those_of_the_code(name: str, sizes: dict[str, Any], tmp_path: Path) -> None:
    model = write_colqwen3(tmp_path, name, **sizes)
    embedder = load(tmp_path)
    for query, vectors in zip(QUERIES, embedder.embed_tokens(QUERIES, "query"), strict=True):
        assert_near(vectors, model.vectors(model.query(query)))
    for text, vectors in zip(QUERIES[:2], embedder.embed_tokens(QUERIES[:2]), strict=True):
        assert_near(vectors, model.vectors(model.of.document.format(text)))
    for page, vectors in zip(PICTURES, embedder.embed_pages(PAGES), strict=True):
        assert_near(vectors, model.vectors(model.page(), page))


@every
def test_the_description_is_that_of_the_files(name: str, tmp_path: Path) -> None:
    model = write_colqwen3(tmp_path, name)
    description = ModelDescription.read(tmp_path)
    assert description.task == "multi_vector" and description.reads_images
    assert description.dim == description.token_dim == model.of.width
    assert description.spec.unread_keys == ()
    parts = [*model.model.model.parameters(), *model.head.parameters()]
    assert Footprint.of(description).parameters == sum(part.numel() for part in parts)


@both
@every
def test_vectors_do_not_depend_on_others(name: str, sizes: dict[str, Any], tmp_path: Path) -> None:
    write_colqwen3(tmp_path, name, **sizes)
    assert_same_alone(load(tmp_path), PAGES, QUERIES)


@pytest.mark.parametrize("dtype", ["bfloat16", "int8"])
@pytest.mark.parametrize("name", ["tomoro", "nemotron"])
def test_other_precisions_are_close(name: str, dtype: str, tmp_path: Path) -> None:
    skip_without_kernels(dtype)
    write_colqwen3(tmp_path, name, **OF_KERNELS)
    assert_close_pages(tmp_path, dtype, PAGES)


def test_the_first_numbers_of_a_vector_are_kept(tmp_path: Path) -> None:
    model = write_colqwen3(tmp_path, "ops")
    edit(tmp_path, dims=24)
    embedder = load(tmp_path)
    expected = model.vectors(model.page(), PICTURES[0], width=24)
    assert_near(embedder.embed_pages(PAGES[:1])[0], expected)
    description = ModelDescription.read(tmp_path)
    assert description.dim == description.token_dim == 24


@pytest.mark.parametrize(("name", "width"), [("tomoro", 320), ("ops", 64), ("engine", 128)])
def test_a_vector_has_the_width_of_the_code_by_default(
    name: str, width: int, tmp_path: Path
) -> None:
    write_colqwen3(tmp_path, name)
    edit(tmp_path, "embed_dim", "dims", "dim")
    description = ModelDescription.read(tmp_path)
    assert description.dim == description.token_dim == width


@pytest.mark.parametrize("size", [(1900, 1400), (700, 350), (30, 40)], ids=str)
@pytest.mark.parametrize("name", ["tomoro", "ops"])
def test_pixels_are_those_of_the_code(name: str, size: tuple[int, int], tmp_path: Path) -> None:
    model = write_colqwen3(tmp_path, name)
    pages = ModelDescription.read(tmp_path).pages
    assert isinstance(pages, PatchPreprocessing)
    (pixels,) = pages.images(encoded(picture(*size)), 1 << 23)
    processor: Any = Qwen2VLImageProcessorPil.from_pretrained(tmp_path, size=dict(model.of.size))
    cut, expected = pages.cut(pixels), processor(picture(*size), return_tensors="pt")
    assert expected["image_grid_thw"].tolist() == [[1, cut.rows, cut.columns]]
    assert np.array_equal(cut.values, expected["pixel_values"].numpy())
    assert pages.tokens(pixels) <= model.of.size["longest_edge"] // AREA


def test_the_files_of_a_processor_replace_the_texts(tmp_path: Path) -> None:
    model = write_colqwen3(tmp_path)
    texts = {"visual_prompt_prefix": "<|image_pad|>Read.", "visual_prompt_suffix": "<|im_end|>"}
    edit_processor(tmp_path, **texts, query_prefix="Find: ")
    embedder = load(tmp_path)
    page = model.vectors("<|image_pad|>Read.<|im_end|>", PICTURES[0])
    assert_near(embedder.embed_pages(PAGES[:1])[0], page)
    expected = model.vectors(model.query("Find: work"))
    assert_near(embedder.embed_tokens("work", "query"), expected)
    assert_near(embedder.embed_tokens("work"), expected)


def test_no_text_may_follow_the_prompt_of_a_page(tmp_path: Path) -> None:
    model = write_colqwen3(tmp_path)
    edit_processor(tmp_path, visual_prompt_suffix="")
    page = model.vectors(model.of.processor["visual_prompt_prefix"], PICTURES[0])
    assert_near(load(tmp_path).embed_pages(PAGES[:1])[0], page)


def test_a_query_may_have_no_prefix(tmp_path: Path) -> None:
    write_colqwen3(tmp_path, "nemotron")
    edit_processor(tmp_path, query_prefix="")
    prompts = ModelDescription.read(tmp_path).recipe.prompts
    assert prompts == {"query": "<|im_start|>user\nQuery: ", "document": ""}


@pytest.mark.parametrize(
    ("options", "length"), [({}, 512), ({"q_max_length": 40}, 40)], ids=["own", "stated"]
)
def test_a_long_query_is_cut_before_the_end_of_the_chat(
    options: dict[str, int], length: int, tmp_path: Path
) -> None:
    model = write_colqwen3(tmp_path, "nemotron", max_length=1024)
    edit_processor(tmp_path, **{"q_max_length": None, **options})
    description = ModelDescription.read(tmp_path)
    tokenizer = description.tokenizer()
    rules = description.multi_vector_rules(tokenizer)
    assert rules is not None and rules.max_length("document") == 1024
    (row,) = tokenizer.encode([description.recipe.prompts["query"] + "work " * 600])
    cut = tokenizer.truncate(row.ids, max_length=rules.max_length("query")).ids
    ids = rules.expand(cut, "query")
    whole, end = (tokenized(tmp_path, model.query("work " * n)) for n in (600, 0))
    count = len(tokenized(tmp_path, model.query("").partition("<|im_end|>")[2])) + 1
    assert len(ids) == length
    assert ids == [*whole[: length - count], *end[-count:]]


def test_a_text_leaves_room_for_the_tokens_after_it(tmp_path: Path) -> None:
    model = write_colqwen3(tmp_path, max_length=40)
    embedder = load(tmp_path)
    for role in ("query", "document"):
        ids = embedder.tokenizer.encode(["work " * 60])[0].ids[:30]
        expected = model.vectors(model.query(embedder.tokenizer.decode([ids])[0]))
        assert_near(embedder.embed_tokens("work " * 60, role), expected)
    with pytest.raises(ImageTokensError, match=r"have \d+ tokens, of which"):
        embedder.embed_pages(PAGES)


def test_the_files_of_sentence_transformers_change_nothing(tmp_path: Path) -> None:
    # As the published folders have them; the model's own code needs its author's repository.
    write_colqwen3(tmp_path)
    before = ModelDescription.read(tmp_path)
    modules = ["base.modules.transformer.Transformer", "base.modules.normalize.Normalize"]
    paths = ["", "1_Normalize"]
    entries = [
        {"idx": i, "name": str(i), "path": path, "type": f"sentence_transformers.{module}"}
        for i, (path, module) in enumerate(zip(paths, modules, strict=True))
    ]
    save(tmp_path, "modules.json", entries)
    save(tmp_path, "config_sentence_transformers.json", {"model_type": "MultiVectorEncoder"})
    output = {"method": "forward", "method_output_name": "embeddings"}
    options = {"transformer_task": "retrieval", "modality_config": {"text": output}}
    save(tmp_path, "sentence_bert_config.json", {**options, "max_seq_length": 100})
    after = ModelDescription.read(tmp_path)
    assert after.multi_vector == before.multi_vector
    assert after.recipe == replace(before.recipe, max_length=100)


def test_the_preprocessing_is_part_of_the_fingerprint(tmp_path: Path) -> None:
    write_colqwen3(tmp_path)
    before = model_fingerprint.fingerprint(ModelDescription.read(tmp_path))
    edit_processor(tmp_path, query_prefix="Find ")
    assert model_fingerprint.fingerprint(ModelDescription.read(tmp_path)) != before


def test_an_adapter_changes_the_body_and_the_projection(tmp_path: Path) -> None:
    base, adapter, merged = (tmp_path / name for name in ("base", "adapter", "merged"))
    write_colqwen3(base, "engine")
    shutil.copytree(base, merged)
    adapter.mkdir()
    added = write_adapter(adapter, base, ADAPTED)
    assert "custom_text_proj.weight" in added
    change(merged, lambda tensors: {k: each + added.get(k, 0) for k, each in tensors.items()})
    embedder = Embedder.load(adapter, device="cpu", dtype="float32", cache=tmp_path / "cache")
    expected = load(merged).embed_pages(PAGES[:1])[0]
    assert np.abs(expected - load(base).embed_pages(PAGES[:1])[0]).max() > 0.1
    np.testing.assert_allclose(embedder.embed_pages(PAGES[:1])[0], expected, atol=1e-5)


@pytest.mark.parametrize("name", ["tomoro", "ops", "engine"])
def test_a_missing_projection_is_named(name: str, tmp_path: Path) -> None:
    write_colqwen3(tmp_path, name)
    head = PUBLICATIONS[name].head
    change(tmp_path, lambda tensors: {k: v for k, v in tensors.items() if head not in k})
    with pytest.raises(ModelError, match=head):
        load(tmp_path)


@pytest.mark.parametrize(
    ("name", "options", "named"),
    [
        ("ops", {"dims": 65}, "dims = 65"),
        ("ops", {"dims": 0}, "dims = 0"),
        ("ops", {"mask_non_image_embeddings": True}, "mask_non_image_embeddings"),
        ("nemotron", {"pooling": "avg"}, "pooling"),
        ("nemotron", {"vision_config": None}, "vision_config"),
        ("tomoro", {"auto_map": {"AutoModel": "modeling.Own"}}, "auto_map"),
    ],
)
def test_other_options_are_refused_by_name(
    name: str, options: dict[str, Any], named: str, tmp_path: Path
) -> None:
    write_colqwen3(tmp_path, name)
    edit(tmp_path, **options)
    with pytest.raises(ModelError, match=named):
        families.read(tmp_path)


def test_another_text_before_passages_is_refused(tmp_path: Path) -> None:
    write_colqwen3(tmp_path, "nemotron")
    edit_processor(tmp_path, passage_prefix="document:")
    with pytest.raises(ModelError, match="passage_prefix = 'document:'"):
        ModelDescription.read(tmp_path)


def test_a_qwen3_vl_of_another_class_has_one_vector_for_a_text(tmp_path: Path) -> None:
    write_colqwen3(tmp_path, "engine")
    edit(tmp_path, architectures=["Qwen3VLForConditionalGeneration"])
    assert read_json(tmp_path / "config.json")["model_type"] == "qwen3_vl"
    assert families.read(tmp_path).page_format is None
