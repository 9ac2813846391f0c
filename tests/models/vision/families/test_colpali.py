"""Vectors of the tokens of texts and pages, against transformers."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from transformers import GemmaConfig

from embedwell_models import families
from embedwell_models.config.json_config import read_json
from embedwell_models.description.footprint import Footprint
from embedwell_models.description.model_description import ModelDescription
from embedwell_models.errors import ImageTokensError, ModelError
from embedwell_vision.images.pages import SquarePages
from tests.models.colpali import OF_KERNELS, SIZES, write_colpali, write_config, write_processor
from tests.models.families.compiled import skip_without_kernels
from tests.models.families.exact import assert_near
from tests.models.families.files import change, edit
from tests.models.image_models import encoded, picture
from tests.models.page_models import (
    assert_close_pages,
    assert_same_alone,
    edit_processor,
    load,
    token_vectors,
)
from tests.models.qwen3_vl import save

QUERIES = ["the license", "work of any kind, (not) for you", "", "ends. \n"]
PICTURES = [picture(150, 61), picture(21, 50, 1), picture(64, 64, 2), picture(1, 90, 3)]
PAGES = [encoded(each) for each in PICTURES]

both = pytest.mark.parametrize("sizes", [SIZES, OF_KERNELS], ids=["torch", "kernels"])


def of_query(processor: Any, query: str) -> Any:
    """The input that the processor makes of a query."""
    return processor.process_queries([query])


def of_page(processor: Any, page: Any) -> Any:
    """The input that the processor makes of a page, without what training needs."""
    inputs = processor.process_images([page])
    del inputs["labels"]
    return inputs


@both
def test_vectors_are_those_of_transformers(sizes: dict[str, Any], tmp_path: Path) -> None:
    model, processor = write_colpali(tmp_path, sizes=sizes)
    embedder = load(tmp_path)
    for query, vectors in zip(QUERIES, embedder.embed_tokens(QUERIES, "query"), strict=True):
        assert_near(vectors, token_vectors(model, of_query(processor, query)))
    for page, vectors in zip(PICTURES, embedder.embed_pages(PAGES), strict=True):
        assert_near(vectors, token_vectors(model, of_page(processor, page)))


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"query_prefix": "Find: ", "visual_prompt_prefix": "Read it."},
        {"query_prefix": "", "visual_prompt_prefix": ""},
    ],
    ids=["own", "stated", "empty"],
)
def test_ids_and_pixels_are_those_of_the_processor(options: dict[str, Any], tmp_path: Path) -> None:
    processor = write_processor(tmp_path, **options)
    write_config(processor, tmp_path)
    description = ModelDescription.read(tmp_path)
    tokenizer = description.tokenizer()
    rules, pages = description.multi_vector_rules(tokenizer), description.pages
    assert rules is not None and isinstance(pages, SquarePages)
    for query in QUERIES:
        (row,) = tokenizer.encode([description.recipe.prompts["query"] + query])
        assert rules.expand(row.ids, "query") == of_query(processor, query)["input_ids"][0].tolist()
    for page, data in zip(PICTURES, PAGES, strict=True):
        images, expected = pages.images(data, 1 << 20), of_page(processor, page)
        (row,) = tokenizer.encode([pages.text(images)])
        assert [*row.ids] == expected["input_ids"][0].tolist()
        pages.check_tokens(row.ids, images)
        (tile,) = pages.tiles(images)
        values = pages.table()[np.arange(3)[:, None, None], tile.transpose(2, 0, 1)]
        assert np.array_equal(values, expected["pixel_values"][0].numpy())


def test_the_format_has_all_special_tokens(tmp_path: Path) -> None:
    # As the processor turns off what the tokenizer's own file may put before a text.
    processor = write_processor(tmp_path)
    write_config(processor, tmp_path)
    file = read_json(tmp_path / "tokenizer.json")
    token = {"id": "<bos>", "ids": [processor.tokenizer.bos_token_id], "tokens": ["<bos>"]}
    single = [
        {"SpecialToken": {"id": "<bos>", "type_id": 0}},
        {"Sequence": {"id": "A", "type_id": 0}},
    ]
    frame = {"type": "TemplateProcessing", "single": single, "pair": single}
    file["post_processor"] = {**frame, "special_tokens": {"<bos>": token}}
    save(tmp_path, "tokenizer.json", file)
    description = ModelDescription.read(tmp_path)
    (row,) = description.tokenizer().encode([description.recipe.prompts["query"] + "work"])
    expected = of_query(processor, "work")["input_ids"][0].tolist()
    assert [*row.ids] == expected[: len(row.ids)]


@both
def test_vectors_do_not_depend_on_others(sizes: dict[str, Any], tmp_path: Path) -> None:
    write_colpali(tmp_path, sizes=sizes)
    assert_same_alone(load(tmp_path), PAGES, QUERIES)


@pytest.mark.parametrize("dtype", ["bfloat16", "int8"])
def test_other_precisions_are_close(dtype: str, tmp_path: Path) -> None:
    skip_without_kernels(dtype)
    write_colpali(tmp_path, sizes=OF_KERNELS)
    assert_close_pages(tmp_path, dtype, PAGES)


def test_a_page_has_to_fit_into_the_length(tmp_path: Path) -> None:
    write_colpali(tmp_path, max_length=14)
    with pytest.raises(ImageTokensError, match=r"has 16 tokens, of which \d+ fit"):
        load(tmp_path).embed_pages(PAGES)


def test_every_parameter_but_the_head_is_counted(tmp_path: Path) -> None:
    model, _ = write_colpali(tmp_path)
    description = ModelDescription.read(tmp_path)
    read = [p.numel() for name, p in model.named_parameters() if ".head." not in name]
    assert Footprint.of(description).parameters == sum(read)
    assert description.reads_images
    assert description.spec.unread_keys == ()


def test_names_of_other_versions_are_read(tmp_path: Path) -> None:
    write_colpali(tmp_path)
    expected = load(tmp_path).embed_pages(PAGES[:1])

    def later(name: str) -> str:
        name = name.replace("vlm.language_model.model.", "vlm.model.language_model.")
        name = name.replace("vlm.multi_modal", "vlm.model.multi_modal")
        return name.replace("vlm.vision_tower.", "vlm.model.vision_tower.vision_model.")

    change(tmp_path, lambda tensors: {later(name): each for name, each in tensors.items()})
    assert np.array_equal(load(tmp_path).embed_pages(PAGES[:1]), expected)


@pytest.mark.parametrize("part", ["embedding_proj_layer", "multi_modal_projector"])
def test_missing_tensors_are_named(part: str, tmp_path: Path) -> None:
    write_colpali(tmp_path)
    change(tmp_path, lambda tensors: {k: v for k, v in tensors.items() if part not in k})
    with pytest.raises(ModelError, match=part):
        load(tmp_path)


def test_missing_sizes_are_those_of_transformers(tmp_path: Path) -> None:
    write_config(write_processor(tmp_path), tmp_path)
    model, defaults = read_json(tmp_path / "config.json")["vlm_config"], GemmaConfig()
    edit(tmp_path, vlm_config={**model, "text_config": {"model_type": "gemma"}})
    config = families.read(tmp_path).config
    assert config.hidden_size == defaults.hidden_size
    assert config.num_layers == defaults.num_hidden_layers
    assert config.attention.heads == defaults.num_attention_heads
    assert config.attention.head_size == defaults.head_dim
    assert config.feed_forward.inner == defaults.intermediate_size
    assert config.vocab_size == defaults.vocab_size
    assert config.max_positions == defaults.max_position_embeddings


@pytest.mark.parametrize(
    ("part", "key", "value"),
    [
        *([("text_config", "model_type", "gemma2"), ("vision_config", "model_type", "own")]),
        ("text_config", "use_bidirectional_attention", False),
    ],
)
def test_other_models_are_refused_by_name(part: str, key: str, value: Any, tmp_path: Path) -> None:
    write_config(write_processor(tmp_path), tmp_path)
    model = read_json(tmp_path / "config.json")["vlm_config"]
    edit(tmp_path, vlm_config={**model, part: {**model[part], key: value}})
    with pytest.raises(ModelError, match=key):
        families.read(tmp_path)


def test_another_number_of_tokens_is_refused(tmp_path: Path) -> None:
    write_config(write_processor(tmp_path), tmp_path)
    images = read_json(tmp_path / "processor_config.json")["image_processor"]
    edit_processor(tmp_path, image_processor={**images, "image_seq_length": 5})
    with pytest.raises(ModelError, match="image_seq_length"):
        ModelDescription.read(tmp_path)
