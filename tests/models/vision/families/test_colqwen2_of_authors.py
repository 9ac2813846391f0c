"""ColQwen2 and ColQwen2.5 of their authors' code, against its steps on transformers' Qwen-VL."""

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from torch import Tensor

from embedwell_models.description.footprint import Footprint
from embedwell_models.description.model_description import ModelDescription
from embedwell_models.embedder import Embedder
from embedwell_models.errors import ModelError
from tests.models.colqwen2 import AREA
from tests.models.families.exact import assert_near, exactly
from tests.models.families.files import change, edit, rename
from tests.models.image_models import encoded, picture
from tests.models.nomic_multimodal import write_adapter, write_processor
from tests.models.page_models import (
    assert_same_alone,
    head_tensors,
    load,
    projected,
    random_projection,
)
from tests.models.qwen2_vl import (
    OF_KERNELS,
    PROCESSOR,
    SIZES,
    flatten,
    states_of_page,
    write_qwen2_vl,
)
from tests.models.qwen3_vl import save

QUERIES = ["the license", "", "ends. "]
PICTURES = [picture(150, 61), picture(21, 50, 1), picture(333, 190, 2)]
PAGES = [encoded(each) for each in PICTURES]
_HEAD = random_projection(128)

both = pytest.mark.parametrize("sizes", [SIZES, OF_KERNELS], ids=["torch", "kernels"])
bases = pytest.mark.parametrize("base", ["qwen2_vl", "qwen2_5_vl"])


def earlier_name(name: str) -> str:
    """The name before transformers 4.52, where the published ones are from."""
    return name.replace("model.language_model.", "model.").replace("model.visual.", "visual.")


def write_original(folder: Path, **sizes: Any) -> Any:
    """Save a Qwen2-VL with a projection next to it."""
    model = write_qwen2_vl(folder, **sizes)
    bounds = {"min_pixels": 4 * AREA, "max_pixels": 40 * AREA}
    save(folder, "preprocessor_config.json", {**PROCESSOR, **bounds, "size": bounds})
    rename(folder, str, head_tensors(_HEAD))
    code = {"qwen2_vl": "ColQwen2", "qwen2_5_vl": "ColQwen2_5"}
    edit(folder, architectures=[code[model.config.model_type]])
    return model


@exactly
def theirs(folder: Path, model: Any, text: str, page: Any = None) -> Any:
    """The vectors of a text or a page, by the steps of the code: (tokens, 128)."""
    return projected(states_of_page(folder, model, text, page), _HEAD)


@both
@bases
def test_vectors_are_those_of_the_code(base: str, sizes: dict[str, Any], tmp_path: Path) -> None:
    model = write_original(tmp_path, model_type=base, **sizes)
    embedder = load(tmp_path)
    for query, vectors in zip(QUERIES, embedder.embed_tokens(QUERIES, "query"), strict=True):
        assert_near(vectors, theirs(tmp_path, model, f"Query: {query}" + "<|endoftext|>" * 10))
    around = "<|im_start|>user\n<|vision_start|><|image_pad|><|vision_end|>Describe the image."
    for page, vectors in zip(PICTURES, embedder.embed_pages(PAGES), strict=True):
        assert_near(vectors, theirs(tmp_path, model, around + "<|im_end|><|endoftext|>", page))


@bases
def test_published_names_are_read(base: str, tmp_path: Path) -> None:
    write_original(tmp_path, model_type=base)
    expected = load(tmp_path).embed_pages(PAGES[:1])
    change(tmp_path, lambda tensors: {earlier_name(name): each for name, each in tensors.items()})
    flatten(tmp_path)
    description = ModelDescription.read(tmp_path)
    assert description.spec.unread_keys == ()
    assert np.array_equal(load(tmp_path).embed_pages(PAGES[:1]), expected)


@both
@bases
def test_vectors_do_not_depend_on_others(base: str, sizes: dict[str, Any], tmp_path: Path) -> None:
    write_original(tmp_path, model_type=base, **sizes)
    assert_same_alone(load(tmp_path), PAGES)


def test_an_adapter_changes_the_body_and_the_projection(tmp_path: Path) -> None:
    # The adapter's folder alone has the preprocessing of images, as the published ones may.
    base, adapter, merged = (tmp_path / name for name in ("base", "adapter", "merged"))
    write_original(base)
    change(base, lambda tensors: {earlier_name(name): each for name, each in tensors.items()})
    shutil.copytree(base, merged)
    adapter.mkdir()
    (base / "preprocessor_config.json").unlink()
    write_processor(adapter, "ColQwen2")
    added = write_adapter(adapter, base)
    assert "custom_text_proj.weight" in added

    def changed(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
        return {name: each + added.get(name, 0) for name, each in tensors.items()}

    change(merged, changed)
    embedder = Embedder.load(adapter, device="cpu", dtype="float32", cache=tmp_path / "cache")
    expected = load(merged).embed_pages(PAGES[:1])[0]
    np.testing.assert_allclose(embedder.embed_pages(PAGES[:1])[0], expected, atol=1e-5)


def test_every_parameter_is_counted(tmp_path: Path) -> None:
    model = write_original(tmp_path)
    every = [*model.model.parameters(), *_HEAD.parameters()]
    found = Footprint.of(ModelDescription.read(tmp_path)).parameters
    assert found == sum(parameter.numel() for parameter in every)


def test_a_checkpoint_without_the_projection_is_refused(tmp_path: Path) -> None:
    write_original(tmp_path)
    change(tmp_path, lambda tensors: {k: v for k, v in tensors.items() if "custom" not in k})
    with pytest.raises(ModelError, match="custom_text_proj"):
        load(tmp_path)
