"""Tokenizers put together from older files, beside transformers and SentencePiece itself."""

import json
import unicodedata
from pathlib import Path
from typing import Any

import pytest
import sentencepiece
import transformers
from hypothesis import given, settings
from transformers import AutoTokenizer

from models import vocabulary
from models.errors import ModelError
from models.tokenizer import Tokenizer
from tests.models import kinds, raw
from tests.models.test_tokenizer_kinds import SEEN, WRITTEN

MARKED = [
    "<s> a </s> <mask> b<pad> <unk> <extra_id_0> x",
    " <mask>  <MASK> [mask] [MASK] <x> y <|endoftext|> a <|im_start|>b <|im_end|> <tool>",
    "``quoted'' 1,000, a",
    "½ ﬁ ① ｆｕｌｌ\u3000width",
    "<s>NOTUSED a",
]


@pytest.fixture(scope="module", params=raw.CASES)
def case(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture(scope="module")
def folder(case: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return raw.write(case, tmp_path_factory.mktemp(case))


@pytest.fixture(scope="module")
def tokenizer(folder: Path) -> Tokenizer:
    return Tokenizer(folder, 10_000)


@pytest.fixture(scope="module")
def theirs(case: str, folder: Path) -> Any:
    # transformers takes a class without the space before the text for all Llamas.
    load: Any = transformers.LlamaTokenizer if "llama" in case else AutoTokenizer
    return load.from_pretrained(folder)


OURS = [name for name in raw.CASES if name != "gemma"]
like_transformers = pytest.mark.parametrize("case", OURS, indirect=True, scope="module")


@like_transformers
def test_ids_equal_those_of_transformers(
    tokenizer: Tokenizer, theirs: Any, texts: list[str]
) -> None:
    for text in [*texts, *MARKED]:
        assert tokenizer.encode([text])[0].ids == theirs(text)["input_ids"], text


@like_transformers
@settings(max_examples=40)
@given(text=WRITTEN)
def test_ids_of_anything_equal_those_of_transformers(
    tokenizer: Tokenizer, theirs: Any, text: str
) -> None:
    assert tokenizer.encode([text])[0].ids == theirs(text)["input_ids"]


@like_transformers
def test_places_equal_those_of_transformers_but_for_marks(
    tokenizer: Tokenizer, theirs: Any, texts: list[str]
) -> None:
    for text in texts:
        expected = theirs(text, return_offsets_mapping=True)["offset_mapping"]
        for token, (start, stop) in zip(tokenizer.tokens(text), expected, strict=True):
            ours = token.stop or 0
            assert (token.start or 0) == start and ours >= stop
            assert all(unicodedata.category(mark)[0] == "M" for mark in text[stop:ours])


@like_transformers
def test_the_vocabulary_has_the_size_of_that_of_transformers(
    tokenizer: Tokenizer, theirs: Any
) -> None:
    assert tokenizer.vocab_size == len(theirs)


def test_words_come_back(tokenizer: Tokenizer) -> None:
    words = "the work of this license"
    assert tokenizer.decode([tokenizer.encode([words])[0].ids])[0].strip() == words


@pytest.mark.parametrize("case", ["llama", "llama_legacy", "gemma"], indirect=True, scope="module")
def test_merges_over_the_whole_text_equal_those_of_sentencepiece(
    folder: Path, tokenizer: Tokenizer, texts: list[str]
) -> None:
    file = sentencepiece.SentencePieceProcessor(model_file=str(folder / "tokenizer.model"))
    for text in texts:
        ids = [token.id for token in tokenizer.tokens(text, special=False)]
        # A space before the text is one of the two that the family puts there.
        if "gemma" in str(folder) or not text.startswith(" "):
            assert ids == file.encode(text), text


@pytest.mark.parametrize("case", ["gemma"], indirect=True, scope="module")
def test_gemma_begins_with_one_token_and_keeps_its_own_symbols_whole(tokenizer: Tokenizer) -> None:
    found = tokenizer.tokens("a  b<start_of_turn>")
    names = ["<bos>", "a", "  ", "b", "<start_of_turn>"]
    assert [token.text for token in found] == names
    assert found[0].special


def test_a_family_without_a_recipe_is_named(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "bloom"}', encoding="utf-8")
    raw.merges("gpt2")(tmp_path)
    with pytest.raises(ModelError, match=r"'bloom' is not known: add a tokenizer\.json"):
        Tokenizer(tmp_path, 64)


@pytest.mark.parametrize("file", ["tokenizer_config.json", "config.json"])
def test_a_tokenizer_class_without_a_recipe_is_not_taken_for_its_models(
    tmp_path: Path, file: str
) -> None:
    folder = raw.write("bert", tmp_path)
    named = {"model_type": "bert", "tokenizer_class": "BertJapaneseTokenizer"}
    (folder / file).write_text(json.dumps(named), encoding="utf-8")
    with pytest.raises(ModelError, match="'BertJapaneseTokenizer' is not known"):
        Tokenizer(folder, 64)


def test_a_class_that_the_models_own_file_names_goes_before_its_family(
    tmp_path: Path, texts: list[str]
) -> None:
    folder = raw.write("xlm_roberta", tmp_path)
    named = {"model_type": "bert", "tokenizer_class": "XLMRobertaTokenizer"}
    (folder / "config.json").write_text(json.dumps(named), encoding="utf-8")
    expected = AutoTokenizer.from_pretrained(folder)(texts)["input_ids"]
    assert [row.ids for row in Tokenizer(folder, 10_000).encode(texts)] == expected


def test_a_generic_tokenizer_class_says_nothing(tmp_path: Path) -> None:
    folder = raw.write("bert", tmp_path)
    named = {"tokenizer_class": "PreTrainedTokenizerFast"}
    (folder / "tokenizer_config.json").write_text(json.dumps(named), encoding="utf-8")
    assert Tokenizer(folder, 64).tokens("The")[1].text == "The"


def test_a_missing_vocabulary_is_named(tmp_path: Path) -> None:
    folder = raw.write("roberta", tmp_path)
    (folder / "merges.txt").unlink()
    with pytest.raises(ModelError, match=r"neither tokenizer\.json nor merges\.txt"):
        Tokenizer(folder, 64)


def test_a_broken_vocabulary_is_named(tmp_path: Path) -> None:
    folder = raw.write("roberta", tmp_path)
    (folder / "merges.txt").write_text("of the", encoding="utf-8")
    with pytest.raises(ModelError, match=r"vocab\.json with merges\.txt cannot be read"):
        Tokenizer(folder, 64)


def test_a_file_of_another_model_is_refused(tmp_path: Path) -> None:
    folder = raw.write("llama", tmp_path)
    (folder / "tokenizer.model").rename(folder / "spiece.model")
    (folder / "tokenizer_config.json").write_text('{"tokenizer_class": "T5Tokenizer"}')
    with pytest.raises(ModelError, match="holds a bpe model, and this family has unigram"):
        Tokenizer(folder, 64)


def test_an_added_token_with_another_id_is_refused(tmp_path: Path) -> None:
    folder = raw.write("bert", tmp_path)
    (folder / "added_tokens.json").write_text('{"[NEW]": 999}', encoding="utf-8")
    with pytest.raises(ModelError, match=r"'\[NEW\]' has id 300 in the vocabulary and 999 beside"):
        Tokenizer(folder, 64)


def test_a_role_that_the_family_needs_and_the_checkpoint_denies_is_named(tmp_path: Path) -> None:
    folder = raw.write("bert", tmp_path)
    (folder / "tokenizer_config.json").write_text('{"cls_token": null}', encoding="utf-8")
    with pytest.raises(ModelError, match="gives no cls_token"):
        Tokenizer(folder, 64)


def test_tokenizer_json_goes_before_all_others(tmp_path: Path) -> None:
    folder = kinds.write("wordlevel", raw.write("bert", tmp_path))
    assert vocabulary.files(folder) == [folder / "tokenizer.json"]
    assert len(Tokenizer(folder, 64).encode(["the work"])[0].ids) == 2


def test_the_files_of_a_tokenizer_are_those_that_decide_its_ids(tmp_path: Path) -> None:
    folder = raw.write("gpt2_framed", tmp_path)
    names = {path.name for path in vocabulary.files(folder)}
    assert names == {"vocab.json", "merges.txt", "tokenizer_config.json", "added_tokens.json"}


def test_what_people_see_is_covered(tokenizer: Tokenizer) -> None:
    shown: set[int] = set()
    for token in tokenizer.tokens(SEEN):
        shown.update(range(token.start or 0, token.stop or 0))
    assert not {i for i, char in enumerate(SEEN) if not char.isspace()} - shown
