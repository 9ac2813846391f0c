"""Tokenizers that split words in Python, compared with those of transformers."""

import json
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from transformers import BertJapaneseTokenizer, PhobertTokenizer

from embedwell_models.errors import ModelError, UnsplittableTextError
from embedwell_models.hub import conversion
from embedwell_models.tokenizer.loading import loader, tokenizer_kind
from embedwell_models.tokenizer.tokenizer import Tokenizer
from tests.models.segmented_files import (
    JAPANESE,
    ODD_JAPANESE,
    ODD_VIETNAMESE,
    VIETNAMESE,
    write_japanese,
    write_phobert,
)

IPADIC = {"mecab_kwargs": {"mecab_dic": "ipadic"}}


@pytest.fixture(scope="module")
def japanese(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_japanese(tmp_path_factory.mktemp("japanese"))


@pytest.fixture(scope="module")
def phobert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_phobert(tmp_path_factory.mktemp("phobert"))


def assert_same_ids(folder: Path, original: Any, texts: list[str]) -> None:
    ours = Tokenizer(folder, 10_000)
    for text in texts:
        assert ours.encode([text])[0].ids == original(text)["input_ids"], text
    assert [row.ids for row in ours.encode(texts)] == [original(t)["input_ids"] for t in texts]
    assert ours.vocab_size == len(original)
    unknown = [original(text)["input_ids"].count(original.unk_token_id) for text in texts]
    assert 0 in unknown and sum(unknown), "some texts are known, and not all"


@pytest.mark.parametrize("subwords", ["wordpiece", "character"])
@pytest.mark.parametrize("options", [{}, IPADIC, {"do_lower_case": True}], ids=str)
def test_the_ids_of_japanese_equal_those_of_transformers(
    subwords: str, options: dict[str, Any], tmp_path: Path
) -> None:
    folder = write_japanese(tmp_path, subwords=subwords, **options)
    original = BertJapaneseTokenizer.from_pretrained(folder)
    assert_same_ids(folder, original, [*JAPANESE, *ODD_JAPANESE])


def test_the_ids_of_vietnamese_equal_those_of_transformers(phobert: Path) -> None:
    original = PhobertTokenizer.from_pretrained(phobert)
    assert_same_ids(phobert, original, [*VIETNAMESE, *ODD_VIETNAMESE])


def test_pairs_have_the_special_tokens_of_transformers(japanese: Path, phobert: Path) -> None:
    kinds: Any = ((japanese, BertJapaneseTokenizer), (phobert, PhobertTokenizer))
    for folder, kind in kinds:
        theirs, rust = (
            kind.from_pretrained(folder)("a", "b", return_token_type_ids=True),
            loader.load(folder).rust,
        )
        pair = rust.encode("a", "b")
        assert pair.ids == theirs["input_ids"]
        if folder == japanese:
            assert pair.type_ids == theirs["token_type_ids"]


def test_tokens_are_where_their_characters_are(japanese: Path, phobert: Path) -> None:
    for folder, text in ((japanese, JAPANESE[1]), (phobert, VIETNAMESE[0])):
        tokens = Tokenizer(folder, 100).tokens(text, special=False)
        assert "".join(token.text for token in tokens) == text.replace(" ", "")
        assert all(text[token.start : token.stop] == token.text for token in tokens)
    [kilo, *_] = Tokenizer(japanese, 100).tokens("㌔ 猫", special=False)
    assert (kilo.start, kilo.stop, kilo.text) == (0, 1, "㌔"), "one character that becomes two"
    tokens = Tokenizer(japanese, 100).tokens(" " * 3000 + "猫 名前 " * 700, special=False)
    assert [(t.start, t.text) for t in tokens[-2:]] == [(6495, "猫"), (6497, "名前")]


def test_ids_become_texts_again(japanese: Path, phobert: Path) -> None:
    kinds: Any = ((japanese, BertJapaneseTokenizer, JAPANESE[0]), (phobert, PhobertTokenizer, "a"))
    for folder, kind, text in kinds:
        original = kind.from_pretrained(folder)
        ids = original(text)["input_ids"]
        theirs = original.decode(ids, skip_special_tokens=True)
        assert Tokenizer(folder, 100).decode([ids]) == [theirs]


def test_a_long_vietnamese_text_is_split_at_spaces(phobert: Path) -> None:
    text = f"{VIETNAMESE[0]} {VIETNAMESE[1]}\n" * 30
    whole, chunked = Tokenizer(phobert, 9000), Tokenizer(phobert, 9000, chunk_size=200)
    assert len([*chunked.id_chunks(text)]) > 10
    assert chunked.encode([text]) == whole.encode([text])
    assert chunked.tokens(text) == whole.tokens(text)


def test_a_japanese_text_is_never_split(japanese: Path) -> None:
    """MeCab chooses the words of a text by all of it, spaces and line ends included."""
    text = f"{JAPANESE[0]}\n" * 400
    tokenizer = Tokenizer(japanese, 9, chunk_size=200, max_chunk_size=400)
    with pytest.raises(UnsplittableTextError):
        tokenizer.encode([text])
    whole = Tokenizer(japanese, 9).encode([text], count_limit=10**6)[0]
    assert whole.ids == Tokenizer(japanese, 9).encode([JAPANESE[0]])[0].ids


def test_threads_do_not_disturb_each_other(japanese: Path) -> None:
    tokenizer = Tokenizer(japanese, 1000)
    texts = [line * 20 for line in JAPANESE]
    expected = [tokenizer.encode([text])[0].ids for text in texts]
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda text: tokenizer.encode([text])[0].ids, texts * 20))
    assert found == expected * 20


