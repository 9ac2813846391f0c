"""Every format of input: rows, types, bad rows with their positions, and what is refused."""

import gzip
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import feather

from embedwell_bulk import BulkError
from embedwell_bulk.columns import POSITION, REASON, Columns, input_columns
from embedwell_bulk.files import find_inputs
from embedwell_bulk.source import Source

TEXTS = ["one", "zwei", "trois, quatre"]


def read(path: Path | str, columns: Columns | None = None, skip_damaged: bool = False) -> pa.Table:
    """Read all rows of an input with their origin."""
    source = Source.open(find_inputs([str(path)]), columns or Columns(), skip_damaged)
    read = [*source.batches()]
    assert 0.9 < read[-1][1] <= 1
    return pa.Table.from_batches([rows for rows, _ in read])


def errors(table: pa.Table) -> dict[int, str]:
    """The reasons of the bad rows, by position."""
    pairs = zip(table[POSITION].to_pylist(), table[REASON].to_pylist(), strict=True)
    return {position: reason for position, reason in pairs if reason}


def write_lines(path: Path, lines: Sequence[Any]) -> Path:
    content = b"".join(line if isinstance(line, bytes) else line.encode() for line in lines)
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path


def write_table(path: Path, table: pa.Table) -> Path:
    if path.suffix in (".parquet", ".pq"):
        pq.write_table(table, path)
    elif path.suffix == ".arrows":
        with pa.ipc.new_stream(path, table.schema) as stream:
            stream.write_table(table)
    else:
        feather.write_feather(table, path)
    return path


@pytest.mark.parametrize("suffix", [".parquet", ".pq", ".arrow", ".arrows", ".feather"])
def test_arrow_formats_keep_columns_and_types(suffix: str, tmp_path: Path) -> None:
    table = pa.table({"id": [1, 2, 3], "text": TEXTS, "tags": [["a"], None, []]})
    rows = read(write_table(tmp_path / f"in{suffix}", table))
    assert input_columns(rows).equals(table) and not errors(rows)


@pytest.mark.parametrize(
    "kind", [pa.large_string(), pa.string_view(), pa.dictionary(pa.int32(), pa.string())]
)
def test_every_type_of_text_is_read_as_a_string(kind: pa.DataType, tmp_path: Path) -> None:
    table = pa.table({"text": pa.array(TEXTS).cast(kind)})
    rows = read(write_table(tmp_path / "in.arrow", table))
    assert input_columns(rows)["text"].to_pylist() == TEXTS


def test_rows_of_every_type_can_be_taken(tmp_path: Path) -> None:
    views = {
        "text": pa.array(["a"]).cast(pa.string_view()),
        "b": pa.array([b"x"]).cast("binary_view"),
    }
    rows = input_columns(read(write_table(tmp_path / "in.arrow", pa.table(views))))
    assert rows.take(pa.array([0])).to_pydict() == {"text": ["a"], "b": [b"x"]}


def test_null_and_broken_texts_of_arrow_are_bad_rows(tmp_path: Path) -> None:
    broken = pa.array([b"one", b"caf\xe9", None], pa.binary()).view(pa.string())
    rows = read(write_table(tmp_path / "in.parquet", pa.table({"text": broken})))
    assert errors(rows) == {1: "text is not UTF-8", 2: "text is null"}


@pytest.mark.parametrize("suffix", [".jsonl", ".ndjson", ".jsonl.gz"])
def test_jsonl_takes_types_from_its_first_lines(suffix: str, tmp_path: Path) -> None:
    lines = [
        json.dumps({"text": text, "year": 2000 + i, "about": {"i": i}, "note": None}) + "\n"
        for i, text in enumerate(TEXTS)
    ]
    values = input_columns(read(write_lines(tmp_path / f"in{suffix}", [*lines, "\n"])))
    assert values["text"].to_pylist() == TEXTS
    assert values["year"].to_pylist() == [2000, 2001, 2002]
    assert values["about"].to_pylist() == ['{"i":0}', '{"i":1}', '{"i":2}']
    assert values.schema.field("note").type == pa.string()


