"""tokenizer.json and what lies beside it, against transformers."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from tokenizers import AddedToken, processors
from tokenizers import Tokenizer as Rust
from transformers import AutoTokenizer

from models.errors import ModelError
from models.tokenizer.loading import loader
from models.tokenizer.tokenizer import Tokenizer
from tests.models import kinds

EOS = "<|endoftext|>"
QUERY = AddedToken("[Q]", special=True, normalized=False)
MASK = AddedToken("[MASK]", lstrip=True, special=True, normalized=False)
TEXTS = [
    *("Thé Lícense of THIS Work", "the 東京 work", " the work", "the work", ""),
    *("of [Q] the [MASK]work [q] [R]", "work <pad>the <mask> of"),
]


def write(folder: Path, kind: str, **files: Any) -> Path:
    """The tokenizer.json of a kind, and the other files by their names."""
    kinds.write(kind, folder)
    for name, content in files.items():
        (folder / f"{name}.json").write_text(json.dumps(content), encoding="utf-8")
    return folder


def listed(*tokens: AddedToken, start: int = 300) -> dict[str, Any]:
    """As added_tokens_decoder lists them."""
    ids = Rust.from_str(kinds.text("wordpiece")).get_vocab()
    return {
        str(ids.get(token.content, start + place)): token.__getstate__()
        for place, token in enumerate(tokens)
    }


def options(**given: Any) -> dict[str, Any]:
    return {"tokenizer_config": given}


def assert_same(folder: Path) -> None:
    """Ids and, but for special tokens, offsets equal those of transformers."""
    ours, theirs = Tokenizer(folder, 64), AutoTokenizer.from_pretrained(folder)
    for text in TEXTS:
        expected = theirs(text, return_offsets_mapping=True)
        found = ours.tokens(text)
        assert [token.id for token in found] == expected["input_ids"], text
        places = [(token.start or 0, token.stop or 0) for token in found]
        assert places == expected["offset_mapping"], text
    assert ours.vocab_size == len(theirs)


BERT = {
    "lower": {"do_lower_case": True},
    "cased": {"do_lower_case": False},
    "accents": {"strip_accents": False},
    "bare": {"do_lower_case": False, "strip_accents": True},
    "chinese": {"tokenize_chinese_chars": False},
    "unsaid": {},
}


@pytest.mark.parametrize("named", ["BertTokenizer", "BertTokenizerFast", "DistilBertTokenizer"])
@pytest.mark.parametrize("given", BERT.values(), ids=BERT)
def test_the_options_of_a_bert_class_go_before_its_file(
    tmp_path: Path, named: str, given: Mapping[str, Any]
) -> None:
    said = options(tokenizer_class=named, **given)
    assert_same(write(tmp_path, "wordpiece", config={"model_type": "bert"}, **said))


@pytest.mark.parametrize("kind", ["bert", "distilbert", "electra", "ernie", "nomic_bert"])
def test_a_model_that_names_no_class_has_that_of_its_family(tmp_path: Path, kind: str) -> None:
    said = options(do_lower_case=False)
    assert_same(write(tmp_path, "wordpiece", config={"model_type": kind}, **said))


def test_a_file_of_large_letters_is_read_as_its_class_says(tmp_path: Path) -> None:
    folder = write(tmp_path, "wordpiece", config={"model_type": "bert"})
    path = folder / "tokenizer.json"
    path.write_text(kinds.text("wordpiece").replace('"lowercase":true', '"lowercase":false'))
    assert_same(folder)


@pytest.mark.parametrize("named", ["PreTrainedTokenizerFast", "TokenizersBackend"])
def test_a_generic_class_leaves_the_file_as_it_is(tmp_path: Path, named: str) -> None:
    said = options(tokenizer_class=named, do_lower_case=False)
    card = {"model_type": "bert", "tokenizer_class": "BertTokenizer"}
    assert_same(write(tmp_path, "wordpiece", config=card, **said))


def test_a_class_may_be_named_by_the_models_own_file(tmp_path: Path) -> None:
    card = {"model_type": "roberta", "tokenizer_class": "BertTokenizer"}
    assert_same(write(tmp_path, "wordpiece", config=card, **options(do_lower_case=False)))


@pytest.mark.parametrize("given", [{}, {"add_prefix_space": True}, {"add_prefix_space": False}])
@pytest.mark.parametrize("kind", ["roberta", "gpt2"])
def test_a_space_stands_before_a_text_if_the_options_say_so(
    tmp_path: Path, kind: str, given: dict[str, Any]
) -> None:
    said = options(eos_token={"roberta": "</s>", "gpt2": EOS}[kind], **given)
    assert_same(write(tmp_path, kind, config={"model_type": kind}, **said))


ADDED: Mapping[str, dict[str, Any]] = {
    "listed": options(added_tokens_decoder=listed(QUERY)),
    "again": options(added_tokens_decoder=listed(QUERY, MASK)),
    "named": options(eos_token="[Q]", additional_special_tokens=["[R]"]),
    "objects": options(mask_token={"__type": "AddedToken", **MASK.__getstate__()}),
    "older": {
        "added_tokens": {"[Q]": 300},
        "special_tokens_map": {"mask_token": MASK.__getstate__()},
    },
}


@pytest.mark.parametrize("named", ["BertTokenizer", "PreTrainedTokenizerFast"])
@pytest.mark.parametrize("files", ADDED.values(), ids=ADDED)
def test_tokens_that_stand_beside_the_file_are_added(
    tmp_path: Path, files: Mapping[str, Any], named: str
) -> None:
    said = {**files, **options(**files.get("tokenizer_config", {}), tokenizer_class=named)}
    assert_same(write(tmp_path, "wordpiece", config={"model_type": "bert"}, **said))


def test_a_token_with_another_id_than_beside_the_file_is_refused(tmp_path: Path) -> None:
    said = options(added_tokens_decoder=listed(QUERY, start=777))
    with pytest.raises(ModelError, match=r"'\[Q\]' has id 300 in the vocabulary and 777 beside it"):
        Tokenizer(write(tmp_path, "wordpiece", **said), 64)


def qwen(folder: Path, **given: Any) -> Path:
    """Qwen 2 without a template, as GTE lays it out."""
    said = options(eos_token=EOS, tokenizer_class="Qwen2Tokenizer", **given)
    write(folder, "qwen", config={"model_type": "qwen2"}, **said)
    rust = Rust.from_file(str(folder / "tokenizer.json"))
    rust.post_processor = processors.ByteLevel(trim_offsets=False)
    rust.save(str(folder / "tokenizer.json"))
    return folder


OWN = {
    "pair": {"AutoTokenizer": ["tokenization_qwen.Qwen2Tokenizer", "x.Qwen2TokenizerFast"]},
    "slow": {"AutoTokenizer": ["tokenization_qwen.Qwen2Tokenizer", None]},
    "list": ["organisation/name--tokenization_qwen.Qwen2Tokenizer", None],
}


@pytest.mark.parametrize("auto_map", OWN.values(), ids=OWN)
def test_code_of_the_repository_ends_a_text_if_the_options_say_so(
    tmp_path: Path, auto_map: object
) -> None:
    plain = Tokenizer(qwen(tmp_path), 64).encode(TEXTS)
    ended = Tokenizer(qwen(tmp_path, auto_map=auto_map, add_eos_token=True), 64)
    (eos,) = ended.suffix
    assert ended.name(eos) == EOS
    assert [row.ids for row in ended.encode(TEXTS)] == [[*row.ids, eos] for row in plain]
    silent = Tokenizer(qwen(tmp_path, auto_map=auto_map, add_eos_token=False), 64)
    assert silent.encode(TEXTS) == plain


def test_a_template_that_ends_a_text_does_so_once(tmp_path: Path) -> None:
    said = options(auto_map=OWN["pair"], add_eos_token=True, eos_token=EOS)
    ended = Tokenizer(write(tmp_path, "qwen", **said), 64)
    assert [token.text for token in ended.tokens("of")] == ["of", EOS]


def test_a_class_of_the_library_ends_a_text_only_where_its_file_does(tmp_path: Path) -> None:
    assert_same(qwen(tmp_path, add_eos_token=True))


def test_other_code_of_the_repository_is_refused(tmp_path: Path) -> None:
    folder = qwen(tmp_path, auto_map={"AutoTokenizer": ["tokenization_own.OwnTokenizer", None]})
    with pytest.raises(ModelError, match=r"OwnTokenizer.* is code of the model, which is not run"):
        Tokenizer(folder, 64)


@pytest.mark.parametrize("said", [{"tokenizer_class": "RoFormerTokenizerFast"}, {}])
def test_a_tokenizer_that_splits_by_a_library_is_refused(
    said: dict[str, str], tmp_path: Path
) -> None:
    folder = write(tmp_path, "wordpiece", config={"model_type": "roformer"}, **options(**said))
    with pytest.raises(ModelError, match="splits words by jieba"):
        Tokenizer(folder, 64)
    named = options(tokenizer_class="BertTokenizer")
    assert_same(write(tmp_path, "wordpiece", config={"model_type": "roformer"}, **named))


def test_the_files_beside_a_tokenizer_decide_its_ids_too(tmp_path: Path) -> None:
    folder = write(tmp_path, "wordpiece", **options(do_lower_case=True), added_tokens={})
    names = [path.name for path in loader.files(folder)]
    assert names == ["tokenizer.json", "tokenizer_config.json", "added_tokens.json"]
