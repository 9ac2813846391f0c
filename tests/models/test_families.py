"""Tests of the tables that map checkpoints to the encoder."""

import dataclasses

import pytest
from transformers import BertConfig, BertForMaskedLM

from models.config import EncoderConfig
from models.families import BERT, FAMILIES, Family
from models.linear import ACTIVATIONS
from models.weights import rename

families = pytest.mark.parametrize("family", FAMILIES.values(), ids=FAMILIES)


@families
def test_every_field_of_the_config_has_a_key(family: Family) -> None:
    fields = {field.name for field in dataclasses.fields(EncoderConfig)} - {"family"}
    assert set(family.fields) == fields


@families
def test_every_allowed_activation_is_implemented(family: Family) -> None:
    assert set(family.allowed["hidden_act"]) <= set(ACTIVATIONS)


@families
def test_no_two_tensors_share_a_name(family: Family) -> None:
    assert len(set(family.tensors.values())) == len(family.tensors)


def test_every_tensor_of_a_bert_with_a_head_is_mapped_or_optional() -> None:
    config = BertConfig(
        vocab_size=10,
        hidden_size=8,
        num_hidden_layers=11,
        num_attention_heads=2,
        intermediate_size=8,
    )
    names = list(BertForMaskedLM(config).state_dict())
    ours = [rename(name, BERT) for name in names]
    assert [name for name, mine in zip(names, ours, strict=True) if mine is None] == [
        name for name in names if name.startswith("cls.")
    ]
    mapped = [name for name in ours if name is not None]
    layers = {name for name in BERT.tensors.values() if "{}" in name}
    tables = set(BERT.tensors.values()) - layers
    assert sorted(mapped) == sorted(tables | {name.format(i) for name in layers for i in range(11)})
