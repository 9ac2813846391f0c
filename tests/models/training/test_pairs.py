"""Files of pairs, and what is wrong with one."""

from pathlib import Path

import pytest

from embedwell_models.errors import ModelError
from embedwell_models.training.corpus import Corpus
from embedwell_models.training.pairs import Pairs


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