def test_bad_lines_of_jsonl_have_their_line_and_a_reason(tmp_path: Path) -> None:
    lines = [
        '{"text": "good", "n": 1}\n',
        "{bad\n",
        '["text"]\n',
        '{"text": null, "n": 1}\n',
        '{"n": 1}\n',
        '{"text": 5, "n": 1}\n',
        b'{"text": "caf\xe9"}\n',
        '{"text": "good"}',
    ]
    reasons = errors(read(write_lines(tmp_path / "in.jsonl", lines)))
    assert reasons.pop(2).startswith("not JSON: ") and reasons.pop(7).startswith("not JSON: ")
    assert reasons == {
        3: "not a JSON object",
        4: "text is null",
        5: "no text",
        6: "text is not a string",
    }


def test_a_value_of_another_type_after_the_first_lines_makes_a_bad_row(tmp_path: Path) -> None:
    lines = ['{"text": "a", "n": 1}\n'] * 1000 + ['{"text": "b", "n": "x"}\n', '{"text": "c"}\n']
    rows = read(write_lines(tmp_path / "in.jsonl", lines))
    assert errors(rows) == {1001: "n does not have the type int64"}
    assert input_columns(rows)["n"].to_pylist()[-3:] == [1, None, None]


def test_a_column_that_comes_late_is_logged_once_and_left_out(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    lines = ['{"text": "a"}\n'] * 1000 + ['{"text": "b", "late": 1}\n'] * 2
    rows = read(write_lines(tmp_path / "in.jsonl", lines))
    assert input_columns(rows).column_names == ["text"] and not errors(rows)
    [message] = caplog.messages
    assert "line 1001: the column late is left out" in message


def test_csv_is_read_with_its_header_and_quotes(tmp_path: Path) -> None:
    content = 'id,text\r\n1,one\r\n\r\n2,"two\nlines, ""all"""\r\n3,"a\r\nb"\r\n'
    rows = read(write_lines(tmp_path / "in.csv", [content]))
    assert input_columns(rows).to_pydict() == {
        "id": ["1", "2", "3"],
        "text": ["one", 'two\nlines, "all"', "a\r\nb"],
    }
    assert rows[POSITION].to_pylist() == [2, 5, 7]


def test_bad_lines_of_csv_have_their_line_and_a_reason(tmp_path: Path) -> None:
    lines = ["id,text\n", "1,one\n", "2\n", b"3,caf\xe9\n", '4,"a"b\n', "5,five\n"]
    rows = read(write_lines(tmp_path / "in.csv", lines))
    reasons = errors(rows)
    assert reasons.pop(5).startswith("not CSV: ")
    assert reasons == {3: "1 fields, but the header has 2", 4: "not UTF-8"}
    assert input_columns(rows)["text"].to_pylist()[-1] == "five"


def test_tsv_and_lines_of_text_are_read(tmp_path: Path) -> None:
    tsv = read(write_lines(tmp_path / "in.tsv", ["id\ttext\n", "1\ta, b\n"]))
    assert input_columns(tsv)["text"].to_pylist() == ["a, b"]
    content = ["\ufeffone\x0cpage\r\n", "\n", b"caf\xe9\n", "last"]
    lines = read(write_lines(tmp_path / "in.txt", content))
    assert input_columns(lines)["text"].to_pylist() == ["one\x0cpage", "", None, "last"]
    assert errors(lines) == {3: "not UTF-8"}


def test_files_are_read_one_after_the_other_in_the_order_of_names(tmp_path: Path) -> None:
    for name in ("b", "a", "_hidden", ".hidden"):
        write_lines(tmp_path / f"{name}.txt", [f"{name}\n"])
    for address in (str(tmp_path), f"{tmp_path}/*.txt", f"file://{tmp_path}"):
        assert input_columns(read(address))["text"].to_pylist() == ["a", "b"]


_HIDDEN = (".ipynb_checkpoints", "_temporary/0", ".git", "__MACOSX", ".Trash-0", "_delta_log")


def test_folders_that_begin_with_a_dot_or_an_underscore_are_left_out(tmp_path: Path) -> None:
    for folder in ("", "b", *_HIDDEN, *(f"b/{name}" for name in _HIDDEN)):
        (tmp_path / "_data" / folder).mkdir(parents=True, exist_ok=True)
        write_lines(tmp_path / "_data" / folder / "in.jsonl", [json.dumps({"text": folder})])
    for address in (f"{tmp_path}/_data", f"{tmp_path}/_data/**/*.jsonl"):
        texts = input_columns(read(address))["text"].to_pylist()
        assert sorted(texts) == ["", "b"]
    hidden = f"{tmp_path}/_data/.git/in.jsonl"
    for address in (hidden, f"{tmp_path}/_data/.git", f"{tmp_path}/_data/.git/*"):
        assert input_columns(read(address))["text"].to_pylist() == [".git"]
    with pytest.raises(BulkError, match=r"no such file whose name does not begin with \. or _"):
        read(f"{tmp_path}/_data/*/0/*")


@pytest.mark.parametrize("suffix", [".parquet", ".jsonl", ".csv"])
def test_folders_of_partitions_become_columns(suffix: str, tmp_path: Path) -> None:
    for folder in ("lang=en/year=2024", "lang=a%20b/year=07", f"lang={_NULL}/year=1"):
        path = tmp_path / "run=1" / folder / f"in{suffix}"
        path.parent.mkdir(parents=True)
        if suffix == ".parquet":
            write_table(path, pa.table({"text": [folder]}))
        else:
            lines = {".jsonl": [json.dumps({"text": folder})], ".csv": ["text\n", folder]}
            write_lines(path, lines[suffix])
    for address in (f"{tmp_path}/run=1", f"{tmp_path}/run=1/*/*/in{suffix}"):
        rows = input_columns(read(address))
        assert rows.column_names == ["text", "lang", "year"] and not errors(read(address))
        assert rows["lang"].to_pylist() == [None, "a b", "en"]
        assert rows["year"].to_pylist() == [1, 7, 2024] and rows["year"].type == pa.int32()
    kept = input_columns(read(f"{tmp_path}/run=1", Columns(keep=("year",))))
    assert kept.column_names == ["text", "year"]
    single = read(f"{tmp_path}/run=1/lang=en/year=2024/in{suffix}")
    assert input_columns(single).column_names == ["text"]


_NULL = "__HIVE_DEFAULT_PARTITION__"


def test_a_column_of_the_file_has_precedence_over_its_folder(tmp_path: Path) -> None:
    for number in (1, 2):
        folder = tmp_path / f"lang={number}"
        folder.mkdir()
        write_table(folder / "in.parquet", pa.table({"lang": ["own"], "text": ["a"]}))
    assert input_columns(read(tmp_path))["lang"].to_pylist() == ["own", "own"]


def damaged(path: Path) -> Path:
    """Cut off the second half of a file."""
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])
    return path


