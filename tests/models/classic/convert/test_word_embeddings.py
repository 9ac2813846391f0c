"""Converted word vectors compared with gensim, fastText's own library and sentence-transformers."""

import gzip
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fasttext
import numpy as np
import pytest
from gensim.models import KeyedVectors
from gensim.models.fasttext import load_facebook_vectors
from sentence_transformers import SentenceTransformer

from embedwell_classic.convert.word_embeddings import Choices, convert_words
from embedwell_models.embedder import Embedder
from embedwell_models.errors import ModelError
from embedwell_models.vectors import Floats
from tests.models.word_files import WORDS, vectors, write_binary, write_fasttext, write_text

TEXTS = ["the king", "Berlin, (queen) MAN?", "", "nothing known", "the U.S. the 日本 straße"]
UNKNOWN = ["unknwn", "Straßen", "日本語", "KINGS", "a", "😀", "x" * 200]
TABLE = vectors()


def load(folder: Path) -> Embedder:
    return Embedder.load(folder, device="cpu")


def converted(source: Path, **choices: Any) -> Embedder:
    target = source.with_name(f"{source.name}-converted")
    convert_words(source, target, Choices(**choices))
    return load(target)


WRITERS: dict[str, Callable[[Path], tuple[Path, KeyedVectors]]] = {
    "word2vec.txt": lambda path: (
        write_text(path, TABLE),
        KeyedVectors.load_word2vec_format(str(path)),
    ),
    "word2vec.bin": lambda path: (
        write_binary(path, TABLE),
        KeyedVectors.load_word2vec_format(str(path), binary=True),
    ),
    "without-newlines.bin": lambda path: (
        write_binary(path, TABLE, newline=b""),
        KeyedVectors.load_word2vec_format(str(path), binary=True),
    ),
    "glove.txt": lambda path: (
        write_text(path, TABLE, header=False),
        # Without a header, gensim leaves the file open.
        KeyedVectors.load_word2vec_format(str(write_text(path.with_name("headed.txt"), TABLE))),
    ),
    "fasttext.vec": lambda path: (
        write_text(path, TABLE),
        KeyedVectors.load_word2vec_format(str(path)),
    ),
    "word2vec.txt.gz": lambda path: (
        write_text(path, TABLE),
        KeyedVectors.load_word2vec_format(str(path)),
    ),
    "word2vec.bin.gz": lambda path: (
        write_binary(path, TABLE),
        KeyedVectors.load_word2vec_format(str(path), binary=True),
    ),
}


@pytest.mark.parametrize("name", WRITERS)
def test_the_vector_of_a_word_is_gensims_to_the_bit(tmp_path: Path, name: str) -> None:
    path, theirs = WRITERS[name](tmp_path / name)
    ours = converted(path)
    assert theirs.index_to_key == WORDS
    np.testing.assert_array_equal(ours.embed(WORDS), np.stack([theirs[word] for word in WORDS]))


@pytest.mark.parametrize("weights", [None, "sif", "idf"])
def test_sentence_transformers_reads_the_folder_with_the_same_vectors(
    tmp_path: Path, weights: str | None
) -> None:
    corpus = tmp_path / "corpus.txt"
    corpus.write_text("the king the queen\nthe U.S. and the man\nBerlin\n", encoding="utf-8")
    path = write_text(tmp_path / "glove.txt", TABLE)
    ours = converted(path, weights=weights, corpus=corpus if weights else None)
    theirs = SentenceTransformer(str(tmp_path / "glove.txt-converted"), device="cpu")
    np.testing.assert_allclose(ours.embed(TEXTS), theirs.encode(TEXTS), atol=1e-6)
    alone = np.concatenate([ours.embed([text]) for text in TEXTS])
    assert ours.embed(TEXTS).tobytes() == alone.tobytes()


@pytest.mark.parametrize("lengths", [(3, 6), (1, 3), (2, 2)])
@pytest.mark.parametrize("packed", [False, True])
def test_fasttexts_words_in_and_out_of_the_vocabulary_are_its_own_to_the_bit(
    tmp_path: Path, lengths: tuple[int, int], packed: bool
) -> None:
    words = ["</s>", *WORDS]
    path = write_fasttext(tmp_path / "model.bin", words=words, lengths=lengths)
    theirs = fasttext.load_model(str(path))
    if packed:
        packed_path = path.with_name("model.bin.gz")
        packed_path.write_bytes(gzip.compress(path.read_bytes()))
        path = packed_path
    ours = converted(path)
    expected = np.stack([theirs.get_word_vector(word) for word in [*words, *UNKNOWN]])
    np.testing.assert_array_equal(ours.embed([*words, *UNKNOWN]), expected)
    rows = [theirs.get_word_vector(word) for word in ("the", "unknwn", "日本語")]
    np.testing.assert_allclose(
        ours.embed(["the unknwn 日本語"])[0], np.mean(rows, axis=0), atol=1e-7
    )


