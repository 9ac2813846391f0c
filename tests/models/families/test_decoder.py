"""Tests of the text encoders of models that also read images, against transformers."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import (
    Gemma3ForConditionalGeneration,
    Gemma3ForSequenceClassification,
    Mistral3ForConditionalGeneration,
    PreTrainedModel,
)

from embedwell_models import Embedder, families
from embedwell_models.errors import ModelError
from tests.models.families.checkpoint import (
    Case,
    assert_close,
    assert_same_bits,
    encoder,
    exact_states,
    states,
    texts,
    write,
)
from tests.models.families.files import change, edit, loaded, rename
from tests.models.tiny import VOCABULARY, write_tokenizer

SIZES: dict[str, Any] = {
    **{"vocab_size": 99, "hidden_size": 64, "num_hidden_layers": 3, "intermediate_size": 96},
    **{"num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 32},
}
VISION: dict[str, Any] = {
    **{"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 1},
    **{"num_attention_heads": 2, "image_size": 32, "patch_size": 16},
}
GEMMA3 = {
    **{"model_type": "gemma3_text", **SIZES, "sliding_window": 7, "query_pre_attn_scalar": 20},
    "layer_types": ["sliding_attention", "full_attention", "sliding_attention"],
}
MISTRAL = {"model_type": "mistral", **SIZES, "sliding_window": 5, "rms_norm_eps": 0.05}
MINISTRAL3 = {
    **{"model_type": "ministral3", **SIZES, "max_position_embeddings": 1024},
    "rope_parameters": {
        **{"rope_type": "yarn", "rope_theta": 500.0, "factor": 16.0, "mscale": 1.0},
        **{"mscale_all_dim": 1.0, "original_max_position_embeddings": 64},
        "llama_4_scaling_beta": 0.1,
    },
}


def case(model_type: str, text: dict[str, Any]) -> Case:
    kind = {"gemma3": "siglip_vision_model", "mistral3": "pixtral"}[model_type]
    vision = {"model_type": kind, **VISION}
    own: dict[str, Any] = {"gemma3": {"mm_tokens_per_image": 4, "image_token_index": 98}}
    config = {**own.get(model_type, {}), "text_config": text, "vision_config": vision}
    models = {
        "gemma3": Gemma3ForConditionalGeneration,
        "mistral3": Mistral3ForConditionalGeneration,
    }
    return Case(model_type, {}, config, model=models[model_type])


CASES = {
    "gemma3": case("gemma3", GEMMA3),
    "gemma3 without a causal mask": case("gemma3", {**GEMMA3, "is_causal": False}),
    "mistral3": case("mistral3", MISTRAL),
    "mistral3 of ministral3": case("mistral3", MINISTRAL3),
}
cases = pytest.mark.parametrize("name", CASES)


def assert_equal_states(model: PreTrainedModel, folder: Path) -> None:
    rows = texts(99)
    for mine, row in zip(states(encoder(folder), rows, 3), rows, strict=True):
        assert_close(mine, exact_states(model.base_model, row))


@cases
def test_a_text_has_the_states_of_the_whole_model(name: str, tmp_path: Path) -> None:
    assert_equal_states(write(CASES[name], tmp_path), tmp_path)
    assert families.read(tmp_path).unread_keys == ()


@cases
def test_a_text_is_the_same_bits_in_every_batch(name: str, tmp_path: Path) -> None:
    write(CASES[name], tmp_path)
    assert_same_bits(tmp_path)


@torch.inference_mode()
def test_a_classifier_has_the_logits_of_the_whole_model(tmp_path: Path) -> None:
    row, text = [2, 50, 60, 3], {**GEMMA3, "vocab_size": len(VOCABULARY), "pad_token_id": 3}
    classifier = replace(case("gemma3", text), model=Gemma3ForSequenceClassification)
    expected = write(classifier, tmp_path)(input_ids=torch.tensor([row])).logits
    write_tokenizer(tmp_path)
    logits = Embedder.load(tmp_path, device="cpu", dtype="float32").encode([row])
    assert_close(torch.from_numpy(logits), expected)


@pytest.mark.parametrize("name", ["gemma3", "mistral3"])
def test_the_encoder_of_images_is_not_read(name: str, tmp_path: Path) -> None:
    write(CASES[name], tmp_path)
    before = loaded(tmp_path)
    names = {"^(model.)?language_model.(model.)?": "model.language_model."}
    rename(tmp_path, {**names, "^(model.)?(vision_tower|multi_modal)": r"model.\2"})
    assert all(np.array_equal(before[name], part) for name, part in loaded(tmp_path).items())
    rename(tmp_path, {"^model.": ""})  # as AutoModel saves it
    assert all(np.array_equal(before[name], part) for name, part in loaded(tmp_path).items())
    change(tmp_path, lambda tensors: {k: v for k, v in tensors.items() if "vision" not in k})
    assert loaded(tmp_path).keys() == before.keys()
    change(tmp_path, lambda tensors: tensors | {"audio.layers.0.weight": torch.zeros(1)})
    with pytest.raises(ModelError, match=r"unknown tensor 'audio\.layers"):
        loaded(tmp_path)


def test_the_sizes_that_gemmas_files_leave_out_are_those_of_transformers(tmp_path: Path) -> None:
    write(CASES["gemma3"], tmp_path)
    # As google/gemma-3-4b-it has it.
    text = {"hidden_size": 2560, "intermediate_size": 10_240, "num_hidden_layers": 34}
    edit(tmp_path, text_config={**text, "model_type": "gemma3_text", "sliding_window": 1024})
    config = families.read(tmp_path).config
    attention = config.attention
    assert (attention.heads, attention.kv_heads, attention.head_size) == (8, 4, 256)
    assert (config.vocab_size, config.max_positions) == (262_208, 131_072)


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"is_causal": False}, "is_causal = False"),
        ({"architectures": ["OwnModel"]}, "architectures"),
        ({"text_config": {"model_type": "llama"}}, r"text_config\.model_type"),
    ],
)
def test_options_of_mistral3_are_refused_by_name(
    options: dict[str, Any], named: str, tmp_path: Path
) -> None:
    write(CASES["mistral3"], tmp_path)
    edit(tmp_path, **options)
    with pytest.raises(ModelError, match=named):
        families.read(tmp_path)


def test_an_option_of_gemma3_that_transformers_ignores_is_refused(tmp_path: Path) -> None:
    write(CASES["gemma3"], tmp_path)
    edit(tmp_path, text_config={**GEMMA3, "use_bidirectional_attention": True})
    with pytest.raises(ModelError, match=r"text_config\.use_bidirectional_attention"):
        families.read(tmp_path)
