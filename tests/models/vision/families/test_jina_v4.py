"""Jina v4 as published, against its authors' steps on transformers' Qwen2.5-VL."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from embedwell_models.config.model_options import ModelOptions
from embedwell_models.description import model_fingerprint
from embedwell_models.description.footprint import Footprint
from embedwell_models.description.model_description import ModelDescription
from embedwell_models.embedder import Embedder
from embedwell_models.errors import ImageTokensError, ModelError
from embedwell_models.model_files.card import declared_dimensions
from embedwell_models.model_files.multi_vector import TextRole
from tests.models.families.exact import assert_near
from tests.models.families.files import change, edit
from tests.models.image_models import encoded, picture
from tests.models.jina_v4 import PAGE, TASKS, WIDTH, merge, write_jina_v4
from tests.models.qwen2_vl import OF_KERNELS
from tests.models.qwen3_vl import save

TEXTS = ["the license", "", "ends. "]
PICTURES = [picture(150, 61), picture(21, 50, 1), picture(333, 190, 2)]
IMAGES = [encoded(each) for each in PICTURES]

both = pytest.mark.parametrize("sizes", [{}, OF_KERNELS], ids=["torch", "kernels"])
tasks = pytest.mark.parametrize("task", TASKS)


def load(folder: Path, task: str = "retrieval") -> Embedder:
    return Embedder.load(folder, device="cpu", dtype="float32", adapter=task)


@both
@tasks
def test_vectors_are_those_of_the_code(task: str, sizes: dict[str, Any], tmp_path: Path) -> None:
    reference, embedder = write_jina_v4(tmp_path, **sizes), load(tmp_path, task)
    passage = "Query" if task == "text-matching" else "Passage"
    for name, prefix in {"query": "Query", "passage": passage, "document": passage}.items():
        for text, vector in zip(TEXTS, embedder.embed(TEXTS, prompt_name=name), strict=True):
            assert_near(vector, reference.vector(task, f"{prefix}: {text}"))
    roles: dict[TextRole, str] = {"query": "Query", "document": passage}
    for role, prefix in roles.items():
        for text, found in zip(TEXTS, embedder.embed_tokens(TEXTS, role), strict=True):
            assert_near(found, reference.token_vectors(task, f"{prefix}: {text}"))
    assert np.array_equal(embedder.embed(TEXTS), embedder.embed(TEXTS, prompt_name="query"))
    of_images, of_tokens = embedder.embed_images(IMAGES), embedder.embed_pages(IMAGES)
    for image, vector, found in zip(PICTURES, of_images, of_tokens, strict=True):
        assert_near(vector, reference.vector(task, PAGE, image))
        assert_near(found, reference.token_vectors(task, PAGE, image))


def test_the_tasks_have_different_vectors(tmp_path: Path) -> None:
    write_jina_v4(tmp_path)
    every = [load(tmp_path, task).embed_images(IMAGES[:1]) for task in (*TASKS, "none")]
    for index, vectors in enumerate(every):
        assert all(abs(vectors - other).max() > 0.01 for other in every[index + 1 :])


@both
def test_a_vector_does_not_depend_on_its_batch(sizes: dict[str, Any], tmp_path: Path) -> None:
    write_jina_v4(tmp_path, **sizes)
    embedder = load(tmp_path)
    together = embedder.embed(TEXTS), embedder.embed_images(IMAGES)
    tokens = embedder.embed_tokens(TEXTS), embedder.embed_pages(IMAGES)
    for index, (text, image) in enumerate(zip(TEXTS, IMAGES, strict=True)):
        assert np.array_equal(embedder.embed(text), together[0][index])
        assert np.array_equal(embedder.embed_images(image), together[1][index])
        assert np.array_equal(embedder.embed_tokens(text), tokens[0][index])
        assert np.array_equal(embedder.embed_pages([image])[0], tokens[1][index])


def test_both_outputs_of_a_text_come_from_one_pass(tmp_path: Path) -> None:
    write_jina_v4(tmp_path)
    embedder = load(tmp_path)
    (ids,) = embedder.tokenize(["the license"], prompt_name="query")
    (found,) = embedder.outputs([ids], ["dense", "multi"])
    assert found.dense is not None and found.multi is not None
    (vectors,) = embedder.embed_tokens(["the license"], "query")
    assert np.array_equal(found.multi, vectors) and vectors.shape == (len(ids), WIDTH)
    np.testing.assert_allclose(
        found.dense / np.linalg.norm(found.dense),
        embedder.embed("the license", prompt_name="query"),
        atol=1e-6,
    )


def published(tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """The names before transformers 4.52."""
    return {
        name.replace("model.language_model.", "model.").replace("model.visual.", "visual."): each
        for name, each in tensors.items()
    }


@pytest.mark.parametrize("model_type", ["qwen2_5_vl", "qwen2_5_vl_text", None])
def test_published_files_are_read(model_type: str | None, tmp_path: Path) -> None:
    write_jina_v4(tmp_path)
    expected = load(tmp_path).embed_images(IMAGES)
    change(tmp_path, published)
    config = json.loads((tmp_path / "config.json").read_text(encoding="utf-8"))
    text = config["text_config"]
    del text["layer_types"]  # of a later release
    rope = {"rope_type": "default", "type": "default", "mrope_section": [4, 2, 2]}
    text |= {"rope_theta": text.pop("rope_parameters")["rope_theta"], "rope_scaling": rope}
    of_text = {key: value for key, value in text.items() if key != "model_type"}
    text["max_position_embeddings"] = 128_000
    config = {**of_text, **config, "text_config": text, "model_type": model_type}
    save(tmp_path, "config.json", {key: value for key, value in config.items() if value})
    module = {"idx": 0, "name": "0", "path": "", "type": "custom_st.Transformer"}
    tokenizer = json.loads((tmp_path / "tokenizer_config.json").read_text(encoding="utf-8"))
    save(tmp_path, "tokenizer_config.json", {**tokenizer, "model_max_length": 131_072})
    save(tmp_path, "modules.json", [{**module, "kwargs": ["task", "truncate_dim"]}])
    description = ModelDescription.read(tmp_path, ModelOptions(adapter="retrieval"))
    assert description.spec.unread_keys == () and description.recipe.max_length == 32_768
    assert [*declared_dimensions(tmp_path, 64)] == [16, 32, 64]
    assert np.array_equal(load(tmp_path).embed_images(IMAGES), expected)


def test_an_adapter_is_added_to_the_matrices(tmp_path: Path) -> None:
    write_jina_v4(tmp_path)
    embedder = load(tmp_path, "code")
    expected = embedder.embed_images(IMAGES), embedder.embed_tokens(TEXTS)
    added = published(merge(tmp_path, "code"))
    change(tmp_path, lambda tensors: {name: t + added.get(name, 0) for name, t in tensors.items()})
    merged = load(tmp_path, "none")
    np.testing.assert_allclose(merged.embed_images(IMAGES), expected[0], atol=1e-5)
    for found, vectors in zip(merged.embed_tokens(TEXTS), expected[1], strict=True):
        np.testing.assert_allclose(found, vectors, atol=1e-5)


def test_a_text_with_an_image_is_refused(tmp_path: Path) -> None:
    write_jina_v4(tmp_path)
    with pytest.raises(ValueError, match="one text or one image at a time"):
        load(tmp_path).embed_contents([[IMAGES[0], "the license"]])


def test_an_image_without_its_last_token_is_refused(tmp_path: Path) -> None:
    write_jina_v4(tmp_path)
    pixels = ModelDescription.read(tmp_path, ModelOptions(adapter="code")).patches
    assert pixels is not None
    image = pixels.pixels(IMAGES[0], 10**6)
    embedder = load(tmp_path)
    (ids,) = embedder.tokenize([pixels.text([image])], prompt="")
    end = [*ids].index(embedder.tokenize("<|vision_end|>", prompt="")[0])
    with pytest.raises(ImageTokensError, match="does not fit"):
        embedder.encode_with_images(ids[:end], [image])


def test_a_tensor_of_no_task_is_refused(tmp_path: Path) -> None:
    write_jina_v4(tmp_path)
    path = tmp_path / "adapters/adapter_model.safetensors"
    name = "base_model.model.multi_vector_projector.lora_A"
    save_file({**load_file(path), f"{name}.weight": torch.ones(2, 64)}, path)
    with pytest.raises(ModelError, match=r"lora_A\.weight is not supported"):
        load(tmp_path)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"single_vector_pool_strategy": "last"}, "single_vector_pool_strategy = 'last'"),
        ({"truncate_dim": 16}, "truncate_dim = 16"),
        ({"task_names": "retrieval"}, "task_names = 'retrieval' is not a list"),
    ],
    ids=str,
)
def test_other_options_are_refused(changed: dict[str, Any], message: str, tmp_path: Path) -> None:
    write_jina_v4(tmp_path)
    edit(tmp_path, **changed)
    with pytest.raises(ModelError, match=message):
        load(tmp_path)


def test_every_parameter_is_counted(tmp_path: Path) -> None:
    reference = write_jina_v4(tmp_path)
    found = Footprint.of(ModelDescription.read(tmp_path, ModelOptions(adapter="code"))).parameters
    assert found == reference.parameters


def test_the_file_of_the_adapters_decides_the_fingerprint(tmp_path: Path) -> None:
    write_jina_v4(tmp_path)
    before = model_fingerprint.fingerprint(
        ModelDescription.read(tmp_path, ModelOptions(adapter="code"))
    )
    path = tmp_path / "adapters/adapter_config.json"
    options = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps({**options, "lora_alpha": 1}), encoding="utf-8")
    after = model_fingerprint.fingerprint(
        ModelDescription.read(tmp_path, ModelOptions(adapter="code"))
    )
    assert after != before
