"""Tests of chat templates around texts."""

import json
from pathlib import Path

import pytest

from embedwell_models.errors import ModelError
from embedwell_models.model_files.text_template import VARIABLES, read_text_format
from embedwell_models.tokenizer.formats import TextFormat
from tests.models.qwen3_vl import TEMPLATE, rendered

FLAT = "{% for m in messages %}<{{ m.role }}>{{ m.content }}|{% endfor %}"


def read(folder: Path, template: str, message_format: str | None = None) -> TextFormat | None:
    (folder / "chat_template.jinja").write_text(template, encoding="utf-8")
    return read_text_format(folder, VARIABLES, message_format)


def test_a_text_is_where_the_template_has_it(tmp_path: Path) -> None:
    found = read(tmp_path, TEMPLATE)
    assert found is not None
    before, after = found.before("Find it."), found.after
    assert f"{before}a text{after}" == rendered("a text", "Find it.")
    assert found.before("") == "<|im_start|>user\n"
    assert read(tmp_path, FLAT, "flat") == TextFormat("<user>", ("<system>", "|<user>"), "|")


def test_a_template_may_have_an_instruction_of_its_own(tmp_path: Path) -> None:
    default = "{% if messages[0].role != 'system' %}<system>Represent.|{% endif %}"
    found = read(tmp_path, default + FLAT, "flat")
    assert found is not None
    assert found.before("") == found.before("Represent.") == "<system>Represent.|<user>"


def test_the_file_of_a_processor_goes_before_the_others(tmp_path: Path) -> None:
    assert read_text_format(tmp_path, VARIABLES, None) is None
    other = {"chat_template": FLAT.replace("|", "!")}
    (tmp_path / "chat_template.json").write_text(json.dumps(other), encoding="utf-8")
    assert read(tmp_path, FLAT, "flat") == TextFormat("<user>", ("<system>", "!<user>"), "!")


@pytest.mark.parametrize(
    ("template", "problem"),
    [
        (FLAT.replace("m.content }}", "m.content | trim }}"), "cannot format a text"),
        (FLAT * 2, "cannot format a text"),
        ("{{ messages[0].content }}", "cannot format a text"),
        (FLAT.replace("in messages", "in messages | reverse"), "cannot format a text"),
        (FLAT + "{{ messages | length }}", "an instruction changes the text after it"),
        ("{{ raise_exception('no') }}", "cannot be rendered: no"),
    ],
)
def test_a_template_that_changes_or_moves_a_text_is_refused(
    template: str, problem: str, tmp_path: Path
) -> None:
    with pytest.raises(ModelError, match=problem):
        read(tmp_path, template, "flat")
