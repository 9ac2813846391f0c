"""Corpora from files, pipes and standard input, and pairs of texts."""

import os
import threading
from pathlib import Path

import pytest

from embedwell_classic.training.corpus import Corpus, Pairs, WordSequences, open_corpus
from embedwell_models.errors import ModelError


def write(folder: Path, content: bytes) -> Path:
    path = folder / "corpus.txt"
    path.write_bytes(content)
    return path


def test_a_corpus_is_read_as_often_as_asked_without_empty_lines(tmp_path: Path) -> None:
    path = write(tmp_path, "\ufeffone\r\n\n  \n two\u2028x\n".encode())
    with open_corpus(path) as corpus:
        assert [*corpus] == [*corpus] == ["one", "two\u2028x"]
        assert [number for number, _ in corpus.lines()] == [1, 4]


def test_a_pipe_is_read_as_often_as_asked(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_text, args=["one\ntwo\n"])
    writer.start()
    with open_corpus(pipe) as corpus:
        writer.join()
        assert [*corpus] == [*corpus] == ["one", "two"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", r"corpus\.txt has no texts: write one in each line"),
        (b" \n\n", r"corpus\.txt has no texts"),
        (b"\xff\n", r"corpus\.txt is not UTF-8 after line 0"),
    ],
)
def test_a_corpus_without_texts_is_refused(tmp_path: Path, content: bytes, message: str) -> None:
    with pytest.raises(ModelError, match=message), open_corpus(write(tmp_path, content)):
        pass


def test_words_have_the_form_that_the_server_looks_up(tmp_path: Path) -> None:
    with open_corpus(write(tmp_path, b'The "U.S." -- isn\'t!\n')) as corpus:
        assert [*WordSequences(corpus)] == [["the", "u.s", "isn't"]]
        assert [*WordSequences(corpus, exact=True)] == [["The", '"U.S."', "--", "isn't!"]]


def test_a_long_text_comes_in_parts_that_gensim_reads_whole(tmp_path: Path) -> None:
    with open_corpus(write(tmp_path, b"a " * 25_000)) as corpus:
        assert [len(words) for words in WordSequences(corpus)] == [10_000, 10_000, 5_000]


def read(folder: Path, name: str, content: str) -> Pairs:
    path = folder / name
    path.write_text(content, encoding="utf-8")
    return Pairs(Corpus(path, name))


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.tsv", "one\ttwo\nthree\tfour\n"),
        ("a.tsv", "anchor\tpositive\none\ttwo\n\nthree\tfour"),
        (
            "a.jsonl",
            '{"positive": "two", "anchor": "one"}\n{"anchor": "three", "positive": "four"}',
        ),
    ],
)
def test_pairs_are_columns_or_fields(tmp_path: Path, name: str, content: str) -> None:
    pairs = read(tmp_path, name, content)
    assert [*pairs] == [("one", "two"), ("three", "four")]
    assert pairs.columns == ("anchor", "positive")
    assert [*pairs.texts()] == ["one", "two", "three", "four"]


def test_a_third_column_is_a_negative(tmp_path: Path) -> None:
    pairs = read(tmp_path, "a.tsv", "one\ttwo\tthree\n")
    assert pairs.columns == ("anchor", "positive", "negative")
    assert [*pairs] == [("one", "two", "three")]


def test_texts_alone_are_pairs_with_themselves(tmp_path: Path) -> None:
    pairs = read(tmp_path, "a.txt", "one\ttext\nanother\n")
    assert [*pairs] == [("one\ttext",) * 2, ("another",) * 2]
    assert [*pairs.texts()] == ["one\ttext", "another"]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.tsv", "one\ttwo\nthree\n", r"a\.tsv, line 2: write an anchor, a positive"),
        ("a.tsv", "one\t \tthree\n", r"a\.tsv, line 1: write an anchor"),
        ("a.tsv", "1\t2\t3\t4\n", r"a\.tsv, line 1: write an anchor"),
        ("a.tsv", "1\t2\n1\t2\t3\n", r"line 2: 3 texts, where lines before it have 2"),
        ("a.tsv", "anchor\tpositive\n", r"a\.tsv has a header but no pairs"),
        ("a.jsonl", '{"anchor": "a", "positive": 1}\n', r"a\.jsonl, line 1: write an anchor"),
        ("a.jsonl", "[1]\n", r"a\.jsonl, line 1: write an object"),
        ("a.jsonl", "{\n", r"a\.jsonl, line 1: Expecting property name"),
    ],
)
def test_the_line_at_fault_is_named(tmp_path: Path, name: str, content: str, message: str) -> None:
    pairs = read(tmp_path, name, content)
    with pytest.raises(ModelError, match=message):
        assert [pairs.columns, *pairs]
