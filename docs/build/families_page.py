"""Write the lists of families into docs: `python -m docs.build.families_page`.

docs/models.md has all families, docs/developers/families.md their layers, docs/rerank.md and
docs/sparse.md the model types with heads. The records of families hold what is listed of those
that are served, refused_models.toml the others. The same command writes the index of the families'
modules.
"""

import re
import subprocess
import sys
import textwrap
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from embedwell_models import families
from embedwell_models.families.family import Family, Variant

DOCS = Path(__file__).parents[1]
PAGES: Mapping[str, Sequence[str]] = {
    "models.md": ("served families",),
    "developers/families.md": ("layers of families", "refused models"),
    "rerank.md": ("families that rerank",),
    "sparse.md": ("families with sparse vectors",),
}
"""The names of the lists of each page."""

EVERY = families.every_family()
INDEX = Path(families.__file__).with_name("index.py")

_REFUSED = Path(__file__).with_name("refused_models.toml")
_INDEX = '''"""Modules of the families, written by `make openapi` from their records."""

from collections.abc import Mapping, Sequence

from embedwell_models.families.family import TokenizerOverride

_MODULES = (  # with names in EncoderConfig, and values of model_type: "-" for a file without one
{modules})
_CLASSES: Mapping[TokenizerOverride, str] = {{
{classes}}}


def _modules_of_types() -> Mapping[str, Sequence[str]]:
    modules: dict[str, list[str]] = {{}}
    for module, _, types in _MODULES:
        for each in types.split():
            modules.setdefault(each.strip("-"), []).append(module)
    return modules


MODEL_TYPES = _modules_of_types()
"""The modules of each value of model_type, of which a variant may apply."""
NAMES = {{name: module for module, names, _ in _MODULES for name in names.split()}}
"""The module of each name of EncoderConfig."""
TOKENIZER_OVERRIDES = {{name: kind for kind, names in _CLASSES.items() for name in names.split()}}
"""By the name of a tokenizer class, without its end in Tokenizer."""
'''
_LINE = 84  # characters of the names in a line
_LINK = re.compile(r"\[([^]]*)\]\([^)]*\)")


def served(registry: Sequence[Family] = EVERY) -> Iterator[tuple[str, ...]]:
    """Build the row of each family, and its model types; several families can share a row."""
    rows = dict.fromkeys(row for family in registry for row in family.rows)
    for row in rows:
        types = [each for family in registry if row in family.rows for each in family.model_types]
        names = _model_types(types) or "none"
        yield row.family, names, row.models, row.positions, row.layers, row.torch


def with_head(has: Callable[[Family], object], registry: Sequence[Family] = EVERY) -> str:
    """Return the model types of the families that have a head."""
    return _model_types([each for family in registry if has(family) for each in family.model_types])


def refused() -> list[Mapping[str, Any]]:
    """Read the refused models."""
    rows: list[Mapping[str, Any]] = tomllib.loads(_REFUSED.read_text(encoding="utf-8"))["refused"]
    return rows


def page(name: str) -> str:
    """Replace the lists of a page of docs. Each list is between two comments with its name."""
    lists = {
        "served families": [_served_item(*row) for row in served()],
        "layers of families": [_layers_item(*row) for row in served()],
        "refused models": [
            _LINK.sub(r"\1", f"`{row['name']}` ({row['where']}): {row['why']}") for row in refused()
        ],
        "families that rerank": [
            f"`…ForSequenceClassification`: {with_head(lambda each: each.classification_head)}",
            f"by the next token: {with_head(lambda each: each.next_token)}",
        ],
        "families with sparse vectors": [
            f"`…ForMaskedLM`: {with_head(lambda each: each.masked_lm_head)}"
        ],
    }
    text = (DOCS / name).read_text(encoding="utf-8")
    for list_name in PAGES[name]:
        before, start, rest = text.partition(f"<!-- {list_name}: written by make openapi -->\n")
        _, end, after = rest.partition(f"<!-- end of {list_name} -->")
        assert start and end, f"{name} has no place for the list {list_name}"
        items = "".join(f"- {item}\n" for item in lists[list_name])
        text = f"{before}{start}\n{items}\n{end}{after}"
    return text


def index() -> str:
    """Write the module that says which family is in which module."""
    rows, classes = "", dict[str, list[str]]()
    for module in families.MODULES:
        own = families.families_of(module)
        names = dict.fromkeys(name for family in own for name in family.names)
        types = dict.fromkeys(_model_type(each) for family in own for each in family.model_types)
        rows += f'    ("{module}", "{" ".join(names)}", "{" ".join(types)}"),\n'
        for family in own:
            if kind := family.tokenizer_override:
                classes.setdefault(kind, []).extend((*family.own_types, *family.tokenizer_classes))
    text = _INDEX.format(modules=rows, classes="".join(map(_classes, classes, classes.values())))
    command = [sys.executable, "-m", "ruff", "format", "--stdin-filename", str(INDEX), "-"]
    return subprocess.check_output(command, input=text, text=True)


def _model_type(stated: str | Variant) -> str:
    return (stated.model_type if isinstance(stated, Variant) else stated) or "-"


def _classes(kind: str, names: Sequence[str]) -> str:
    lines = textwrap.wrap(" ".join(dict.fromkeys(names)), _LINE, break_on_hyphens=False)
    return f'    "{kind}": ({" ".join(repr(f"{line} ") for line in lines)}),\n'


def _served_item(family: str, types: str, models: str, _: str, __: str, torch: str) -> str:
    needs_torch = {"": "", "yes": "; **torch**"}.get(torch, f"; **torch** for {torch}")
    return f"**{family}** ({types}){f': {models}' if models else ''}{needs_torch}"


def _layers_item(family: str, _: str, __: str, positions: str, layers: str, ___: str) -> str:
    return _LINK.sub(r"\1", f"**{family}**: positions {positions}; layers {layers}")


def _model_types(types: Sequence[str | Variant]) -> str:
    names = [
        f"`{each.model_type}` with `{each.sign}`" if isinstance(each, Variant) else f"`{each}`"
        for each in types
        if not isinstance(each, Variant) or each.model_type  # a file without one, too
    ]
    return ", ".join(names)


if __name__ == "__main__":
    INDEX.write_text(index(), encoding="utf-8")
    for file in PAGES:
        (DOCS / file).write_text(page(file), encoding="utf-8")
