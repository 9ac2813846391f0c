"""Tests of the registry of families."""

import json
import pkgutil
from collections import Counter
from dataclasses import replace
from importlib import import_module
from pathlib import Path

import pytest

import embedwell_classic.families
import embedwell_decide.families
import embedwell_rare.families
import embedwell_vision.families
from embedwell_models import families
from embedwell_models.config.json_config import JsonConfig
from embedwell_models.config.model_spec import ModelSpec
from embedwell_models.errors import ModelError
from tests.conftest import Folder

WINGS = (
    embedwell_classic.families,
    embedwell_decide.families,
    embedwell_rare.families,
    embedwell_vision.families,
)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"model_type": "convnext"}, ": model_type = 'convnext' is not supported; docs/models.md"),
        ({"model_type": "modern_bert"}, "; similar names that are: modernbert, "),
        ({}, "has no 'model_type'"),
    ],
)
def test_another_family_is_refused_with_similar_ones(
    tmp_path: Path, config: dict[str, str], message: str
) -> None:
    (tmp_path / "config.json").write_text(json.dumps(config), encoding="utf-8")
    with pytest.raises(ModelError, match=r"config\.json") as raised:
        families.read(tmp_path)
    assert message in str(raised.value)


def test_every_module_that_describes_families_is_in_the_registry() -> None:
    modules = [
        import_module(f"{package.__name__}.{module.name}")
        for package in (families, *WINGS)
        for module in pkgutil.iter_modules(package.__path__)
    ]
    described = [family for module in modules for family in getattr(module, "FAMILIES", ())]
    assert len(described) == len(families.every_family())
    assert all(family in families.every_family() for family in described)


def test_no_two_families_have_a_name_or_a_model_type() -> None:
    for found in (
        Counter(name for family in families.every_family() for name in family.names),
        Counter(name for family in families.every_family() for name in family.own_types),
    ):
        assert found.most_common(1)[0][1] == 1, found.most_common(3)


def test_a_variant_is_one_of_another_family_or_lacks_its_model_type() -> None:
    for family in families.every_family():
        for variant in family.variants:
            usual = families.by_model_type().get(variant.model_type)
            assert usual is not family and (usual is None) == (variant.model_type == "")


def test_every_family_has_a_reader_or_is_a_table() -> None:
    assert all(
        (family.read is None) == (family.table is not None) for family in families.every_family()
    )


def test_a_name_of_a_tensor_that_no_layer_reads_is_refused(tiny_bert: Folder) -> None:
    options = JsonConfig(tiny_bert() / "config.json")
    bert = families.named("bert")
    assert families.spec_of(bert, options).tensors

    def misspelled(options: JsonConfig) -> ModelSpec:
        assert bert.read is not None
        return replace(bert.read(options), tensors={"weight": "layers.{}.ffnorm.weight"})

    with pytest.raises(ModelError, match=r"no layer reads \['layers.{}.ffnorm.weight'\]"):
        families.spec_of(replace(bert, read=misspelled), options)
