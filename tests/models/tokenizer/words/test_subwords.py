"""Buckets of n-grams beside fastText's own library."""

from pathlib import Path

import fasttext
import pytest
from hypothesis import given
from hypothesis import strategies as st

from embedwell_models.tokenizer.words.subwords import MAX_CHARACTERS, Subwords
from tests.models.word_files import WORDS, write_fasttext

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
