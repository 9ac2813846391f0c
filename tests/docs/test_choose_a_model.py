"""The models of docs/choose-a-model.md are known ones, with the numbers of the page."""

import re
from pathlib import Path

from embedwell_models.hub.known_models import known_models

PAGE = (Path(__file__).parents[2] / "docs" / "choose-a-model.md").read_text(encoding="utf-8")
ROWS = re.findall(r"^\| `(\S+)` \|(.*)\|$", PAGE, re.MULTILINE)
DEFAULT = "sentence-transformers/all-MiniLM-L6-v2"


def test_the_table_has_what_is_known_of_each_model() -> None:
    default = known_models()[DEFAULT].matrices
    assert len(ROWS) == 8 and default is not None
    for name, cells in ROWS:
        facts = map(str.strip, cells.split("|"))
        parameters, work, _, dimensions, tokens, prompts, licence = facts
        model = known_models()[DEFAULT if name in DEFAULT else name]
        assert float(parameters) == model.parameters, name
        assert model.matrices is not None
        assert float(work) in (round(model.matrices / default), round(model.matrices / default, 1))
        assert (int(dimensions or 0) or None, int(tokens)) == (model.dimensions, model.tokens), name
        assert (prompts == "yes") == (model.prompts is not None), name
        assert licence == model.licence, name


def test_the_table_has_every_model_of_the_tree_and_all_of_them_are_known() -> None:
    choices = {*re.findall(r"→\s+`(\S+)`", PAGE)} - {"sentence-transformers/clip-ViT-B-32"}
    named = {*re.findall(r"`([\w-]+/[\w.-]+|all-MiniLM-L6-v2)`", PAGE)}
    assert len(choices) == 7 and choices <= {name for name, _ in ROWS}
    assert {DEFAULT if name in DEFAULT else name for name in named} <= {*known_models()}
