"""The tables of families in docs/models.md, held to the code that reads them."""

import ast
import inspect
import json
from pathlib import Path

import pytest

from deploy.families_page import FILE, Row, page, rows
from embedwell_models import families
from embedwell_models.errors import ModelError
from embedwell_models.families import FAMILIES, VARIANTS
from embedwell_models.folder import Folder

SERVED, REFUSED = rows()["served"], rows()["refused"]
SIZES = {
    **{"hidden_size": 64, "num_hidden_layers": 1, "num_attention_heads": 4},
    **{"intermediate_size": 64, "vocab_size": 99, "max_position_embeddings": 64},
    "rms_norm_eps": 1e-6,
}
MODULES = {path.stem for path in Path(families.__file__).parent.glob("[a-z]*.py")}


def module_of(model_type: str) -> str:
    """The module that reads a model_type, or one with a condition."""
    name, _, condition = model_type.partition("/")
    read = VARIANTS.get((name, condition), FAMILIES[name])
    return read.__module__.rpartition(".")[2]


def shared_modules() -> set[str]:
    """The modules that others of the package import, and that read no model_type."""
    imported: set[str] = set()
    for path in Path(families.__file__).parent.glob("[a-z]*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.module:
                imported |= {node.module.rpartition(".")[2], *(name.name for name in node.names)}
    helpers = {"remote_code"}  # which the package itself imports
    return (imported | helpers) & MODULES - {*map(module_of, FAMILIES)}


def test_the_page_has_the_tables() -> None:
    text = FILE.read_text(encoding="utf-8")
    assert text == page(text), "run python -m deploy.families_page"


def test_every_model_type_that_is_read_has_a_row() -> None:
    named = [name for row in SERVED for name in row["types"]]
    plain = {name.partition("/")[0] for name in named}
    assert plain == {*FAMILIES}
    assert {"/".join(variant) for variant in VARIANTS} <= {*named}
    conditions = [name for name in named if "/" in name]
    for name in conditions:  # a value of position_embedding_type, or an option of the family
        model_type, _, condition = name.partition("/")
        source = inspect.getsource(inspect.getmodule(FAMILIES[model_type]) or families)
        assert (model_type, condition) in VARIANTS or f'"{condition}"' in source, name


def test_every_module_of_a_family_has_a_row() -> None:
    by_type = {module_of(name) for row in SERVED for name in row["types"]}
    without = [name for row in SERVED if not row["types"] for name in row["modules"]]
    assert {*without} <= MODULES
    assert by_type | {*without} | shared_modules() == MODULES


@pytest.mark.parametrize("row", REFUSED, ids=[row["name"] for row in REFUSED])
def test_what_is_listed_as_refused_is_refused_by_its_name(row: Row, tmp_path: Path) -> None:
    files = row.get("files", {"config.json": {"model_type": row["name"]}})
    model_type = files["config.json"]["model_type"]
    for name, content in {**files, "config.json": {**SIZES, **files["config.json"]}}.items():
        (tmp_path / name).write_text(json.dumps(content), encoding="utf-8")
    with pytest.raises(ModelError, match=row["name"]):
        Folder.read(tmp_path).tokenizer()
    assert (model_type in FAMILIES) == ("files" in row), "only the option is at fault"


def test_without_the_option_the_model_is_served(tmp_path: Path) -> None:
    """Each row of options that are refused fails because of its option alone."""
    for model_type in {
        row["files"]["config.json"]["model_type"] for row in REFUSED if "files" in row
    }:
        config = {**SIZES, "model_type": model_type}
        (tmp_path / "config.json").write_text(json.dumps(config), encoding="utf-8")
        assert Folder.read(tmp_path).dim == 64
