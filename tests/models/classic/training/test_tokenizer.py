"""Trained tokenizers, read by the server's loader and by transformers."""

from pathlib import Path

import pytest
from transformers import AutoTokenizer

from embedwell_classic.training.tokenizer import ROLES, Algorithm, train_tokenizer, write_tokenizer
from embedwell_models.errors import ModelError
from embedwell_models.tokenizer.tokenizer import Tokenizer
from tests.conftest import PROSE

TEXTS = PROSE.splitlines()
ALGORITHMS: list[Algorithm] = ["bpe", "wordpiece", "unigram"]


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_the_server_and_transformers_read_the_same_ids(
    tmp_path: Path, algorithm: Algorithm
) -> None:
    write_tokenizer(train_tokenizer(TEXTS, algorithm, 500), tmp_path, 12)
    ours, theirs = Tokenizer(tmp_path, 12), AutoTokenizer.from_pretrained(tmp_path)
    texts = ["The License, granted to You.", "", "zebra 日本 " * 20]
    ids = [row.ids for row in ours.encode(texts)]
    assert ids == [theirs(text, truncation=True)["input_ids"] for text in texts]
    assert [len(row) for row in ids][1:] == [2, 12]
    assert {(row[0], row[-1]) for row in ids} == {(2, 3)}
    assert [theirs.convert_tokens_to_ids(token) for token in ROLES.values()] == [*range(5)]
    assert theirs.model_max_length == 12 and theirs.pad_token == "[PAD]"
    pair = theirs("the", "License")
    assert pair["token_type_ids"][0] == 0 and pair["token_type_ids"][-1] == 1


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_frequent_words_are_one_token_and_decode_to_themselves(algorithm: Algorithm) -> None:
    tokenizer = train_tokenizer(TEXTS, algorithm, 900)
    assert tokenizer.get_vocab_size() <= 900
    encoding = tokenizer.encode("the Work of the License", add_special_tokens=False)
    assert len(encoding.ids) == 5
    assert tokenizer.decode(encoding.ids).strip() == "the Work of the License"


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("lower", [False, True])
def test_lower_alone_makes_one_text_of_both_cases(algorithm: Algorithm, lower: bool) -> None:
    tokenizer = train_tokenizer(TEXTS, algorithm, 500, lower)
    same = tokenizer.encode("LICENSE").ids == tokenizer.encode("license").ids
    assert same == lower


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_vocabulary_without_room_for_the_characters_is_refused(algorithm: Algorithm) -> None:
    with pytest.raises(ModelError, match=r"20 tokens is too small for the corpus: .*larger|more"):
        train_tokenizer(TEXTS, algorithm, 20)


def test_an_error_of_the_corpus_is_raised_as_it_is() -> None:
    def texts() -> object:
        yield "a text"
        raise ModelError("no UTF-8")

    with pytest.raises(ModelError, match=r"^no UTF-8$"):
        train_tokenizer(texts(), "bpe", 300)  # type: ignore[arg-type]