def test_fasttexts_words_equal_gensims(tmp_path: Path) -> None:
    path = write_fasttext(tmp_path / "model.bin")
    theirs = load_facebook_vectors(str(path))
    words = [*WORDS, *UNKNOWN]
    expected = np.stack([theirs[word] for word in words])
    np.testing.assert_allclose(converted(path).embed(words), expected, atol=1e-6)


def test_only_an_exact_look_up_gives_ngrams_of_words_that_have_a_form_in_the_vocabulary(
    tmp_path: Path,
) -> None:
    path = write_fasttext(tmp_path / "model.bin")
    theirs = fasttext.load_model(str(path))
    exact = converted(path, exact=True)
    (tmp_path / "other.bin").write_bytes(path.read_bytes())
    fallback = converted(tmp_path / "other.bin")
    for word, form in (("KING", "king"), ("queen,", "queen")):
        np.testing.assert_array_equal(exact.embed([word])[0], theirs.get_word_vector(word))
        np.testing.assert_array_equal(fallback.embed([word])[0], theirs.get_word_vector(form))


def test_a_model_of_whole_words_alone_has_no_ngrams(tmp_path: Path) -> None:
    path = write_fasttext(tmp_path / "model.bin", buckets=0, lengths=(0, 0))
    theirs, ours = fasttext.load_model(str(path)), converted(path)
    np.testing.assert_array_equal(ours.embed(["king"])[0], theirs.get_word_vector("king"))
    assert not ours.embed(["unknwn"]).any()


def test_the_words_beyond_the_limit_are_left_out_and_the_ngrams_are_not(tmp_path: Path) -> None:
    ours = converted(write_text(tmp_path / "a.txt", TABLE), limit=2)
    np.testing.assert_array_equal(
        ours.embed(["king", "queen"]), [TABLE[1], np.zeros_like(TABLE[0])]
    )
    path = write_fasttext(tmp_path / "b.bin")
    theirs, ours = fasttext.load_model(str(path)), converted(path, limit=2)
    np.testing.assert_array_equal(ours.embed(["king"])[0], theirs.get_word_vector("king"))
    assert [ours.tokenizer.in_vocabulary(id) for id in range(4)] == [True, True, False, False]
    np.testing.assert_array_equal(ours.embed(["unknwn"])[0], theirs.get_word_vector("unknwn"))
    np.testing.assert_array_equal(
        converted(write_binary(tmp_path / "c.bin", TABLE), limit=3).embed(WORDS[:4]),
        [*TABLE[:3], np.zeros_like(TABLE[0])],
    )


def test_of_a_word_that_comes_again_the_first_counts(tmp_path: Path) -> None:
    words = ["king", "queen", "king"]
    path = write_text(tmp_path / "a.txt", TABLE[:3], words)
    np.testing.assert_array_equal(converted(path).embed(["king", "queen"]), TABLE[:2])


