"""ColQwen3.5 of colpali-engine, against its steps on transformers' Qwen3.5."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import Qwen3_5Config, Qwen3_5ForConditionalGeneration

from embedwell_models import families
from embedwell_models.config.json_config import read_json
from embedwell_models.description.footprint import Footprint
from embedwell_models.description.model_description import ModelDescription
from embedwell_models.errors import ModelError
from embedwell_vision.specs import ImageTokenSpec
from tests.models import kinds
from tests.models.families.checkpoint import Case, write
from tests.models.families.compiled import skip_without_kernels
from tests.models.families.exact import assert_near, exactly
from tests.models.families.files import change, edit, rename
from tests.models.image_models import encoded, picture
from tests.models.page_models import (
    assert_close_pages,
    assert_same_alone,
    head_tensors,
    load,
    projected,
    random_projection,
)
from tests.models.qwen2_vl import states_of_page
from tests.models.qwen3_vl import MARKS, PROCESSOR, TEMPLATE, save

QUERIES = ["the license", "", "work of any kind, (not) for you"]
PICTURES = [picture(150, 61), picture(21, 50, 1), picture(333, 190, 2)]
PAGES = [encoded(each) for each in PICTURES]
PAGE = (
    "<|im_start|>user\n<|vision_start|><|image_pad|><|vision_end|>Describe the image."
    "<|im_end|><|endoftext|>"
)
WIDTH = 48
TEXT: dict[str, Any] = {
    **{"hidden_size": 64, "num_hidden_layers": 3, "intermediate_size": 96, "head_dim": 32},
    **{"num_attention_heads": 2, "num_key_value_heads": 1, "rms_norm_eps": 0.05},
    **{"linear_num_key_heads": 2, "linear_num_value_heads": 4, "linear_key_head_dim": 16},
    **{"linear_value_head_dim": 24, "full_attention_interval": 2},
    "rope_parameters": {
        **{"rope_type": "default", "rope_theta": 1e6, "partial_rotary_factor": 0.5},
        **{"mrope_section": [4, 2, 2], "mrope_interleaved": True},
    },
}
OF_KERNELS = {"linear_key_head_dim": 32, "linear_value_head_dim": 32, "intermediate_size": 128}
VISION: dict[str, Any] = {
    **{"depth": 2, "hidden_size": 64, "num_heads": 2, "intermediate_size": 48},
    **{"out_hidden_size": 64, "num_position_embeddings": 16},
}
_HEAD = random_projection(WIDTH)
both = pytest.mark.parametrize("sizes", [{}, OF_KERNELS], ids=["torch", "kernels"])


def write_colqwen3_5(folder: Path, **text: Any) -> Any:
    """Save a Qwen3.5 with a projection next to it, with the names that are published."""
    rust = kinds.qwen()
    rust.add_special_tokens(MARKS)
    rust.post_processor = None
    rust.save(str(folder / "tokenizer.json"))
    options = {"model_max_length": 256, "pad_token": "<|endoftext|>"}
    save(folder, "tokenizer_config.json", {**options, "eos_token": "<|im_end|>"})
    save(folder, "chat_template.json", {"chat_template": TEMPLATE})
    save(folder, "preprocessor_config.json", PROCESSOR)
    sizes = {
        "text_config": {**TEXT, "vocab_size": rust.get_vocab_size() + 3, **text},
        **{"vision_config": VISION, "image_token_id": rust.token_to_id("<|image_pad|>")},
    }
    case = Case("qwen3_5", {}, sizes, model=Qwen3_5ForConditionalGeneration)
    model = write(case, folder)
    rename(folder, lambda name: name.removeprefix("model."), head_tensors(_HEAD))
    edit(folder, architectures=["ColQwen3_5"], dim=WIDTH)
    return model


@exactly
def theirs(folder: Path, model: Any, text: str, page: Any = None) -> Any:
    """The vectors of a text or a page, by the steps of the code: (tokens, WIDTH)."""
    return projected(states_of_page(folder, model, text, page), _HEAD)


@both
def test_vectors_are_those_of_the_code(sizes: dict[str, Any], tmp_path: Path) -> None:
    model = write_colqwen3_5(tmp_path, **sizes)
    embedder = load(tmp_path)
    for query, vectors in zip(QUERIES, embedder.embed_tokens(QUERIES, "query"), strict=True):
        assert_near(vectors, theirs(tmp_path, model, query + "<|endoftext|>" * 10))
    for text, vectors in zip(QUERIES[:1], embedder.embed_tokens(QUERIES[:1]), strict=True):
        assert_near(vectors, theirs(tmp_path, model, text))
    for page, vectors in zip(PICTURES, embedder.embed_pages(PAGES), strict=True):
        assert_near(vectors, theirs(tmp_path, model, PAGE, page))


@both
def test_vectors_do_not_depend_on_others(sizes: dict[str, Any], tmp_path: Path) -> None:
    write_colqwen3_5(tmp_path, **sizes)
    assert_same_alone(load(tmp_path), PAGES, QUERIES)


@pytest.mark.parametrize("dtype", ["bfloat16", "int8"])
def test_other_precisions_are_close(dtype: str, tmp_path: Path) -> None:
    skip_without_kernels(dtype)
    write_colqwen3_5(tmp_path, **OF_KERNELS)
    assert_close_pages(tmp_path, dtype, PAGES)


def test_the_description_is_that_of_the_files(tmp_path: Path) -> None:
    model = write_colqwen3_5(tmp_path)
    description = ModelDescription.read(tmp_path)
    assert description.task == "multi_vector" and description.reads_images
    assert description.dim == description.token_dim == WIDTH
    assert description.spec.unread_keys == ()
    parts = [*model.model.parameters(), *_HEAD.parameters()]
    assert Footprint.of(description).parameters == sum(part.numel() for part in parts)


def test_other_parts_of_a_published_model_are_not_read(tmp_path: Path) -> None:
    write_colqwen3_5(tmp_path)
    expected = load(tmp_path).embed_pages(PAGES[:1])[0]
    change(tmp_path, lambda tensors: {**tensors, "mtp.fc.weight": torch.ones(2, 2)})
    assert np.array_equal(load(tmp_path).embed_pages(PAGES[:1])[0], expected)


def test_missing_options_are_those_of_the_code(tmp_path: Path) -> None:
    write_colqwen3_5(tmp_path)
    text = read_json(tmp_path / "config.json")["text_config"]
    del text["rope_parameters"]["mrope_section"]
    edit(tmp_path, "dim", "image_token_id", text_config=text)
    spec = families.read(tmp_path)
    assert spec.token_projection is not None
    assert isinstance(spec.image_tokens, ImageTokenSpec)
    assert spec.token_projection.width == 128
    assert spec.image_tokens.id == Qwen3_5Config().image_token_id
    assert spec.image_tokens.sections == (11, 11, 10)


@pytest.mark.parametrize("key", ["embed_dim", "dims"])
def test_the_width_has_other_names(key: str, tmp_path: Path) -> None:
    write_colqwen3_5(tmp_path)
    edit(tmp_path, dim=None, **{key: 320})
    projection = families.read(tmp_path).token_projection
    assert projection is not None and projection.width == 320


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"retrieval_attention_contract": "bidirectional"}, "retrieval_attention_contract"),
        ({"mask_non_image_embeddings": True}, "mask_non_image_embeddings"),
        ({"vision_config": None}, "vision_config"),
        ({"vision_config": {**VISION, "model_type": "siglip"}}, r"vision_config\.model_type"),
        ({"text_config": {"model_type": "qwen3_5_moe_text"}}, r"text_config\.model_type"),
    ],
)
def test_other_options_are_refused_by_name(
    options: dict[str, Any], named: str, tmp_path: Path
) -> None:
    write_colqwen3_5(tmp_path)
    edit(tmp_path, **options)
    with pytest.raises(ModelError, match=named):
        families.read(tmp_path)


def test_a_checkpoint_without_the_projection_is_refused(tmp_path: Path) -> None:
    write_colqwen3_5(tmp_path)
    change(tmp_path, lambda tensors: {k: v for k, v in tensors.items() if "custom" not in k})
    with pytest.raises(ModelError, match="custom_text_proj"):
        load(tmp_path)
