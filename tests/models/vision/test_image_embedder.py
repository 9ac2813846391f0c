"""Tests of the vectors of images, and of SigLIP's texts, against transformers."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer
from transformers import CLIPImageProcessorPil, SiglipImageProcessorPil

from embedwell_models.cpu_backend import library
from embedwell_models.cpu_backend.encoder import KernelEncoder
from embedwell_models.cpu_backend.processor import SLOW_BFLOAT16
from embedwell_models.description import model_fingerprint
from embedwell_models.description.footprint import Footprint
from embedwell_models.description.model_description import ModelDescription
from embedwell_models.embedder import Embedder
from embedwell_models.errors import ModelError
from embedwell_models.outputs.names import DENSE
from embedwell_models.torch_backend.encoder import TorchEncoder
from embedwell_models.vectors import normalize
from embedwell_vision.image_embedder import _candidates
from embedwell_vision.image_encoders import ImageEncoders
from embedwell_vision.specs import ImageSpec
from tests.conftest import precisions
from tests.models.families.exact import Expected, assert_near, exactly
from tests.models.image_models import (
    SIDE,
    encoded,
    features,
    picture,
    write_clip,
    write_clip_for_int8,
    write_metaclip2,
    write_siglip,
)

SIZES = [(200, 100), (90, 333), (SIDE, SIDE), (17, 40)]
IMAGES = [picture(*size, seed) for seed, size in enumerate(SIZES)]
FILES = [encoded(image) for image in IMAGES]
SQUARE = {"height": SIDE, "width": SIDE}
TEXTS = ["the license", "x", "a copyright of this work, such as it is", "you " * 80]
PROCESSORS: dict[Any, Any] = {
    write_clip: CLIPImageProcessorPil(size={"shortest_edge": SIDE}, crop_size=SQUARE),
    write_metaclip2: CLIPImageProcessorPil(size={"shortest_edge": SIDE}, crop_size=SQUARE),
    write_siglip: SiglipImageProcessorPil(size=SQUARE),
}
ISAS = ["auto", "none", *(cap for cap in library.lower_caps() if cap != "none")]
writers = pytest.mark.parametrize("write", PROCESSORS)


def load(folder: Path, isa: str = "auto", dtype: str = "float32") -> Embedder:
    return Embedder.load(folder, device="cpu", dtype=dtype, isa=isa)


def theirs(write: Any, model: Any) -> Expected:
    return features(model, PROCESSORS[write](IMAGES, return_tensors="pt")["pixel_values"])


@pytest.mark.parametrize("isa", ISAS)
@writers
def test_images_have_the_vectors_of_transformers(write: Any, isa: str, tmp_path: Path) -> None:
    expected = theirs(write, write(tmp_path))
    first, second = expected.values[:2]
    assert abs(first - second).max() > 0.1 * abs(expected.values).max()
    assert_near(load(tmp_path, isa).embed_images(FILES), expected)


@pytest.mark.parametrize(
    "options",
    [
        {"hidden_act": "gelu"},
        {"layer_norm_eps": 0.05},
        {"patch_size": 12},  # leaves pixels at the edges
        {"patch_size": 8},
        {"hidden_size": 48, "intermediate_size": 80},  # not of the kernels
        {"num_hidden_layers": 1},
    ],
    ids=str,
)
@writers
def test_every_option_has_the_vectors_of_transformers(
    write: Any, options: Any, tmp_path: Path
) -> None:
    text = {"hidden_size": 48} if "hidden_size" in options else {}
    expected = theirs(write, write(tmp_path, text=text, **options))
    assert_near(load(tmp_path).embed_images(FILES), expected)


@writers
def test_the_kernels_compute_images_where_they_can(write: Any, tmp_path: Path) -> None:
    write(tmp_path)
    compiled = library.best_isa("float32") is not None
    images = load(tmp_path).images
    assert isinstance(images, ImageEncoders) and images.embedder is not None
    assert type(images.embedder._encoder) is (KernelEncoder if compiled else TorchEncoder)


@writers
def test_images_have_the_vectors_of_sentence_transformers(write: Any, tmp_path: Path) -> None:
    write(tmp_path / "plain")
    model: Any = SentenceTransformer(str(tmp_path / "plain"), device="cpu")
    expected = exactly(model.encode)(IMAGES)
    model.save_pretrained(str(tmp_path / "saved"), create_model_card=False)
    for name in ("plain", "saved"):
        assert_near(load(tmp_path / name).embed_images(FILES), expected)


@pytest.mark.parametrize("isa", ISAS)
@writers
def test_an_image_is_the_same_bits_alone_and_in_a_batch(
    write: Any, isa: str, tmp_path: Path
) -> None:
    write(tmp_path)
    ours = load(tmp_path, isa)
    together = ours.embed_images(FILES * 3)
    for index, data in enumerate(FILES):
        alone = ours.embed_images([data])[0].tobytes()
        assert [row.tobytes() for row in together[index :: len(FILES)]] == [alone] * 3


@writers
def test_an_image_in_a_lower_precision_is_close(write: Any, tmp_path: Path) -> None:
    write(tmp_path)
    expected = load(tmp_path).embed_images(FILES)
    for trial in load(tmp_path, dtype="auto").trials:
        ours = load(tmp_path, dtype=trial.dtype)
        assert ours.images is not None and ours.images.dtype in (trial.dtype, "float32", "bfloat16")
        found = ours.embed_images(FILES)
        lengths = np.linalg.norm(found, axis=1) * np.linalg.norm(expected, axis=1)
        assert ((found * expected).sum(axis=1) / lengths).min() > 0.99


@pytest.mark.skipif("int8" not in precisions(), reason="int8 needs kernels for this processor")
@pytest.mark.parametrize("dtype", ["int8", "int4"])
def test_images_are_computed_in_int8_if_it_is_accurate(dtype: str, tmp_path: Path) -> None:
    write_clip_for_int8(tmp_path)
    exact, ours = (load(tmp_path, dtype=each).embed_images(FILES) for each in ("float32", dtype))
    assert load(tmp_path, dtype=dtype).image_dtype == "int8"
    cosines = np.vecdot(normalize(ours), normalize(exact))
    assert cosines.min() > 0.999 and cosines.max() < 0.9999999  # not those of float32
    alone = [load(tmp_path, dtype=dtype).embed_images([file])[0] for file in FILES]
    assert np.stack(alone).tobytes() == ours.tobytes()


@pytest.mark.skipif("int8" not in precisions(), reason="int8 needs kernels for this processor")
def test_images_are_not_computed_in_an_inaccurate_int8(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write_clip(tmp_path)
    ours = load(tmp_path, dtype="int8")
    assert ours.dtype == "int8" and ours.image_dtype in ("bfloat16", "float32")
    assert "the image encoder does not compute in int8" in caplog.text


def test_images_are_not_computed_in_a_slow_bfloat16(tmp_path: Path) -> None:
    write_clip(tmp_path)
    spec = ModelDescription.read(tmp_path).images
    assert isinstance(spec, ImageSpec)
    available = library.features()
    half = "bfloat16" if library.has_fast_bfloat16(available) else "float32"
    assert _candidates("int8", spec, available) == ["int8", half]
    assert _candidates("int8", replace(spec, merge=2), available) == [half]
    assert _candidates("int8", spec, available | {SLOW_BFLOAT16}) == ["int8", "float32"]


@pytest.mark.parametrize("end", [3, 2])  # the last token, and the first, which CLIP would not mean
def test_texts_of_metaclip2_end_with_its_end_token(end: int, tmp_path: Path) -> None:
    model = write_metaclip2(tmp_path, text={"eos_token_id": end})
    ours = load(tmp_path)
    rows = [torch.tensor([row]) for row in ours.tokenize(TEXTS)]

    @exactly
    def expected() -> Any:
        return torch.cat([model.get_text_features(input_ids=row).pooler_output for row in rows])

    assert_near(ours.embed(TEXTS), expected())


@exactly
def siglip_texts(model: Any, ours: Embedder, length: int = 64) -> Any:
    """The vectors of texts, padded as the model was trained."""
    rows = [row + [0] * (length - len(row)) for row in ours.tokenize(TEXTS)]
    return model.get_text_features(input_ids=torch.tensor(rows)).pooler_output


def test_texts_of_siglip_are_padded_as_in_training(tmp_path: Path) -> None:
    model = write_siglip(tmp_path)
    ours = load(tmp_path)
    assert_near(ours.embed(TEXTS), siglip_texts(model, ours))
    alone = [ours.embed([text])[0].tobytes() for text in TEXTS]
    assert [row.tobytes() for row in ours.embed(TEXTS)] == alone


def test_the_states_of_a_padded_text_are_those_of_its_own_tokens(tmp_path: Path) -> None:
    model = write_siglip(tmp_path)
    ours = load(tmp_path)
    row = ours.tokenize(["the license"])[0]
    ids = torch.tensor([row + [0] * (64 - len(row))])
    (states,) = ours.hidden([row])
    text_states = exactly(lambda: model.text_model(input_ids=ids).last_hidden_state[0, : len(row)])
    assert_near(states, text_states())


def test_a_padded_text_needs_a_padding_token(tmp_path: Path) -> None:
    write_siglip(tmp_path)
    path = tmp_path / "tokenizer_config.json"
    options = json.loads(path.read_text())
    del options["pad_token"]
    path.write_text(json.dumps(options))
    (tmp_path / "special_tokens_map.json").unlink(missing_ok=True)
    with pytest.raises(ModelError, match="no pad_token"):
        load(tmp_path)


def test_vectors_of_texts_and_images_have_one_width(tmp_path: Path) -> None:
    write_siglip(tmp_path, text={"hidden_size": 32, "projection_size": 64})
    assert load(tmp_path).dim == 64
    write_siglip(tmp_path, text={"hidden_size": 32})
    with pytest.raises(ModelError, match=r"texts have 32 dimensions .*images 64"):
        ModelDescription.read(tmp_path)


def test_a_head_that_is_missing_is_named(tmp_path: Path) -> None:
    write_siglip(tmp_path, vision_use_head=False)
    with pytest.raises(ModelError, match="vision_use_head"):
        ModelDescription.read(tmp_path)


def test_without_a_description_of_images_the_model_reads_texts_alone(tmp_path: Path) -> None:
    write_clip(tmp_path)
    vectors = load(tmp_path).embed(TEXTS)
    (tmp_path / "preprocessor_config.json").unlink()
    ours = load(tmp_path)
    assert ours.images is None
    assert ours.embed(TEXTS).tobytes() == vectors.tobytes()
    with pytest.raises(ValueError, match="no image encoder"):
        ours.embed_images(FILES)


def test_the_preprocessing_is_part_of_the_fingerprint(tmp_path: Path) -> None:
    write_clip(tmp_path)
    before = model_fingerprint.fingerprint(ModelDescription.read(tmp_path))
    path = tmp_path / "preprocessor_config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "resample": 2}))
    assert model_fingerprint.fingerprint(ModelDescription.read(tmp_path)) != before


@writers
def test_the_parameters_of_both_encoders_are_counted(write: Any, tmp_path: Path) -> None:
    model = write(tmp_path)
    scales = sum(p.numel() for name, p in model.named_parameters() if name.startswith("logit"))
    expected = sum(parameter.numel() for parameter in model.parameters()) - scales
    assert Footprint.of(ModelDescription.read(tmp_path)).parameters == expected


@writers
def test_the_dense_output_of_a_text_is_its_vector(write: Any, tmp_path: Path) -> None:
    write(tmp_path)
    embedder = load(tmp_path)
    ids = [[2, 5, 6, 3, 7, 8], [2, 9, 3]]
    vectors: Any = [outputs.dense for outputs in embedder.outputs(ids, [DENSE])]
    expected = embedder.encode(ids, normalized=False)
    np.testing.assert_allclose(np.stack(vectors), expected, rtol=1e-5)