def test_a_damaged_compressed_file_is_named_with_its_line(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    lines = [json.dumps({"text": f"{number} {hash(number) ** 5}"}) + "\n" for number in range(9000)]
    path = damaged(write_lines(tmp_path / "a.jsonl.gz", lines))
    write_lines(tmp_path / "b.jsonl", ['{"text": "b"}'])
    with pytest.raises(BulkError, match=r"a\.jsonl\.gz, line \d+: .*Truncated.* --skip-damaged"):
        read(tmp_path)
    rows = read(tmp_path, skip_damaged=True)
    [(line, reason)] = errors(rows).items()
    assert 4000 < line < 6000 and "the file is damaged from here on: Truncated" in reason
    texts = input_columns(rows)["text"].to_pylist()
    assert len(texts) == line + 1 and texts[line - 2 :][::2] == [
        json.loads(lines[line - 2])["text"],
        "b",
    ]
    [message] = caplog.messages
    assert message.startswith(f"{path}, line {line}: the file is damaged")


def test_a_file_that_is_damaged_in_its_first_line_has_no_row(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "a.csv.gz", ["text\na\n"])
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(BulkError, match=r"a\.csv\.gz, line 1: the file is damaged"):
        read(tmp_path)
    write_lines(tmp_path / "b.csv", ["text\nb\n"])
    rows = read(tmp_path, skip_damaged=True)
    assert input_columns(rows)["text"].to_pylist() == [None, "b"] and {*errors(rows)} == {1}


def test_a_damaged_table_is_named_with_its_row(tmp_path: Path) -> None:
    path = tmp_path / "in.parquet"
    table = pa.table({"text": [f"row {number}" for number in range(5000)]})
    pq.write_table(table, path, row_group_size=1024)
    start = pq.ParquetFile(path).metadata.row_group(2).column(0).data_page_offset
    content = bytearray(path.read_bytes())
    content[start : start + 400] = b"\xff" * 400
    path.write_bytes(content)
    with pytest.raises(BulkError, match=r"in\.parquet, row 2048: the file is damaged"):
        read(path)
    assert {*errors(read(path, skip_damaged=True))} == {2048}


def test_an_empty_first_file_does_not_decide_the_columns(tmp_path: Path) -> None:
    write_lines(tmp_path / "a.jsonl", [])
    write_lines(tmp_path / "b.jsonl", ['{"text": "b"}\n'])
    assert input_columns(read(tmp_path))["text"].to_pylist() == ["b"]


def test_only_the_wanted_columns_are_read(tmp_path: Path) -> None:
    table = pa.table({"key": [1], "body": ["a"], "large": ["x"], "title": ["t"]})
    path = write_table(tmp_path / "in.parquet", table)
    rows = read(path, Columns("body", "key", ("title",)))
    assert input_columns(rows).column_names == ["key", "body", "title"]


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (Columns("body"), "has no column 'body'; it has: text, n, row"),
        (Columns("text", "key"), "has no column 'key'"),
        (Columns("n", keep=("n",)), "the column 'n' has the type int64, not text"),
        (Columns(), "has a column 'row', whose name the result needs"),
    ],
)
def test_a_column_that_cannot_be_used_is_refused(
    columns: Columns, message: str, tmp_path: Path
) -> None:
    path = write_table(tmp_path / "in.parquet", pa.table({"text": ["a"], "n": [1], "row": [1]}))
    with pytest.raises(BulkError, match=message):
        read(path, columns)


def test_a_file_with_other_columns_than_the_first_is_refused(tmp_path: Path) -> None:
    write_table(tmp_path / "a.parquet", pa.table({"text": ["a"], "n": [1]}))
    write_table(tmp_path / "b.parquet", pa.table({"text": ["a"], "n": ["1"]}))
    with pytest.raises(BulkError, match=r"b\.parquet differ from .*a\.parquet: .*n: string"):
        read(tmp_path)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("in.pdf", b"x", "a name must end in one of"),
        ("in.parquet", b"not Parquet", "in.parquet: .*magic bytes"),
        ("in.jsonl", b"", "has no rows"),
        ("in.csv", b"caf\xe9,text\n", "in.csv: the first line is not UTF-8"),
        ("in.csv", b'"a"b,text\n', "in.csv: the first line is not a CSV header"),
        ("other", None, "in.parquet: no such file"),
    ],
)
def test_a_file_that_cannot_be_read_is_refused(
    name: str, content: bytes | None, message: str, tmp_path: Path
) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(BulkError, match=message):
        read(tmp_path / (name if content is not None else "in.parquet"))
