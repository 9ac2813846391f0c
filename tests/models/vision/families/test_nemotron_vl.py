"""Llama Nemotron VL as published, against its authors' steps on transformers' SigLIP and Llama."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from embedwell_models import families
from embedwell_models.config.json_config import read_json
from embedwell_models.description import model_fingerprint
from embedwell_models.description.footprint import Footprint
from embedwell_models.description.model_description import ModelDescription
from embedwell_models.embedder import Embedder
from embedwell_models.errors import ImageError, ImageTokensError, ModelError
from tests.models.families.compiled import skip_without_kernels
from tests.models.families.exact import assert_near
from tests.models.families.files import change, edit, rename
from tests.models.image_models import encoded, picture
from tests.models.model_files.options import NORMALIZE, POOLING, TRANSFORMER
from tests.models.nemotron_vl import SIDE, write_nemotron_rerank_vl, write_nemotron_vl
from tests.models.page_models import load
from tests.models.qwen3_vl import save

TEXTS = ["the license", "work of any kind, (not) for you", ""]
PICTURES = [picture(150, 61), picture(47, 64, 1), picture(301, 299, 2), picture(20, 333, 3)]
IMAGES = [encoded(each) for each in PICTURES]


@pytest.mark.parametrize("isa", ["auto", "none"])
def test_vectors_are_those_of_the_code(isa: str, tmp_path: Path) -> None:
    reference = write_nemotron_vl(tmp_path)
    embedder = load(tmp_path, isa=isa)
    prefixes = {None: "", "query": "query: ", "document": "passage: "}
    for name, prefix in prefixes.items():
        for text, vector in zip(TEXTS, embedder.embed(TEXTS, prompt_name=name), strict=True):
            assert_near(vector, reference.vector(prefix + text))
    for image, vector in zip(PICTURES, embedder.embed_images(IMAGES), strict=True):
        assert_near(vector, reference.vector("passage: <image> ", [image]))
    both = embedder.embed_contents([[image, "the license"] for image in IMAGES])
    for image, vector in zip(PICTURES, both, strict=True):
        assert_near(vector, reference.vector("passage: <image> the license", [image]))
    several = embedder.embed_contents([["any ", IMAGES[0], IMAGES[1], "work"]])[0]
    text = "passage: any <image> <image> work"
    assert_near(several, reference.vector(text, PICTURES[:2]))


def test_a_prompt_is_for_texts_alone(tmp_path: Path) -> None:
    write_nemotron_vl(tmp_path)
    embedder = load(tmp_path)
    contents: list[list[str | bytes]] = [["the license"], [IMAGES[0], "the license"]]
    asked = embedder.embed_contents(contents, prompt_name="query")
    plain = embedder.embed_contents(contents)
    assert np.array_equal(asked[0], embedder.embed("the license", prompt_name="query"))
    assert not np.array_equal(asked[0], plain[0]) and np.array_equal(asked[1], plain[1])


def test_a_vector_does_not_depend_on_others(tmp_path: Path) -> None:
    write_nemotron_vl(tmp_path)
    embedder = load(tmp_path)
    together = embedder.embed_images(IMAGES)
    for image, vector in zip(IMAGES, together, strict=True):
        assert np.array_equal(embedder.embed_images(image), vector)


@pytest.mark.parametrize("dtype", ["bfloat16", "int8"])
def test_other_precisions_are_close(dtype: str, tmp_path: Path) -> None:
    skip_without_kernels(dtype)
    write_nemotron_vl(tmp_path)
    exact = load(tmp_path).embed_images(IMAGES)
    assert (exact * load(tmp_path, dtype=dtype).embed_images(IMAGES)).sum(1).min() > 0.98


def test_the_published_names_of_tensors_are_read(tmp_path: Path) -> None:
    write_nemotron_vl(tmp_path)
    expected = load(tmp_path).embed_images(IMAGES)
    rename(tmp_path, {r"^vision_model\.": "vision_model.vision_model."})
    assert np.array_equal(load(tmp_path).embed_images(IMAGES), expected)
    change(tmp_path, lambda tensors: {k: v for k, v in tensors.items() if k != "mlp1.3.bias"})
    with pytest.raises(ModelError, match=r"mlp1\.3\.bias"):
        load(tmp_path)


def test_the_files_of_sentence_transformers_are_read(tmp_path: Path) -> None:
    reference = write_nemotron_vl(tmp_path)
    (tmp_path / "1_Pooling").mkdir()
    save(tmp_path, "modules.json", [TRANSFORMER, POOLING, NORMALIZE])
    save(tmp_path, "1_Pooling/config.json", {"pooling_mode": "mean", "embedding_dimension": 64})
    prompts = {"query": "query: ", "document": "passage: "}
    save(tmp_path, "config_sentence_transformers.json", {"prompts": prompts})
    method = {"method": "forward", "method_output_name": ["hidden_states", -1]}
    layout: dict[str, Any] = {"modality_config": {"text": method, "image": method}}
    layout |= {"module_output_name": "token_embeddings", "transformer_task": "feature-extraction"}
    save(tmp_path, "sentence_bert_config.json", {**layout, "max_seq_length": 500})
    assert ModelDescription.read(tmp_path).recipe.max_length == 400  # p_max_length
    embedder = load(tmp_path)
    (vector,) = embedder.embed(["the license"], prompt_name="document")
    assert_near(vector, reference.vector("passage: the license"))
    assert_near(
        embedder.embed_images(IMAGES[0]), reference.vector("passage: <image> ", PICTURES[:1])
    )


def test_images_have_to_fit_and_the_text_after_them_is_cut(tmp_path: Path) -> None:
    write_nemotron_vl(tmp_path, max_length=40)
    embedder = load(tmp_path)
    long: list[list[str | bytes]] = [[IMAGES[1], "x " * 200], [IMAGES[1], "x " * 300]]
    cut = embedder.embed_contents(long)
    assert np.array_equal(cut[0], cut[1])
    with pytest.raises(ImageTokensError, match=r"have 44 tokens, of which \d+ fit"):
        embedder.embed_contents([[IMAGES[0], IMAGES[2]]])
    with pytest.raises(ImageTokensError, match="a text next to images has the token <IMG_CONTEXT>"):
        embedder.embed_contents([[IMAGES[1], "<IMG_CONTEXT>"]])
    with pytest.raises(ImageError, match=f"{4 * SIDE} x {SIDE} pixels, the limit is 10000"):
        embedder.embed_images(encoded(picture(200, 50)), max_pixels=10_000)


@pytest.mark.parametrize(
    ("stated", "positions", "length"), [(40, 512, 40), (1000, 512, 512), (None, 20_480, 10_240)]
)
def test_the_length_of_a_text_is_the_least_that_the_files_state(
    stated: int | None, positions: int, length: int, tmp_path: Path
) -> None:
    write_nemotron_vl(tmp_path)
    save(tmp_path, "tokenizer_config.json", {"model_max_length": 16_384})
    text = read_json(tmp_path / "config.json")["llm_config"]
    text = {**text, "max_position_embeddings": positions}
    edit(tmp_path, p_max_length=stated, llm_config=text)
    assert ModelDescription.read(tmp_path).recipe.max_length == length


def test_wrong_calls_name_the_right_one(tmp_path: Path) -> None:
    write_nemotron_vl(tmp_path)
    embedder = load(tmp_path)
    with pytest.raises(ValueError, match="use encode_with_images"):
        embedder.encode_images([])
    (tmp_path / "processor_config.json").unlink()
    texts = load(tmp_path)
    assert texts.embed("the license").shape == (64,) and texts.images is None
    with pytest.raises(ValueError, match="reads no texts with images"):
        texts.embed_contents([[IMAGES[0]]])


def test_every_parameter_but_the_head_is_counted(tmp_path: Path) -> None:
    reference = write_nemotron_vl(tmp_path)
    folder = ModelDescription.read(tmp_path)
    read = [p.numel() for name, p in reference.named_parameters() if ".head." not in name]
    assert Footprint.of(folder).parameters == sum(read)
    assert folder.reads_images and folder.spec.unread_keys == ()
    embedder = load(tmp_path)
    assert embedder.image_dtype == "float32"


def test_the_preprocessing_is_part_of_the_fingerprint(tmp_path: Path) -> None:
    write_nemotron_vl(tmp_path)
    before = model_fingerprint.fingerprint(ModelDescription.read(tmp_path))
    options = read_json(tmp_path / "processor_config.json")
    save(tmp_path, "processor_config.json", {**options, "max_input_tiles": 2})
    assert model_fingerprint.fingerprint(ModelDescription.read(tmp_path)) != before


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("pooling", "last"),
        ("pooling", None),
        ("downsample_ratio", 0.25),
        ("select_layer", -2),
        ("ps_version", "v1"),
        ("force_image_size", 448),
        ("use_llm_lora", 8),
        ("query_prefix", "q:"),
        ("passage_prefix", "p:"),
    ],
)
def test_other_models_are_refused_by_name(key: str, value: Any, tmp_path: Path) -> None:
    write_nemotron_vl(tmp_path)
    edit(tmp_path, **{key: value})
    with pytest.raises(ModelError, match=key):
        families.read(tmp_path)


def test_the_default_pooling_of_the_code_is_refused(tmp_path: Path) -> None:
    write_nemotron_vl(tmp_path)
    edit(tmp_path, "pooling")
    with pytest.raises(ModelError, match="pooling = 'last' is not supported"):
        families.read(tmp_path)


@pytest.mark.parametrize("part", ["llm_config", "vision_config"])
def test_other_parts_are_refused_by_name(part: str, tmp_path: Path) -> None:
    write_nemotron_vl(tmp_path)
    options = read_json(tmp_path / "config.json")[part]
    edit(tmp_path, **{part: {**options, "model_type": "own"}})
    with pytest.raises(ModelError, match=rf"{part}\.model_type"):
        families.read(tmp_path)


PAIRS = [("any", "the license"), ("work of", "a copyright of this work"), ("", "x")]


@pytest.mark.parametrize("temperature", [1.0, 0.5])
def test_the_reranker_scores_texts_in_the_format_of_its_code(
    temperature: float, tmp_path: Path
) -> None:
    reference, score = write_nemotron_rerank_vl(tmp_path, temperature)
    embedder = Embedder.load(tmp_path, device="cpu", dtype="float32")
    assert embedder.classifier is not None and embedder.classifier.reranks
    assert ModelDescription.read(tmp_path).spec.unread_keys == ()
    for (query, document), scores in zip(PAIRS, embedder.score(PAIRS), strict=True):
        text = f"question:{query} \n \n passage:{document}"
        assert_near(scores, reference.score(text, score / temperature))
    edit(tmp_path, prompt_template="v2")
    with pytest.raises(ModelError, match="prompt_template"):
        families.read(tmp_path)
