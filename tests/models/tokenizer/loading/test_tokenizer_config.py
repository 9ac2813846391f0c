"""Tests of options that contradict tokenizer.json: ids equal transformers', or it is refused."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from tokenizers import Tokenizer as Rust
from tokenizers import processors
from transformers import AutoTokenizer

from embedwell_models.errors import ModelError
from embedwell_models.tokenizer.loading.tokenizer_config import OPTIONS, ROLES, ROLES_AROUND
from embedwell_models.tokenizer.tokenizer import Tokenizer
from tests.models import kinds

TEXTS = [
    *("Thé Lícense of THIS Work", "the 東京 work", " the work", "the  work\n x", ""),
    *("of [Q] the [MASK]work <mask> [R]", "work <pad>the of", "THE W[CLS] [SEP] of"),
    *("a\0b\u200b", "ﬁ ½ Å", "lic 123 don't , . the", "<0x41> ▁the"),
]
KINDS = {
    **{"BertTokenizer": "wordpiece", "MPNetTokenizer": "wordpiece", "RobertaTokenizer": "roberta"},
    **{"GPT2Tokenizer": "gpt2", "Qwen2Tokenizer": "qwen", "CLIPTokenizer": "clip"},
    **{"LlamaTokenizer": "llama", "T5Tokenizer": "whole_unigram", "GemmaTokenizer": "gemma"},
    **{"XLMRobertaTokenizer": "unigram", "CamembertTokenizer": "unigram"},
    **{"XLNetTokenizer": "unigram", "DebertaV2Tokenizer": "unigram", "AlbertTokenizer": "unigram"},
}
_SWITCHES = (
    *("do_lower_case", "strip_accents", "tokenize_chinese_chars", "clean_text", "never_split"),
    *("do_basic_tokenize", "add_prefix_space", "add_bos_token", "clean_up_tokenization_spaces"),
    *("split_special_tokens", "keep_accents", "remove_space", "trim_offsets", "split_by_punct"),
    *("use_fast", "from_slow", "spaces_between_special_tokens", "byte_fallback", "fuse_unk"),
    *("ignore_merges", "truncation", "padding", "is_local", "use_default_system_prompt"),
)
CHANGES: dict[str, list[Any]] = {
    **{key: [True, False] for key in _SWITCHES},
    **{"model_max_length": [10**30], "padding_side": ["left"], "truncation_side": ["left"]},
    **{"max_length": [3], "stride": [2], "pad_to_multiple_of": [8], "unk_id": [5]},
    **{"extra_special_tokens": [["the"], {"q": "the"}, ["[NEW]"]], "dropout": [0.5]},
    **{"additional_special_tokens": [["[NEW]"]], "backend": ["tokenizers"], "errors": ["strict"]},
    **{"vocab_size": [10], "vocab_file": ["x"], "merges_file": ["x"], "prepend_scheme": ["never"]},
    **{"continuing_subword_prefix": ["@@"], "end_of_word_suffix": ["the"], "chat_template": ["x"]},
    **{"normalizer": ["x"], "post_processor": [None], "tokenizer_class": ["TokenizersBackend"]},
    **{f"{role}_token": ["the", "[N]"] for role in ("bos", "eos", "unk", "sep", "pad", "cls")},
}


def write(folder: Path, named: str) -> dict[str, Any]:
    """Save a tokenizer as transformers does, and return its options."""
    kinds.write(KINDS[named], folder)
    path = folder / "tokenizer.json"
    if named == "AlbertTokenizer":  # whose vocabulary has these tokens
        text = path.read_text(encoding="utf-8")
        path.write_text(text.replace("</s>", "[SEP]").replace("<s>", "[CLS]"), encoding="utf-8")
    options = folder / "tokenizer_config.json"
    options.write_text(json.dumps({"tokenizer_class": named}))
    AutoTokenizer.from_pretrained(folder).save_pretrained(folder)
    stated: dict[str, Any] = json.loads(options.read_text())
    return stated


def change(folder: Path, stated: dict[str, Any], **values: Any) -> None:
    (folder / "tokenizer_config.json").write_text(json.dumps({**stated, **values}))


def ours(folder: Path) -> list[list[int]]:
    return [list(row.ids) for row in Tokenizer(folder, 64).encode(TEXTS)]


def theirs(folder: Path) -> list[list[int]] | None:
    """Return the ids of transformers; None if it cannot load the folder."""
    try:
        tokenizer = AutoTokenizer.from_pretrained(folder)
        return [tokenizer(text)["input_ids"] for text in TEXTS]
    except Exception:  # the library raises no narrower exception
        return None


@pytest.mark.full(after=10)
@pytest.mark.parametrize("named", KINDS)
def test_each_option_has_the_effect_it_has_in_transformers_or_is_refused(
    named: str, tmp_path: Path
) -> None:
    stated = write(tmp_path, named)
    assert ours(tmp_path) == theirs(tmp_path)
    for key, values in CHANGES.items():
        for value in values:
            change(tmp_path, stated, **{key: value})
            expected = theirs(tmp_path)
            try:
                found = ours(tmp_path)
            except ModelError as error:
                assert key in str(error), (key, value)
            else:
                assert expected is None or found == expected, (key, value)


def places(stated: dict[str, Any], key: str, value: Any) -> list[tuple[dict[str, Any], Any]]:
    """Return options and maps of special tokens: a key in the map alone, and another in both."""
    without = {name: each for name, each in stated.items() if name != key}
    both = (
        [(stated, value)]
        if stated.get(key)
        else [({**stated, key: ["work"]}, value)] * ("special_tokens" in key)
    )
    return [(without, value), (without, stated.get(key)), *both]


@pytest.mark.full(after=3)
@pytest.mark.parametrize("named", KINDS)
def test_special_tokens_map_has_the_effect_it_has_in_transformers_or_is_refused(
    named: str, tmp_path: Path
) -> None:
    stated, path = write(tmp_path, named), tmp_path / "special_tokens_map.json"
    values: dict[str, list[Any]] = {f"{role}_token": ["[N]", "the", None] for role in ROLES}
    values |= {f"{kind}_special_tokens": [["the"]] for kind in ("additional", "extra")}
    cases = [
        (key, *place)
        for key in values
        for value in values[key]
        for place in places(stated, key, value)
    ]
    for key, options, value in cases:
        change(tmp_path, options)
        path.write_text(json.dumps({key: value}))
        expected = theirs(tmp_path)
        try:
            found = ours(tmp_path)
        except ModelError as error:
            assert key in str(error), (key, value)
        else:
            assert expected is None or found == expected, (key, value, options.get(key))


@pytest.mark.parametrize(
    ("named", "key", "value"),
    [
        ("BertTokenizer", "split_special_tokens", True),
        ("BertTokenizer", "cls_token", "[Q]"),
        ("MPNetTokenizer", "sep_token", "[Q]"),
        ("BertTokenizer", "unk_token", "the"),
        ("RobertaTokenizer", "cls_token", "[Q]"),
        ("CLIPTokenizer", "eos_token", "[Q]"),
        ("T5Tokenizer", "eos_token", "[Q]"),
        ("Qwen2Tokenizer", "add_prefix_space", True),
        ("LlamaTokenizer", "add_prefix_space", False),
        ("XLMRobertaTokenizer", "add_prefix_space", False),
        ("XLNetTokenizer", "do_lower_case", True),
        ("DebertaV2Tokenizer", "split_by_punct", True),
        ("DebertaV2Tokenizer", "unk_id", 5),
        ("DebertaV2Tokenizer", "add_prefix_space", False),
        ("AlbertTokenizer", "do_lower_case", False),
        ("AlbertTokenizer", "keep_accents", True),
    ],
)
def test_an_option_that_contradicts_the_file_is_refused_by_name(
    named: str, key: str, value: object, tmp_path: Path
) -> None:
    stated = write(tmp_path, named)
    Tokenizer(tmp_path, 64)
    change(tmp_path, stated, **{key: value})
    message = re.escape(f": {key} = {value!r} ")
    with pytest.raises(ModelError, match=message):
        Tokenizer(tmp_path, 64)


def test_a_generic_class_takes_all_from_the_file(tmp_path: Path) -> None:
    stated = write(tmp_path, "BertTokenizer")
    change(tmp_path, stated, tokenizer_class="PreTrainedTokenizerFast", cls_token="[MASK]")
    assert ours(tmp_path) == theirs(tmp_path)


def test_a_tokenizer_without_tokens_around_a_text_is_left_so(tmp_path: Path) -> None:
    write(tmp_path, "BertTokenizer")
    rust = Rust.from_file(str(tmp_path / "tokenizer.json"))
    rust.post_processor = processors.TemplateProcessing(single="$A", special_tokens=[])
    rust.save(str(tmp_path / "tokenizer.json"))
    assert Tokenizer(tmp_path, 64).encode([""])[0].ids == []


def test_the_page_on_formats_has_a_row_for_every_option_that_may_be_refused() -> None:
    docs = Path(__file__).parents[4] / "docs"
    assert "](developers/formats.md#tokenizers)" in (docs / "model-files.md").read_text("utf-8")
    page = (docs / "developers/formats.md").read_text(encoding="utf-8")
    table = page.partition("| key of `tokenizer_config.json` |")[2].partition("\n\n")[0]
    roles = {f"{role}_token" for names in ROLES_AROUND.values() for role in names}
    options = {option for checked in OPTIONS.values() for option in checked}
    for key in {*roles, *options, "unk_token", "split_special_tokens"}:
        assert any(f"`{key}`" in row and "refused" in row for row in table.splitlines()), key
