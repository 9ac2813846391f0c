"""nomic-embed-multimodal as published, against its authors' steps on transformers' Qwen2.5-VL."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from embedwell_models.description.footprint import Footprint
from embedwell_models.description.model_description import ModelDescription
from embedwell_models.embedder import Embedder
from embedwell_models.hub.sources import resolve
from tests.models.families.exact import assert_near, exactly
from tests.models.families.files import change, edit
from tests.models.image_models import encoded, picture
from tests.models.nomic_multimodal import write_adapter, write_nomic_multimodal
from tests.models.qwen2_vl import OF_KERNELS, Parts, states_of_page

TEXTS = ["the license", "", "ends. "]
PICTURES = [picture(150, 61), picture(21, 50, 1), picture(333, 190, 2)]
PAGES = [encoded(each) for each in PICTURES]
PAGE = "<|im_start|>user\n<|vision_start|><|image_pad|><|vision_end|>Describe the image.<|im_end|>"
END = "<|endoftext|>"

both = pytest.mark.parametrize("sizes", [{}, OF_KERNELS], ids=["torch", "kernels"])


def load(folder: Path) -> Embedder:
    cache = folder / "cache"
    return Embedder.load(folder / "nomic", device="cpu", dtype="float32", cache=cache)


@exactly
def theirs(folder: Path, model: Any, text: str, page: Any = None) -> Any:
    """The vector of a text or a page, by the steps of the code: (D,)."""
    state = states_of_page(folder / "nomic", model, text, page)[-1]
    return torch.nn.functional.normalize(state, dim=0)


@both
def test_vectors_are_those_of_the_code(sizes: dict[str, Any], tmp_path: Path) -> None:
    model = write_nomic_multimodal(tmp_path, **sizes)
    embedder = load(tmp_path)
    for text, vector in zip(TEXTS, embedder.embed(TEXTS, prompt_name="query"), strict=True):
        assert_near(vector, theirs(tmp_path, model, f"Query: {text}{END}"))
    for text, vector in zip(TEXTS, embedder.embed(TEXTS), strict=True):
        assert_near(vector, theirs(tmp_path, model, text + END))
    for page, vector in zip(PICTURES, embedder.embed_images(PAGES), strict=True):
        assert_near(vector, theirs(tmp_path, model, PAGE + END, page))


def test_a_prompt_changes_no_input_with_an_image(tmp_path: Path) -> None:
    model = write_nomic_multimodal(tmp_path)
    embedder = load(tmp_path)
    contents: list[Parts] = [[PAGES[0], "the license"], ["the license"]]
    mixed, text = embedder.embed_contents(contents, prompt_name="query")
    assert_near(mixed, theirs(tmp_path, model, f"{PAGE}the license{END}", PICTURES[0]))
    assert np.array_equal(text, embedder.embed("the license", prompt_name="query"))


@both
def test_a_vector_does_not_depend_on_its_batch(sizes: dict[str, Any], tmp_path: Path) -> None:
    write_nomic_multimodal(tmp_path, **sizes)
    embedder = load(tmp_path)
    for pages in (PAGES, TEXTS):
        contents: list[Parts] = [[page] for page in pages]
        for parts, vector in zip(contents, embedder.embed_contents(contents), strict=True):
            assert np.array_equal(embedder.embed_contents([parts])[0], vector)


def test_a_long_text_keeps_its_end(tmp_path: Path) -> None:
    write_nomic_multimodal(tmp_path, max_length=16)
    embedder = load(tmp_path)
    (ids,) = embedder.tokenize(["any " * 40], prompt_name="query")
    (end,) = embedder.tokenize([""])
    assert len(ids) == 16 and ids[-1] == end[-1]


def test_a_merged_model_is_recognised_by_its_class(tmp_path: Path) -> None:
    write_nomic_multimodal(tmp_path)
    expected = load(tmp_path).embed_images(PAGES[:1])
    base, adapter = tmp_path / "base", tmp_path / "nomic"
    added = write_adapter(adapter, base)
    change(base, lambda tensors: {name: t + added.get(name, 0) for name, t in tensors.items()})
    edit(base, architectures=["BiQwen2_5"])
    for name in ("tokenizer.json", "tokenizer_config.json", "preprocessor_config.json"):
        (adapter / name).rename(base / name)
    assert ModelDescription.read(base).spec.unread_keys == ()
    merged = Embedder.load(base, device="cpu", dtype="float32")
    np.testing.assert_allclose(merged.embed_images(PAGES[:1]), expected, atol=1e-5)


def test_a_base_model_may_have_the_projection_of_colqwen(tmp_path: Path) -> None:
    write_nomic_multimodal(tmp_path)
    expected = load(tmp_path).embed_images(PAGES[:1])
    head = {"custom_text_proj.weight": torch.ones(128, 64)}
    change(tmp_path / "base", lambda tensors: {**tensors, **head})
    edit(tmp_path / "base", architectures=["ColQwen2_5"])
    assert np.array_equal(load(tmp_path).embed_images(PAGES[:1]), expected)


def test_every_parameter_is_counted(tmp_path: Path) -> None:
    model = write_nomic_multimodal(tmp_path)
    folder = resolve(str(tmp_path / "nomic"), cache=tmp_path / "cache")
    found = Footprint.of(ModelDescription.read(folder)).parameters
    assert found == sum(parameter.numel() for parameter in model.model.parameters())
