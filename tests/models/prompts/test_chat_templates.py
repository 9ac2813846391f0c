"""Tests of chat templates around texts, queries and documents, and their instructions."""

import json
from pathlib import Path

import pytest

from embedwell_models.config.model_options import RERANK_FORMATS
from embedwell_models.errors import ModelError
from embedwell_models.model_files import chat_template
from embedwell_models.model_files.chat_template import TEXT_VARIABLES, read_text_format
from embedwell_models.tokenizer.formats import (
    PairFormat,
    PromptSlot,
    SeparateFormat,
    TextFormat,
    around,
)
from embedwell_prompts.rerank_formats import FORMATS
from tests.models.qwen3_vl import TEMPLATE, rendered

ROLES = "{% for message in messages %}{{ message.role }}: {{ message.content }}. {% endfor %}"
REST = (PromptSlot.QUERY, ". document: ", PromptSlot.DOCUMENT, ". ")
DEFAULT = ("query: ", *REST)


def read(folder: Path, template: str, prompt: str = "") -> PairFormat:
    (folder / "chat_template.jinja").write_text(template, encoding="utf-8")
    return chat_template.read_pair_format(folder, {}, None, prompt)


def test_a_template_becomes_texts_and_slots(tmp_path: Path) -> None:
    expected = PairFormat(DEFAULT, ("system: ", PromptSlot.INSTRUCTION, ". query: ", *REST))
    assert read(tmp_path, ROLES) == expected
    assert around(expected.segments("Find"), "q") == ("system: Find. query: q. document: ", ". ")


def test_a_default_prompt_is_the_instruction_of_the_system(tmp_path: Path) -> None:
    assert read(tmp_path, ROLES, "Find").default == ("system: ", "Find", ". query: ", *REST)
    without = ROLES.replace("{{ message.role }}: {{ message.content }}. ", "").replace(
        "{% endfor %}",
        "{% if message.role != 'system' %}{{ message.role }}: {{ message.content }}. {% endif %}"
        "{% endfor %}",
    )
    assert read(tmp_path, without, "Find") == PairFormat(DEFAULT)


@pytest.mark.parametrize("trim", ["| trim", ".strip()"])
def test_white_space_that_a_template_removes_is_removed(trim: str, tmp_path: Path) -> None:
    template = ROLES.replace("message.content", f"(message.content){trim}")
    assert read(tmp_path, template).strips
    assert read(tmp_path, template).clean(" a\n") == "a"


@pytest.mark.parametrize("as_list", [False, True])
def test_older_checkpoints_have_the_template_in_tokenizer_config(
    as_list: bool, tmp_path: Path
) -> None:
    assert not chat_template.has_template(tmp_path)
    template = [{"name": "default", "template": ROLES}] if as_list else ROLES
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"chat_template": template}))
    assert chat_template.has_template(tmp_path)
    assert chat_template.read_pair_format(tmp_path, {}, "flat", "").default == DEFAULT


def test_a_template_sees_its_variables_and_the_special_tokens(tmp_path: Path) -> None:
    config = {"bos_token": {"content": "<s>", "special": True}, "eos_token": "</s>"}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    template = "{{ bos_token }}" + ROLES + "{% if thinks %}{{ eos_token }}{% endif %}"
    (tmp_path / "chat_template.jinja").write_text(template)
    default = chat_template.read_pair_format(tmp_path, {"thinks": True}, None, "").default
    assert (default[0], default[-1]) == ("<s>query: ", ". </s>")


@pytest.mark.parametrize(
    ("template", "problem"),
    [
        ("{{ messages[0].content }}", "0 places for a message of the role"),
        (ROLES + ROLES, "2 places for a message of the role query"),
        ("{{ raise_exception('only users') }}", "cannot be rendered: only users"),
        ("{% if %}", "cannot be rendered"),
        ("{{ messages.__class__.__mro__ }}", "cannot be rendered: access to attribute"),
        ("{{ messages[5].content.text }}", "cannot be rendered"),
    ],
    ids=str,
)
def test_a_template_that_gives_no_format_is_refused(
    template: str, problem: str, tmp_path: Path
) -> None:
    with pytest.raises(ModelError, match=problem):
        read(tmp_path, template)


@pytest.mark.parametrize(
    "template",
    [
        "{{ 1 / 0 }}",
        "{{ 2 ** 'x' }}",
        "{{ messages.missing.part }}",
        "{{ range(10 ** 9) }}",
        "{% macro a() %}{{ a() }}{% endmacro %}{{ a() }}",
        "{{ namespace(a=1).__init__ }}",
        "{% include 'x' %}",
        "{{ 'a' | unknown }}",
        "{{ messages[0]() }}",
        "{{ '%d' | format('x') }}",
        "{{ 'x' | int(base=99) }}",
        "{{ 'x'.encode('none') }}",
        "{{ ''.join(1) }}",
        "{% for a in 5 %}{% endfor %}",
        "{{ 10.0 ** 999 }}",
        "{{ messages | tojson(indent={}) }}",
        "{{ '\ud800'.encode() }}",
        "{{ (0).to_bytes(0, 'x') }}",
        "{{ messages[0].update(a=1) }}",
        "{% set a.b = 1 %}",
        "{" * 3,
        "{{ '" + "(" * 500,
        "{{ " + "(" * 5000 + " }}",
        "{{ raise_exception() }}",
    ],
)
def test_every_error_of_a_template_names_its_file_and_a_reason(
    template: str, tmp_path: Path
) -> None:
    path = tmp_path / "tokenizer_config.json"
    path.write_text(json.dumps({"chat_template": template}), encoding="utf-8")
    with pytest.raises(ModelError, match=r"tokenizer_config\.json: the chat template .*: \S"):
        chat_template.read_pair_format(tmp_path, {}, None, "")


