"""Tests of Jina v3 without adapters against transformers, in both layouts."""

from pathlib import Path

import pytest
from transformers import JinaEmbeddingsV3ForMaskedLM

from models import families
from models.positions.schemes import Rotary
from tests.models.families.checkpoint import Case, assert_equal_states, assert_same_bits, write
from tests.models.families.files import (
    assert_refused,
    assert_same_weights,
    change,
    edit,
    loaded,
)

TURNS = {"rope_parameters": {"rope_type": "default", "rope_theta": 50.0}}
CASES = [
    *(
        Case("jina_embeddings_v3", {"hidden_act": name})
        for name in ("gelu", "gelu_new", "relu", "silu")
    ),
    Case("jina_embeddings_v3", {"type_vocab_size": 2, "layer_norm_eps": 0.05, **TURNS}),
    Case("jina_embeddings_v3", model=JinaEmbeddingsV3ForMaskedLM),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_every_layer_equals_transformers(case: Case, tmp_path: Path) -> None:
    assert_equal_states(write(case, tmp_path), tmp_path)


def test_a_text_is_the_same_bits_in_every_batch(tmp_path: Path) -> None:
    write(CASES[0], tmp_path)
    assert_same_bits(tmp_path)


def test_the_names_of_transformers_lead_to_the_same_weights(tmp_path: Path) -> None:
    model = write(CASES[0], tmp_path)
    own = loaded(tmp_path)
    model.save_pretrained(tmp_path, save_original_format=False)
    assert_same_weights(loaded(tmp_path), own)


def test_the_keys_of_its_own_code_say_the_same(tmp_path: Path) -> None:
    model = write(Case("jina_embeddings_v3", TURNS), tmp_path)
    change(tmp_path, lambda tensors: {f"roberta.{name}": part for name, part in tensors.items()})
    own = {"model_type": "xlm-roberta", "position_embedding_type": "rotary"}
    edit(tmp_path, "rope_parameters", **own, rotary_emb_base=50.0)
    assert_equal_states(model, tmp_path)
    assert families.read(tmp_path).config.family == "jina_embeddings_v3"


def test_adapters_and_decoders_and_other_turns_are_refused(tmp_path: Path) -> None:
    write(CASES[0], tmp_path)
    assert_refused(
        tmp_path,
        lora_adaptations=["retrieval.query"],
        is_decoder=True,
        rotary_emb_dim=8,
        rotary_emb_scale_base=512,
        rotary_emb_interleaved=True,
    )


def test_the_base_of_the_turns_has_its_default(tmp_path: Path) -> None:
    write(CASES[0], tmp_path)
    edit(tmp_path, "rope_parameters")
    assert families.read(tmp_path).config.positions == Rotary(dim=16, base=20_000.0)
