"""Words and their rows, buckets of n-grams compared with fastText's library, and damaged files."""

from pathlib import Path

import fasttext
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from safetensors.numpy import save_file

from embedwell_classic.tokenizers.vocabulary import (
    MAX_CHARACTERS,
    Subwords,
    Vocabulary,
    WordOptions,
    read_vocabulary,
)
from embedwell_models.errors import ModelError
from embedwell_models.tokenizer.loading.tokenizer_kind import LISTED, MAPPED
from tests.models.word_files import WORDS, write_fasttext

LISTED_WORDS = ["the", "", "日本", "straße", "the thing", "😀", *map(str, range(5000))]


def test_every_word_is_found_in_its_row_and_no_other() -> None:
    vocabulary = Vocabulary.of(LISTED_WORDS)
    assert len(vocabulary) == len(LISTED_WORDS)
    assert [vocabulary.find(word) for word in LISTED_WORDS] == list(range(len(LISTED_WORDS)))
    assert [vocabulary.word(row) for row in range(len(LISTED_WORDS))] == LISTED_WORDS
    assert [vocabulary.find(word) for word in ("The", "th", "thet", "5000", "\ud800")] == [None] * 5


def test_words_of_equal_hashes_are_told_apart() -> None:
    vocabulary = Vocabulary.of(["a", "b", "c", "d"])
    arrays = {**vocabulary.arrays, "keys": np.sort(np.repeat(vocabulary.arrays["keys"][:1], 4))}
    colliding = Vocabulary(arrays)
    row = int(vocabulary.arrays["order"][0])
    assert colliding.find(vocabulary.word(row)) == row


def test_of_a_word_that_comes_again_the_last_counts() -> None:
    assert Vocabulary.of(["a", "b", "a"]).find("a") == 2


def test_a_vocabulary_without_words_finds_none() -> None:
    assert Vocabulary.of([]).find("a") is None


def test_a_file_maps_the_vocabulary_and_its_options(tmp_path: Path) -> None:
    options = WordOptions(frozenset({"b", "a"}), True, True, Subwords(2, 5, 77))
    vocabulary = Vocabulary.of(LISTED_WORDS)
    save_file(dict(vocabulary.arrays), tmp_path / MAPPED, metadata=dict(options.as_metadata()))
    mapped = read_vocabulary(tmp_path)
    assert [mapped.find(word) for word in LISTED_WORDS] == list(range(len(LISTED_WORDS)))
    assert isinstance(mapped.arrays["text"].base, np.ndarray)
    assert WordOptions.read(tmp_path) == options


BUCKETS = 97
# fastText gets words as UTF-8 that ends at a zero byte.
TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1)


@pytest.mark.parametrize("lengths", [(3, 6), (1, 3), (1, 1), (2, 2), (4, 3)])
def test_the_buckets_of_a_word_are_fasttexts(
    tmp_path_factory: pytest.TempPathFactory, lengths: tuple[int, int]
) -> None:
    path = write_fasttext(tmp_path_factory.mktemp("a") / "a.bin", buckets=BUCKETS, lengths=lengths)
    theirs, ours = fasttext.load_model(str(path)), Subwords(*lengths, BUCKETS)

    @given(TEXTS)
    def check(word: str) -> None:
        if word in WORDS:
            return
        _, ids = theirs.get_subwords(word)
        assert ours.of(word) == [id - len(WORDS) for id in ids if id >= 0]

    check()


def test_a_word_beyond_the_limit_has_no_ngrams(tmp_path: Path) -> None:
    assert Subwords(3, 6, BUCKETS).of("x" * MAX_CHARACTERS)
    assert Subwords(3, 6, BUCKETS).of("x" * (MAX_CHARACTERS + 1)) == []


@pytest.mark.parametrize(
    "options", ["[", '{"other": 1}', '{"stop_words": [], "subwords": {"n": 1}}']
)
def test_options_that_cannot_be_read_are_refused(tmp_path: Path, options: str) -> None:
    save_file({"text": np.zeros(1)}, tmp_path / MAPPED, metadata={"options": options})
    with pytest.raises(ModelError, match=r"vocabulary\.safetensors has no valid options"):
        WordOptions.read(tmp_path)


def test_a_file_that_lacks_an_array_is_refused(tmp_path: Path) -> None:
    arrays = {**Vocabulary.of(["a"]).arrays}
    del arrays["keys"]
    save_file(arrays, tmp_path / MAPPED)
    with pytest.raises(ModelError, match=r"lacks \['keys'\]"):
        read_vocabulary(tmp_path)


def test_a_file_that_is_no_safetensors_is_refused(tmp_path: Path) -> None:
    (tmp_path / MAPPED).write_bytes(b"12345678901234567890")
    with pytest.raises(ModelError, match=r"vocabulary\.safetensors cannot be read"):
        read_vocabulary(tmp_path)


def test_a_list_that_lacks_the_vocabulary_is_refused(tmp_path: Path) -> None:
    (tmp_path / LISTED).write_text("{}")
    with pytest.raises(ModelError, match="vocab"):
        read_vocabulary(tmp_path)
