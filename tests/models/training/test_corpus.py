"""Corpora: files, pipes, and what is no text."""

import os
import threading
from pathlib import Path

import pytest

from embedwell_models.errors import ModelError
from embedwell_models.training.corpus import WordSequences, open_corpus


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
