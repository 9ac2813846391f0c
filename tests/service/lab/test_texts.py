"""Texts and columns read from files."""

from pathlib import Path

import click
import pytest

from embedwell_lab.texts import read_texts


def written(folder: Path, name: str, content: str | bytes) -> Path:
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def message(path: Path, column: str | None = None, value_column: str | None = None) -> str:
    with pytest.raises(click.ClickException) as caught:
        read_texts(path, column, value_column)
    return caught.value.message


def test_lines_are_texts_without_blank_ones(tmp_path: Path) -> None:
    path = written(tmp_path, "texts.txt", '\ufeffone\r\n\n  \ntwo, "three"\u2028four\n')
    assert read_texts(path).texts == ["one", 'two, "three"\u2028four']


def test_a_column_of_csv_holds_texts_with_separators_and_line_breaks(tmp_path: Path) -> None:
    path = written(tmp_path, "texts.CSV", 'id,text\n1,"a, b"\n2,"c\nd"\n3,\n')
    assert read_texts(path).texts == ["a, b", "c\nd"]
    assert read_texts(path, "id").texts == ["1", "2", "3"]


def test_tsv_is_separated_by_tabs(tmp_path: Path) -> None:
    assert read_texts(written(tmp_path, "a.tsv", "text\tn\na, b\t1\n")).texts == ["a, b"]


def test_the_only_column_needs_no_name(tmp_path: Path) -> None:
    assert read_texts(written(tmp_path, "a.csv", "body\none\n")).texts == ["one"]


def test_values_stay_with_their_texts(tmp_path: Path) -> None:
    path = written(tmp_path, "a.csv", "text,kind\none,x\n,y\ntwo,\nthree,z\n")
    table = read_texts(path, value_column="kind")
    assert table.texts == ["one", "two", "three"] and table.values == ["x", None, "z"]


def test_a_csv_column_of_numbers_has_numbers(tmp_path: Path) -> None:
    path = written(tmp_path, "a.csv", "text,n\na,1\nb,\nc, 2.5 \nd,nan\n")
    assert read_texts(path, value_column="n").values == [1.0, None, 2.5, None]
    path = written(tmp_path, "b.csv", "text,n\na,1\nb,two\n")
    assert read_texts(path, value_column="n").values == ["1", "two"]


def test_values_of_jsonl_keep_their_types(tmp_path: Path) -> None:
    lines = [
        *('{"text": "a", "n": "1"}', "", '{"text": "b", "n": 2}'),
        *('{"text": null, "n": 3}', '{"text": "c"}'),
    ]
    path = written(tmp_path, "a.jsonl", "\n".join(lines))
    table = read_texts(path, value_column="n")
    assert table.texts == ["a", "b", "c"] and table.values == ["1", 2, None]


def test_a_missing_column_is_named_with_those_that_are_there(tmp_path: Path) -> None:
    path = written(tmp_path, "a.csv", "title,body\nx,y\n")
    assert message(path) == f"{path} has no column 'text'; it has: title, body"
    assert "no column 'kind'" in message(path, "body", "kind")


@pytest.mark.parametrize("name", ["a.txt", "a.csv", "a.jsonl"])
@pytest.mark.parametrize("content", ["", "\n\n"])
def test_a_file_without_texts_is_refused(tmp_path: Path, name: str, content: str) -> None:
    path = written(tmp_path, name, content)
    assert message(path) == f"{path} has no texts; write one on each line"


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        ("a.txt", b"one\ncaf\xe9", "is not UTF-8 (line 2)"),
        ("a.csv", "text,n\none,two,three\n", "line 2: more fields than the header"),
        ("a.csv", 'text\n"one', "line 1: unexpected end of data"),
        ("a.jsonl", '{"text": "a"}\n{', "line 2: not JSON"),
        ("a.jsonl", '["a"]', "line 1: not a JSON object"),
        ("a.jsonl", '{"text": 3}', "line 1: 'text' must be a string"),
        ("a.json", '["a"]', "write JSON as .jsonl"),
    ],
)
def test_a_file_that_cannot_be_read_is_refused_with_its_line(
    tmp_path: Path, name: str, content: str | bytes, problem: str
) -> None:
    assert problem in message(written(tmp_path, name, content))


def test_lines_of_text_have_no_columns(tmp_path: Path) -> None:
    path = written(tmp_path, "a.txt", "one\n")
    assert "has no columns, because its suffix" in message(path, "text")
    assert "has no columns" in message(path, None, "kind")