@pytest.mark.parametrize(
    "options",
    [
        {"word_tokenizer_type": "sudachi"},
        {"word_tokenizer_type": "jumanpp"},
        {"subword_tokenizer_type": "sentencepiece"},
        {"do_word_tokenize": False},
        {"never_split": ["猫"]},
        {"mecab_kwargs": {"mecab_option": "-u other.dic"}},
        {"mecab_kwargs": {"mecab_dic": "unidic"}},
        {"mecab_kwargs": {"normalize_text": False}},
    ],
    ids=str,
)
def test_other_options_are_refused_by_name(options: dict[str, Any], tmp_path: Path) -> None:
    folder = write_japanese(tmp_path, **options)
    [(key, value)] = options.items()
    named = key if not isinstance(value, dict) else next(iter(value))
    with pytest.raises(ModelError, match=named):
        Tokenizer(folder, 100)


def test_the_extra_is_named_where_it_is_missing(
    japanese: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "fugashi", None)
    with pytest.raises(ModelError, match=r"needs fugashi: pip install fugashi unidic-lite ipadic$"):
        Tokenizer(japanese, 100)


def test_the_vocabulary_needs_no_conversion(japanese: Path, phobert: Path) -> None:
    for folder, names in ((japanese, {"vocab.txt"}), (phobert, {"vocab.txt", "bpe.codes"})):
        assert "tokenizer.json" not in conversion.missing_files(folder)
        assert names <= {path.name for path in tokenizer_kind.files(folder)}


def test_lines_without_a_count_are_refused(tmp_path: Path) -> None:
    for name, message in (("vocab.txt", "token with its count"), ("bpe.codes", "pair with its")):
        folder = write_phobert(tmp_path)
        (folder / name).write_text("word\n", encoding="utf-8")
        with pytest.raises(ModelError, match=f"{name}: 'word' is not a {message}"):
            Tokenizer(folder, 100)


def test_japanese_split_as_by_bert_is_read_from_tokenizer_json(tmp_path: Path) -> None:
    folder = write_japanese(tmp_path, word_tokenizer_type="basic")
    with pytest.raises(ModelError, match=r"no tokenizer.json"):
        Tokenizer(folder, 100)
    assert json.loads((folder / "tokenizer_config.json").read_text())["mecab_kwargs"]