@pytest.mark.parametrize("stated", [5, {"a": "b"}, [{"name": "default"}], ["x"], [{"name": 1}]])
def test_a_template_of_another_type_is_refused(stated: object, tmp_path: Path) -> None:
    path = tmp_path / "tokenizer_config.json"
    path.write_text(json.dumps({"chat_template": stated}), encoding="utf-8")
    with pytest.raises(ModelError, match=r"tokenizer_config\.json: chat_template must be a text"):
        chat_template.read_pair_format(tmp_path, {}, None, "")


def test_a_template_that_is_no_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / chat_template.FILE).write_bytes(b"\xff")
    with pytest.raises(ModelError, match=r"chat_template\.jinja: the chat template cannot be read"):
        chat_template.read_pair_format(tmp_path, {}, None, "")


def test_a_name_that_the_folder_lacks_is_refused(tmp_path: Path) -> None:
    (tmp_path / "chat_template.jinja").write_text(ROLES)
    with pytest.raises(ModelError, match=r"no chat template 'score'; it has \['default'\]"):
        chat_template.read_pair_format(tmp_path, {"chat_template": "score"}, None, "")


@pytest.mark.parametrize("name", FORMATS)
def test_every_named_format_has_one_place_for_each_text(name: str) -> None:
    pair_format = FORMATS[name].pair_format()
    assert name in RERANK_FORMATS
    if isinstance(pair_format, SeparateFormat):  # it has them by its fields
        return
    takes_instruction = name != "llama-nemotron-rerank"
    for instruction in (None, "Find") if takes_instruction else (None,):
        segments = pair_format.segments(instruction)
        before, after = around(segments, "QUERY")
        assert (before + after).count("QUERY") == 1 and "{" not in before + after
    assert (pair_format.instructed is not None) == takes_instruction
    if takes_instruction:
        assert "Find" in "".join(around(pair_format.segments("Find"), "QUERY"))


PARTS = "{% for part in message.content %}{{ part.text }}{% endfor %}"
JOINED = f"{{% for message in messages %}}{PARTS}{{% endfor %}}"


@pytest.mark.parametrize(
    ("template", "kept"),
    [
        (JOINED, True),
        (f"{{% if messages[0].role in ('system', 'user') %}}{JOINED}{{% endif %}}", True),
        (f"{JOINED} ", False),
        (f"{{% if messages[0].role == 'user' %}}{JOINED}{{% endif %}}", False),
        (f"{{% if messages[0].role == 'system' %}}{JOINED}{{% endif %}}", False),
        (JOINED.replace("part.text", "part.text | trim"), False),
        (f"{{% for message in messages | reverse %}}{PARTS}{{% endfor %}}", False),
        (ROLES, False),
    ],
)
def test_a_template_may_keep_a_prompt_and_a_text(template: str, kept: bool, tmp_path: Path) -> None:
    (tmp_path / "chat_template.jinja").write_text(template, encoding="utf-8")
    assert chat_template.keeps_texts(tmp_path) == kept


def test_a_folder_without_a_template_has_none_that_keeps_texts(tmp_path: Path) -> None:
    assert not chat_template.keeps_texts(tmp_path)


FLAT = "{% for m in messages %}<{{ m.role }}>{{ m.content }}|{% endfor %}"


def read_text(folder: Path, template: str, message_format: str | None = None) -> TextFormat | None:
    (folder / "chat_template.jinja").write_text(template, encoding="utf-8")
    return read_text_format(folder, TEXT_VARIABLES, message_format)


def test_a_text_is_where_the_template_has_it(tmp_path: Path) -> None:
    found = read_text(tmp_path, TEMPLATE)
    assert found is not None
    before, after = found.before("Find it."), found.after
    assert f"{before}a text{after}" == rendered("a text", "Find it.")
    assert found.before("") == "<|im_start|>user\n"
    assert read_text(tmp_path, FLAT, "flat") == TextFormat("<user>", ("<system>", "|<user>"), "|")


def test_a_template_may_have_an_instruction_of_its_own(tmp_path: Path) -> None:
    default = "{% if messages[0].role != 'system' %}<system>Represent.|{% endif %}"
    found = read_text(tmp_path, default + FLAT, "flat")
    assert found is not None
    assert found.before("") == found.before("Represent.") == "<system>Represent.|<user>"


def test_the_file_of_a_processor_goes_before_the_others(tmp_path: Path) -> None:
    assert read_text_format(tmp_path, TEXT_VARIABLES, None) is None
    other = {"chat_template": FLAT.replace("|", "!")}
    (tmp_path / "chat_template.json").write_text(json.dumps(other), encoding="utf-8")
    assert read_text(tmp_path, FLAT, "flat") == TextFormat("<user>", ("<system>", "!<user>"), "!")


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
        read_text(tmp_path, template, "flat")
