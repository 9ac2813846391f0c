"""Vectors of the tokens of texts and pages, against transformers."""

from pathlib import Path
from typing import Any

import pytest
from transformers import ModernVBertConfig

from embedwell_models import families
from embedwell_models.config.json_config import read_json
from embedwell_models.description import model_fingerprint
from embedwell_models.description.footprint import Footprint
from embedwell_models.description.model_description import ModelDescription
from embedwell_models.errors import ImageTokensError, ModelError
from tests.models.colmodernvbert import write_colmodernvbert, write_processor
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

QUERIES = ["the license", "work of any kind, (not) for you", ""]
PICTURES = [picture(150, 61), picture(47, 64, 1), picture(301, 299, 2)]
PAGES = [encoded(each) for each in PICTURES]


@pytest.mark.parametrize("isa", ["auto", "none"])
def test_vectors_are_those_of_transformers(isa: str, tmp_path: Path) -> None:
    model, processor = write_colmodernvbert(tmp_path, query_prefix="Find ")
    embedder = load(tmp_path, isa=isa)
    for query, vectors in zip(QUERIES, embedder.embed_tokens(QUERIES, "query"), strict=True):
        assert_near(vectors, token_vectors(model, processor.process_queries(query)))
    for text, vectors in zip(QUERIES, embedder.embed_tokens(QUERIES), strict=True):
        assert_near(vectors, token_vectors(model, processor(text=[text], return_tensors="pt")))
    for page, vectors in zip(PICTURES, embedder.embed_pages(PAGES), strict=True):
        assert_near(vectors, token_vectors(model, processor.process_images([page])))


def test_vectors_do_not_depend_on_others(tmp_path: Path) -> None:
    write_colmodernvbert(tmp_path)
    assert_same_alone(load(tmp_path), PAGES)


@pytest.mark.parametrize("dtype", ["bfloat16", "int8"])
def test_other_precisions_are_close(dtype: str, tmp_path: Path) -> None:
    skip_without_kernels(dtype)
    write_colmodernvbert(tmp_path)
    assert_close_pages(tmp_path, dtype, PAGES)


def test_a_long_query_is_cut_before_its_suffix(tmp_path: Path) -> None:
    model, processor = write_colmodernvbert(tmp_path, max_length=40)
    embedder = load(tmp_path)
    found = embedder.embed_tokens("work " * 100, "query")
    suffix = "<end_of_utterance>" * 10
    ids = embedder.tokenizer.encode(["work " * 100])[0].ids[:29]
    text = embedder.tokenizer.decode([ids])[0].strip() + suffix
    assert_near(found, token_vectors(model, processor(text=[text], return_tensors="pt")))
    with pytest.raises(ImageTokensError, match=r"the page has 12 tokens, of which \d+ fit"):
        embedder.embed_pages(PAGES)


def test_wrong_calls_name_the_right_one(tmp_path: Path) -> None:
    write_colmodernvbert(tmp_path)
    embedder = load(tmp_path)
    with pytest.raises(ValueError, match="use embed_pages"):
        embedder.embed_images(PAGES)
    with pytest.raises(ValueError, match="use encode_page"):
        embedder.encode_images([])
    wrong: list[Any] = [PAGES[0], ["a"]]
    for images in wrong:
        with pytest.raises(TypeError):
            embedder.embed_pages(images)
    (tmp_path / "processor_config.json").unlink()
    texts = load(tmp_path)
    assert texts.embed_tokens("work").shape[1] == 16
    with pytest.raises(ValueError, match=r"use embed_tokens\(texts\)"):
        texts.embed_pages(PAGES)


def test_every_parameter_but_the_head_is_counted(tmp_path: Path) -> None:
    model, _ = write_colmodernvbert(tmp_path)
    folder = ModelDescription.read(tmp_path)
    read = [p.numel() for name, p in model.named_parameters() if ".head." not in name]
    assert Footprint.of(folder).parameters == sum(read)
    assert folder.reads_images
    assert folder.spec.unread_keys == ()


def test_the_preprocessing_is_part_of_the_fingerprint(tmp_path: Path) -> None:
    write_colmodernvbert(tmp_path)
    before = model_fingerprint.fingerprint(ModelDescription.read(tmp_path))
    edit_processor(tmp_path, query_prefix="Find ")
    assert model_fingerprint.fingerprint(ModelDescription.read(tmp_path)) != before


def test_missing_and_unknown_tensors_are_named(tmp_path: Path) -> None:
    write_colmodernvbert(tmp_path)
    change(tmp_path, lambda tensors: {k: v for k, v in tensors.items() if "connector" not in k})
    with pytest.raises(ModelError, match=r"connector\.modality_projection"):
        load(tmp_path)


def test_a_tokenizer_without_the_token_after_queries_is_refused(tmp_path: Path) -> None:
    write_colmodernvbert(tmp_path)
    file = tmp_path / "tokenizer.json"
    content = file.read_text(encoding="utf-8").replace("<end_of_utterance>", "<other>")
    file.write_text(content, encoding="utf-8")
    options = (tmp_path / "tokenizer_config.json").read_text(encoding="utf-8")
    (tmp_path / "tokenizer_config.json").write_text(
        options.replace("<end_of_utterance>", "<other>"), encoding="utf-8"
    )
    with pytest.raises(ModelError, match="queries end with"):
        load(tmp_path)


def test_missing_sizes_are_those_of_transformers(tmp_path: Path) -> None:
    write_processor(tmp_path)
    model = read_json(tmp_path / "config.json")["vlm_config"]
    edit(tmp_path, vlm_config={**model, "text_config": {}, "vision_config": {}})
    defaults: Any = ModernVBertConfig()
    spec = families.read(tmp_path)
    assert spec.images is not None
    for config, expected in (
        (spec.config, defaults.text_config),
        (spec.images.encoder.config, defaults.vision_config),
    ):
        assert config.hidden_size == expected.hidden_size
        assert config.num_layers == expected.num_hidden_layers
        assert config.attention.heads == expected.num_attention_heads
        assert config.feed_forward.inner == expected.intermediate_size
    assert spec.config.vocab_size == defaults.text_config.vocab_size
    assert spec.config.max_positions == defaults.text_config.max_position_embeddings


@pytest.mark.parametrize(
    ("part", "key", "value"),
    [
        *([("text_config", "model_type", "own"), ("vision_config", "model_type", "own")]),
        *([("vision_config", "num_channels", 4), ("vision_config", "image_size", 48)]),
    ],
)
def test_other_models_are_refused_by_name(part: str, key: str, value: Any, tmp_path: Path) -> None:
    write_processor(tmp_path)
    model = read_json(tmp_path / "config.json")["vlm_config"]
    edit(tmp_path, vlm_config={**model, part: {**model[part], key: value}})
    with pytest.raises(ModelError, match=key):
        families.read(tmp_path)
