"""Tests of NV-Embed against what is published of it."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from embedwell_models import Embedder, families
from embedwell_models.config.json_config import JsonConfig
from embedwell_models.cpu_backend.library import SHORT_SUMS
from embedwell_models.description.footprint import Footprint
from embedwell_models.description.model_description import ModelDescription
from embedwell_models.errors import ModelError
from embedwell_models.torch_backend.linear import TorchLinearFactory
from embedwell_models.vectors import normalize
from embedwell_rare.latent_attention import LatentSpec, load_latent_weights
from embedwell_rare.torch_layers.latent_attention import TorchLatentAttention
from tests.models.built import BUILT
from tests.models.families.checkpoint import CPU
from tests.models.families.exact import Expected, assert_near, each_exactly, exactly
from tests.models.families.files import assert_refused, change, edit, rename
from tests.models.rare.nvembed import Reference
from tests.models.rare.nvembed_files import (
    INSTRUCTION,
    SIZES,
    TEXTS,
    published_ids,
    published_instruction_length,
    write,
)

LEAST = {"float32": 0.999999, "bfloat16": 0.998, "int8": 0.99}  # as of other random weights
HALVES = {torch.float16: 0.999, torch.bfloat16: 0.98}
ATTENTION = "latent_attention_model.cross_attend_blocks.0"
QUERIES = f"{ATTENTION}.fn.to_q.weight"


def load(folder: Path, **options: Any) -> Embedder:
    return Embedder.load(folder, **{"device": "cpu", "dtype": "float32", **options})


def directions(reference: Reference, rows: list[list[int]], instruction: int = 0) -> Expected:
    """Vectors of unit length."""
    return exactly(lambda: F.normalize(reference.vectors(rows, instruction)))()


@pytest.mark.parametrize("isa", ["auto", "none"])
def test_every_layer_equals_what_is_published(isa: str, tmp_path: Path) -> None:
    reference, embedder = write(tmp_path), load(tmp_path, isa=isa)
    rows = embedder.tokenize(TEXTS)

    def states() -> list[Tensor]:
        return [
            torch.cat([state[: len(row)] for row, state in zip(rows, padded, strict=True)])
            for padded in reference.states(rows)
        ]

    for layer, expected in enumerate(each_exactly(states)()):
        assert_near(np.concatenate(embedder.hidden(rows, layer)), expected)


@pytest.mark.parametrize("instruction", ["", INSTRUCTION, "Query:", "the work of "])
@pytest.mark.parametrize("with_modules", [True, False])
def test_vectors_equal_those_of_its_own_code(
    with_modules: bool, instruction: str, tmp_path: Path
) -> None:
    reference, embedder = write(tmp_path, with_modules), load(tmp_path)
    rows = published_ids(tmp_path, TEXTS, instruction)
    assert embedder.tokenize(TEXTS, prompt=instruction) == rows
    count = published_instruction_length(tmp_path, instruction)
    vectors = embedder.embed(TEXTS, prompt=instruction)
    assert_near(vectors, directions(reference, rows, count))


def test_a_prompt_is_left_out_up_to_its_last_space(tmp_path: Path) -> None:
    write(tmp_path)
    embedder = load(tmp_path)
    count = embedder.recipe.prompt_token_count(INSTRUCTION, embedder.tokenizer)
    (row,) = embedder.tokenize(["the work"], prompt=INSTRUCTION)
    names = [embedder.tokenizer.name(id) for id in row]
    assert (names[0], *names[count - 2 : count]) == ("<s>", "Query", ":")
    assert names[count:] == ["▁the", "▁work", "</s>"]


def test_a_text_of_more_rows_than_are_computed_at_once_equals_what_is_published(
    tmp_path: Path,
) -> None:
    reference, embedder, texts = write(tmp_path), load(tmp_path), ["you " * 700, "the license"]
    assert_near(embedder.embed(texts), directions(reference, embedder.tokenize(texts)))


@pytest.mark.full(after=2)
@pytest.mark.parametrize(
    ("isa", "dtype"), [*BUILT, pytest.param("none", "float32", id="none-float32")]
)
def test_every_precision_is_faithful_and_a_text_is_the_same_bits_in_every_batch(
    isa: str, dtype: str, tmp_path: Path
) -> None:
    write(tmp_path)
    # Else a token attends to one latent alone, and to another one for every small difference.
    change(tmp_path, lambda tensors: {**tensors, QUERIES: tensors[QUERIES] / 3})
    exact, embedder = load(tmp_path, isa="none"), load(tmp_path, isa=isa, dtype=dtype)
    vectors = embedder.embed(TEXTS)
    cosines = (vectors * exact.embed(TEXTS)).sum(axis=1)
    least = 0.98 if dtype == "int8" and isa in SHORT_SUMS else LEAST[dtype]
    assert cosines.min() >= least, cosines
    for text, vector in zip(TEXTS, vectors, strict=True):
        assert np.array_equal(embedder.embed([text])[0], vector)


def test_without_modules_json_the_options_of_its_own_code_count(tmp_path: Path) -> None:
    reference = write(tmp_path, with_modules=False)
    edit(tmp_path, is_mask_instruction=False)
    rows = published_ids(tmp_path, TEXTS, INSTRUCTION)
    vectors = load(tmp_path).embed(TEXTS, prompt=INSTRUCTION)
    assert_near(vectors, directions(reference, rows))
    latents = JsonConfig(tmp_path / "config.json")["latent_attention_config"]
    edit(tmp_path, latent_attention_config={**latents, "output_normalize": False})
    vectors = load(tmp_path).embed(TEXTS, prompt=INSTRUCTION)
    assert_near(vectors, exactly(reference.vectors)(rows))


def test_what_a_config_leaves_out_is_what_its_own_code_takes(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(
        '{"model_type": "nvembed", "text_config": {"model_type": "bidir_mistral"}}'
    )
    spec = families.read(tmp_path)
    config, latents = spec.config, spec.state_layers
    assert (config.hidden_size, config.num_layers, config.attention.kv_heads) == (4096, 32, 8)
    assert (config.feed_forward.inner, config.max_positions) == (14_336, 131_072)
    assert isinstance(latents, LatentSpec) and not latents.include_prompt and latents.normalize
    assert (latents.count, latents.heads, latents.head_size, latents.inner) == (512, 8, 4096, 16384)


def test_parameters_are_those_that_are_computed_with(tmp_path: Path) -> None:
    write(tmp_path)
    layer = SIZES.width * (
        3 * SIZES.width + 3 * SIZES.inner
    )  # half as many keys, half as many values
    after = SIZES.width * (2 * SIZES.latent_heads * SIZES.latents + 3 * 4 * SIZES.width)
    assert Footprint.of(ModelDescription.read(tmp_path)).matrices == SIZES.layers * layer + after


def test_other_options_and_code_are_refused_by_name(tmp_path: Path) -> None:
    write(tmp_path)
    others = {"add_eos": False, "padding_side": "left", "mask_type": "c"}
    assert_refused(tmp_path, **others, auto_map={"AutoModel": "model.OtherModel"})


@pytest.mark.parametrize(
    ("key", "option"),
    [
        ("text_config", {"model_type": "mistral"}),
        ("text_config", {"hidden_act": "mish"}),
        ("latent_attention_config", {"model_type": "other"}),
        ("latent_attention_config", {"latent_dim": 64}),
        ("latent_attention_config", {"hidden_dim": 64}),
        ("latent_attention_config", {"num_cross_heads": 0}),
    ],
    ids=str,
)
def test_an_option_of_a_part_is_refused_by_its_name(
    key: str, option: dict[str, Any], tmp_path: Path
) -> None:
    write(tmp_path)
    part = JsonConfig(tmp_path / "config.json")[key]
    edit(tmp_path, **{key: {**part, **option}})
    with pytest.raises(ModelError, match=rf"{key}\.{next(iter(option))} = "):
        families.read(tmp_path)


def test_a_missing_tensor_of_the_latents_is_named(tmp_path: Path) -> None:
    write(tmp_path)
    rename(tmp_path, {"norm_context": "norm_of_latents"})
    with pytest.raises(ModelError, match=rf"lacks {ATTENTION}\.norm_context\.weight"):
        load(tmp_path)


def test_a_tensor_of_the_latents_of_another_shape_is_named(tmp_path: Path) -> None:
    write(tmp_path)
    name = f"{ATTENTION}.fn.to_kv.weight"
    change(tmp_path, lambda tensors: {**tensors, name: tensors[name][:80].clone()})
    with pytest.raises(ModelError, match=rf"{name} has the shape \(80, 128\)"):
        load(tmp_path)


@pytest.mark.parametrize("dtype", HALVES, ids=str)
def test_the_attention_to_latents_is_faithful_in_half_precision(
    dtype: torch.dtype, tmp_path: Path
) -> None:
    write(tmp_path)
    spec = families.read(tmp_path).state_layers
    assert isinstance(spec, LatentSpec)
    weights = load_latent_weights(tmp_path, spec)
    exact, half = (
        TorchLatentAttention(weights, TorchLinearFactory(CPU, each), CPU)
        for each in (torch.float32, dtype)
    )
    states = torch.randn(50, SIZES.width, generator=torch.Generator().manual_seed(3)).numpy()
    cosines = (normalize(exact(states)) * normalize(half(states))).sum(axis=1)
    assert cosines.min() >= HALVES[dtype], cosines
