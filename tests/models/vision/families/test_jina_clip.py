"""Tests of Jina CLIP against a reference by the papers; texts of v2 against transformers."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from embedwell_models import families
from embedwell_models.config.json_config import read_object
from embedwell_models.cpu_backend import library
from embedwell_models.cpu_backend.encoder import KernelEncoder
from embedwell_models.embedder import Embedder
from embedwell_models.errors import ModelError
from embedwell_models.torch_backend.encoder import TorchEncoder
from embedwell_vision.image_encoders import ImageEncoders
from tests.models.families.exact import assert_near, exactly
from tests.models.image_models import encoded, picture
from tests.models.jina_adapters import TASKS
from tests.models.vision.families.jina_clip import (
    OF_V1,
    PREPROCESSING,
    ImageReference,
    pixels,
    write_v1,
    write_v2,
)

SIZES = [(200, 100), (90, 333), (17, 40), (64, 67), (71, 64)]
IMAGES = [picture(*size, seed) for seed, size in enumerate(SIZES)]
FILES = [encoded(image) for image in IMAGES]
TEXTS = ["the license", "a copyright of this work, by any", "x"]
ISAS = ["auto", "none", *(cap for cap in library.lower_caps() if cap != "none")]
WRITERS = [write_v1, write_v2]
Writer = Callable[..., tuple[Any, ImageReference]]


def load(folder: Path, isa: str = "auto", dtype: str = "float32") -> Embedder:
    return Embedder.load(folder, device="cpu", dtype=dtype, isa=isa)


@exactly
def expected_images(reference: ImageReference) -> Any:
    return F.normalize(reference(torch.stack([pixels(image) for image in IMAGES])))


@exactly
def expected_texts(reference: Any, ours: Embedder) -> Any:
    """The mean of the last states; each text alone."""
    vectors = []
    for text in TEXTS:
        ids = torch.tensor(ours.tokenize([text])[0])
        if isinstance(reference, torch.nn.Module):
            states = reference(input_ids=ids[None]).last_hidden_state[0]
        else:
            states = reference(ids)[-1]
        vectors.append(states.mean(dim=0))
    return F.normalize(torch.stack(vectors))


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("write", WRITERS)
def test_texts_and_images_have_the_published_vectors(
    write: Writer, isa: str, tmp_path: Path
) -> None:
    texts, images = write(tmp_path)
    ours, expected = load(tmp_path, isa), expected_images(images)
    first, second = expected.values[:2]
    assert abs(first - second).max() > 0.1 * abs(expected.values).max()
    assert_near(ours.embed_images(FILES), expected)
    assert_near(ours.embed(TEXTS), expected_texts(texts, ours))


def test_the_kernels_compute_both_where_they_can(tmp_path: Path) -> None:
    write_v2(tmp_path)
    images = load(tmp_path).images
    compiled = library.best_isa("float32") is not None
    assert isinstance(images, ImageEncoders) and images.embedder is not None
    assert type(images.embedder._encoder) is (KernelEncoder if compiled else TorchEncoder)


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("write", WRITERS)
def test_a_vector_is_the_same_bits_alone_and_in_a_batch(
    write: Writer, isa: str, tmp_path: Path
) -> None:
    write(tmp_path)
    ours = load(tmp_path, isa)
    images, texts = ours.embed_images(FILES * 2), ours.embed(TEXTS * 2)
    for index, data in enumerate(FILES):
        alone = ours.embed_images([data])[0].tobytes()
        assert [row.tobytes() for row in images[index :: len(FILES)]] == [alone] * 2
    for index, text in enumerate(TEXTS):
        alone = ours.embed(text).tobytes()
        assert [row.tobytes() for row in texts[index :: len(TEXTS)]] == [alone] * 2


def test_a_lower_precision_is_close(tmp_path: Path) -> None:
    write_v2(tmp_path)
    expected = load(tmp_path).embed_images(FILES)
    for trial in load(tmp_path, dtype="auto").trials:
        found = load(tmp_path, dtype=trial.dtype).embed_images(FILES)
        assert (found * expected).sum(axis=1).min() > 0.99


def test_another_adapter_gives_other_vectors(tmp_path: Path) -> None:
    texts, _ = write_v2(tmp_path)
    config = read_object(tmp_path / "config.json")
    config["text_config"]["default_lora_task"] = TASKS[0]
    before = load(tmp_path)
    assert families.read(tmp_path).adapter is None, "the one adapter is no choice"
    (tmp_path / "config.json").write_text(json.dumps(config))
    other = load(tmp_path).embed(TEXTS)
    assert abs(other - expected_texts(texts, before).values.numpy()).max() > 0.05


@pytest.mark.parametrize("name", ["retrieval.query", "none"])
def test_the_adapter_cannot_be_chosen(name: str, tmp_path: Path) -> None:
    write_v2(tmp_path)
    with pytest.raises(ModelError, match=f"remove EMBEDWELL_ADAPTER={name}"):
        Embedder.load(tmp_path, device="cpu", adapter=name)


@pytest.mark.parametrize("write", WRITERS)
def test_each_published_key_is_known(write: Writer, tmp_path: Path) -> None:
    write(tmp_path)
    assert families.read(tmp_path).unread_keys == ()


@pytest.mark.parametrize(
    ("file", "named"), [("config.json", "a_key"), ("text_config.json", "text_config.json: a_key")]
)
def test_an_unknown_key_is_named(file: str, named: str, tmp_path: Path) -> None:
    write_v1(tmp_path)
    values = read_object(tmp_path / file)
    (tmp_path / file).write_text(json.dumps({**values, "a_key": 2}))
    assert families.read(tmp_path).unread_keys == (named,)


@pytest.mark.parametrize(
    ("part", "key", "value"),
    [
        ("", "add_projections", True),
        ("", "truncate_dim", 16),
        ("text_config", "pooler_type", "cls_pooler"),
        ("text_config", "proj_type", "mlp"),
        ("text_config", "default_instruction_task", "retrieval.query"),
        ("text_config", "default_lora_task", "separation"),
        ("text_config", "embed_dim", 32),
        ("vision_config", "subln", False),
        ("vision_config", "naive_swiglu", False),
        ("vision_config", "rope_embeddings", False),
        ("vision_config", "post_norm", True),
        ("vision_config", "ls_init_value", 0.1),
        ("vision_config", "qkv_bias", False),
        ("vision_config", "embed_dim", 32),
        ("vision_config", "head_width", 30),
        ("vision_config", "intp_freq", False),
    ],
)
def test_other_values_are_refused_by_name(part: str, key: str, value: Any, tmp_path: Path) -> None:
    write_v2(tmp_path)
    config = read_object(tmp_path / "config.json")
    (config[part] if part else config)[key] = value
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(ModelError, match="pt_hw_seq_len" if key == "intp_freq" else key):
        families.read(tmp_path)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("mlp_type", "mlp"),
        ("use_qk_norm", True),
        ("window_size", [128, 128]),
        ("hidden_act", "silu"),
        ("model_type", "roberta"),
    ],
)
def test_other_texts_are_refused_by_name(key: str, value: Any, tmp_path: Path) -> None:
    write_v1(tmp_path)
    (tmp_path / "text_config.json").write_text(json.dumps({**OF_V1, key: value}))
    with pytest.raises(ModelError, match=key):
        families.read(tmp_path)


def test_the_missing_file_is_named_with_the_model_that_has_it(tmp_path: Path) -> None:
    write_v1(tmp_path)
    (tmp_path / "text_config.json").unlink()
    with pytest.raises(ModelError, match=r"text_config.json is missing.*jina-bert-flash-impl"):
        families.read(tmp_path)


def test_another_way_to_resize_is_refused(tmp_path: Path) -> None:
    write_v1(tmp_path)
    for key, value in (("resize_mode", "longest"), ("interpolation", "random")):
        options = json.dumps({**PREPROCESSING, key: value})
        (tmp_path / "preprocessor_config.json").write_text(options)
        with pytest.raises(ModelError, match=key):
            load(tmp_path)
