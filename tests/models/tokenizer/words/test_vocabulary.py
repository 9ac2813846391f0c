"""Words and their rows, in memory and mapped from a file."""

from pathlib import Path

import numpy as np
from safetensors.numpy import save_file

from embedwell_models.tokenizer.words.options import MAPPED, WordOptions, read_vocabulary
from embedwell_models.tokenizer.words.subwords import Subwords
from embedwell_models.tokenizer.words.vocabulary import Vocabulary

WORDS = ["the", "", "日本", "straße", "the thing", "😀", *map(str, range(5000))]


def test_every_word_is_found_in_its_row_and_no_other() -> None:
    vocabulary = Vocabulary.of(WORDS)
    assert len(vocabulary) == len(WORDS)
    assert [vocabulary.find(word) for word in WORDS] == list(range(len(WORDS)))
    assert [vocabulary.word(row) for row in range(len(WORDS))] == WORDS
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
    vocabulary = Vocabulary.of(WORDS)
    save_file(dict(vocabulary.arrays), tmp_path / MAPPED, metadata=dict(options.as_metadata()))
    mapped = read_vocabulary(tmp_path)
    assert [mapped.find(word) for word in WORDS] == list(range(len(WORDS)))
    assert isinstance(mapped.arrays["text"].base, np.ndarray)
    assert WordOptions.read(tmp_path) == options
