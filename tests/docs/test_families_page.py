"""The lists of families in the documentation, held to the code that reads them."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from docs.build.families_page import DOCS, INDEX, PAGES, index, page, refused, served, with_head
from embedwell_models.config.json_config import JsonConfig
from embedwell_models.config.model_spec import ModelSpec
from embedwell_models.description.model_description import ModelDescription
from embedwell_models.errors import ModelError
from embedwell_models.families import by_model_type
from embedwell_models.families.family import DocsRow, Family, NextToken, Variant
from embedwell_models.families.heads import decoder
from tests.docs.generated import assert_current

WRITE = "python -m docs.build.families_page"
REFUSED = refused()
SIZES = {
    **{"hidden_size": 64, "num_hidden_layers": 1, "num_attention_heads": 4},
    **{"intermediate_size": 64, "vocab_size": 99, "max_position_embeddings": 64},
    **{"num_key_value_heads": 4, "rms_norm_eps": 1e-6},
}


@pytest.mark.parametrize("name", PAGES)
def test_a_page_has_its_lists(name: str) -> None:
    text = (DOCS / name).read_text(encoding="utf-8")
    assert_current(text, page(name), WRITE)


@pytest.mark.needs("ruff")
def test_the_index_has_the_module_of_each_family() -> None:
    assert_current(INDEX.read_text(encoding="utf-8"), index(), WRITE)


def test_families_share_a_row_with_the_model_types_of_all() -> None:
    def read(options: JsonConfig) -> ModelSpec:
        raise AssertionError(options)

    row = DocsRow("One, Two", positions="none", layers="post-norm")
    variant = Variant.by_positions("bert", "spiral")
    other = DocsRow("Three", "three-base", positions="spiral", layers="as One", torch="yes")
    registry = [
        Family(model_types=("one",), read=read, row=row),
        Family(model_types=("two",), read=read, row=row),
        Family(model_types=("three", variant), name="three", read=read, row=other),
    ]
    assert [*served(registry)] == [
        ("One, Two", "`one`, `two`", "", "none", "post-norm", ""),
        ("Three", "`three`, `bert` with `spiral`", "three-base", "spiral", "as One", "yes"),
    ]


def test_the_model_types_of_families_with_a_head_are_listed() -> None:
    row = DocsRow("One", positions="none", layers="post-norm")
    registry = [
        Family(model_types=("one",), row=row, next_token=NextToken(tied=True)),
        Family(model_types=("two", "three"), row=row, classification_head=decoder),
    ]
    assert with_head(lambda each: each.classification_head, registry) == "`two`, `three`"
    assert with_head(lambda each: each.next_token, registry) == "`one`"


@pytest.mark.parametrize("row", REFUSED, ids=[row["name"] for row in REFUSED])
def test_what_is_listed_as_refused_is_refused_by_its_name(
    row: Mapping[str, Any], tmp_path: Path
) -> None:
    files = row.get("files", {"config.json": {"model_type": row["name"]}})
    model_type = files["config.json"]["model_type"]
    for name, content in {**files, "config.json": {**SIZES, **files["config.json"]}}.items():
        (tmp_path / name).write_text(json.dumps(content), encoding="utf-8")
    with pytest.raises(ModelError, match=row["name"]):
        ModelDescription.read(tmp_path).tokenizer()
    assert (model_type in by_model_type()) == ("files" in row), "only the option is at fault"


def test_without_the_option_the_model_is_served(tmp_path: Path) -> None:
    """Each row of options that are refused fails because of its option alone."""
    for model_type in {
        row["files"]["config.json"]["model_type"] for row in REFUSED if "files" in row
    }:
        config = {**SIZES, "model_type": model_type}
        (tmp_path / "config.json").write_text(json.dumps(config), encoding="utf-8")
        assert ModelDescription.read(tmp_path).dim == 64