def test_a_word_may_have_spaces_and_may_be_no_utf8(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(b"b\xffd 3 4 \r\n. . 1 2\n")
    tokenizer = converted(path).tokenizer
    assert [tokenizer.name(id) for id in (0, 1)] == ["b�d", ". ."]


def test_sif_weights_and_the_common_component_are_those_of_the_paper(tmp_path: Path) -> None:
    corpus = ["the king the queen", "the man", "Berlin queen woman"]
    (tmp_path / "corpus").write_text("\n".join(corpus), encoding="utf-8")
    path = write_text(tmp_path / "a.txt", TABLE)
    ours = converted(path, weights="sif", corpus=tmp_path / "corpus").embed([*corpus, "man woman"])
    words = " ".join(corpus).split()
    rows = {word: TABLE[WORDS.index(word)].astype(float) for word in words}
    weights = {word: 1e-3 / (1e-3 + words.count(word) / len(words)) for word in words}

    def mean(text: str) -> Floats:
        words_of_text = text.split()
        total = sum(weights[word] for word in words_of_text)
        average: Floats = sum(weights[word] * rows[word] for word in words_of_text) / total
        return average

    means = np.stack([mean(text) for text in corpus])
    (first, *_) = np.linalg.svd(means)[2]
    expected = np.stack([mean(text) for text in [*corpus, "man woman"]])
    np.testing.assert_allclose(ours, expected - expected @ np.outer(first, first), atol=1e-6)


def test_idf_weights_are_those_of_scikit_learn(tmp_path: Path) -> None:
    from sklearn.feature_extraction.text import TfidfVectorizer  # type: ignore[import-untyped]

    corpus = ["the king the queen", "the man", "x queen woman"]
    (tmp_path / "corpus").write_text("\n".join(corpus), encoding="utf-8")
    path = write_text(tmp_path / "a.txt", TABLE)
    ours = converted(path, weights="idf", corpus=tmp_path / "corpus").embed(corpus)
    vectorizer = TfidfVectorizer(norm=None, token_pattern=r"\S+")
    weights = vectorizer.fit_transform(corpus).toarray()
    rows = TABLE[[WORDS.index(word) for word in vectorizer.get_feature_names_out()]]
    expected = weights @ rows / weights.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(ours, expected, atol=1e-6)


def test_sif_counts_words_as_fasttext_did_without_a_corpus(tmp_path: Path) -> None:
    path = write_fasttext(tmp_path / "a.bin")
    ours = converted(path, weights="sif").embed(["the king"])[0]
    theirs, total = fasttext.load_model(str(path)), sum(range(1001 - len(WORDS), 1001))
    weights = [1e-3 / (1e-3 + count / total) for count in (1000, 999)]
    rows = [theirs.get_word_vector(word) for word in ("the", "king")]
    np.testing.assert_allclose(ours, np.average(rows, axis=0, weights=weights), atol=1e-6)


@pytest.mark.parametrize(
    ("write", "choices", "message"),
    [
        (lambda p: write_text(p / "a.csv", TABLE), {}, r"end in \.bin, \.txt, \.vec"),
        (lambda p: write_fasttext(p / "a.bin", kind=3), {}, "is a fastText classifier"),
        (lambda p: write_fasttext(p / "a.bin", labels=1), {}, "labels and pruned n-grams"),
        (lambda p: write_fasttext(p / "a.bin", version=13), {}, "version 13 is not supported"),
        (lambda p: write_fasttext(p / "a.bin", quantised=True), {}, "is quantised"),
        (lambda p: write_text(p / "a.txt", TABLE), {"weights": "idf"}, "--corpus FILE"),
        (lambda p: write_text(p / "a.txt", TABLE), {"weights": "sif"}, "--corpus FILE"),
        (lambda p: write_text(p / "a.txt", TABLE * np.inf), {}, "line 2 has NaN or infinity"),
        (lambda p: write_text(p / "a.txt", TABLE[:0], []), {}, "has no words"),
    ],
)
def test_what_cannot_be_converted_is_refused_and_leaves_nothing(
    tmp_path: Path, write: Callable[[Path], Path], choices: Any, message: str
) -> None:
    with np.errstate(invalid="ignore"):
        source = write(tmp_path)
    with pytest.raises(ModelError, match=message):
        convert_words(source, tmp_path / "inner" / "target", Choices(**choices))
    assert not list(tmp_path.glob("inner/*"))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "neither a word with numbers"),
        (b"word\n", "neither a word with numbers"),
        (b"the 1 2\nking 1 z\n", "line 2 has values that are not numbers"),
        (b"the 1 2\nking 1\n", "line 2 has values that are not numbers|line 2 has 1 numbers"),
        (b"2 2\nthe 1 2\n", "is truncated: it has 1 words, its first line says 2"),
    ],
)
def test_a_damaged_text_is_named_with_its_line(
    tmp_path: Path, content: bytes, message: str
) -> None:
    (tmp_path / "a.txt").write_bytes(content)
    with pytest.raises(ModelError, match=message):
        convert_words(tmp_path / "a.txt", tmp_path / "target")


@pytest.mark.parametrize("write", [write_binary, write_fasttext])
@pytest.mark.parametrize("part", [0.1, 0.5, 0.8])
def test_a_binary_file_that_is_cut_off_is_refused(
    tmp_path: Path, write: Callable[..., Path], part: float
) -> None:
    path = tmp_path / "a.bin"
    content = (write(path, TABLE) if write is write_binary else write(path)).read_bytes()
    body = len(content) - 4 * TABLE.size - 17 if write is write_fasttext else len(content)
    path.write_bytes(content[: int(part * body)])
    with pytest.raises(ModelError, match=r"truncated|not a binary file"):
        convert_words(path, tmp_path / "target")


def test_a_damaged_header_of_fasttext_is_refused(tmp_path: Path) -> None:
    path = write_fasttext(tmp_path / "a.bin")
    content = path.read_bytes()
    for place in range(4, 100, 4):  # each number of the header
        for value in (-1, 0, 2**31 - 1):
            number = value.to_bytes(4, "little", signed=True)
            path.write_bytes(content[:place] + number + content[place + 4 :])
            try:
                convert_words(path, tmp_path / f"{place} {value}")
            except ModelError as error:
                assert "a.bin" in str(error)


def test_a_folder_that_exists_is_left_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "target").mkdir()
    with pytest.raises(ModelError, match="exists already"):
        convert_words(write_text(tmp_path / "a.txt", TABLE), tmp_path / "target")


def test_a_packed_file_that_is_damaged_is_refused(tmp_path: Path) -> None:
    path = write_text(tmp_path / "a.txt.gz", TABLE)
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(ModelError, match=r"a\.txt\.gz cannot be converted"):
        convert_words(path, tmp_path / "target")


def test_every_file_has_the_permissions_of_a_new_one(tmp_path: Path) -> None:
    (tmp_path / "corpus").write_text("the king", encoding="utf-8")
    converted(write_text(tmp_path / "a.txt", TABLE), weights="sif", corpus=tmp_path / "corpus")
    files = [path for path in (tmp_path / "a.txt-converted").rglob("*") if path.is_file()]
    modes = {path.stat().st_mode for path in files}
    assert modes == {(tmp_path / "corpus").stat().st_mode} and len(files) == 10
