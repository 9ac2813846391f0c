"""Requests are read from a file, and what is wrong with one is found before any is computed."""

import json
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from embedwell.errors import ServiceError
from embedwell_batches.batch import MAX_LINES, MAX_REQUESTS
from embedwell_batches.json_lines import check_requests, request_groups

ENDPOINT = "/v1/embeddings"


def line(custom_id: str = "a", **fields: Any) -> str:
    body = {"input": "the work"}
    return json.dumps(
        {"custom_id": custom_id, "method": "POST", "url": ENDPOINT, "body": body, **fields}
    )


def write(tmp_path: Path, *lines: str, end: str = "\n") -> Path:
    path = tmp_path / "requests.jsonl"
    path.write_text("\n".join(lines) + end, encoding="utf-8")
    return path


def test_requests_are_counted_and_empty_lines_are_not(tmp_path: Path) -> None:
    path = write(tmp_path, line("a"), "", " ", line("b"), end="")
    assert check_requests(path, ENDPOINT, 1000) == (2, [])


def test_a_byte_order_mark_is_no_part_of_the_first_request(tmp_path: Path) -> None:
    path = write(tmp_path, "\ufeff" + line("a"), line("b"))
    assert check_requests(path, ENDPOINT, 1000) == (2, [])
    [group] = request_groups(path, 0, 1000, 1000)
    assert [request.custom_id for request in group] == ["a", "b"]
    assert group[-1].end == path.stat().st_size


DEEP = line(body={"input": 0}).replace("0", "[" * 300 + "]" * 300)


@pytest.mark.parametrize(
    ("bad", "code", "param", "message"),
    [
        ("{", "invalid_json_line", None, "the line is not JSON"),
        ('{"custom_id": NaN}', "invalid_json_line", None, "the line is not JSON"),
        ("[]", "invalid_request", None, "Input should be a valid dictionary"),
        (line(body=None), "invalid_request", "body", "body: Input should be a valid dictionary"),
        (line(method="GET"), "invalid_request", "method", "method: Input should be 'POST'"),
        (line(url="/embed"), "invalid_url", "url", "url must be '/v1/embeddings'"),
        (line("good"), "duplicate_custom_id", "custom_id", "but line 1 has the same"),
        (line("x" * 513), "invalid_request", "custom_id", "at most 512 characters"),
        (DEEP, "invalid_request", "body", "nested too deeply; give it at most 200 levels"),
        ("[" * 990, "invalid_json_line", None, "the line is not JSON"),
        (" " * 1001, "line_too_long", None, "more than 1000 bytes"),
        (line(body={"input": "x" * 1000}), "line_too_long", None, "more than 1000 bytes"),
    ],
)
def test_a_problem_names_its_line_and_field(
    tmp_path: Path, bad: str, code: str, param: str | None, message: str
) -> None:
    _, [problem] = check_requests(write(tmp_path, line("good"), "", bad), ENDPOINT, 1000)
    assert (problem.code, problem.param, problem.line) == (code, param, 3)
    assert message in problem.message


def test_a_field_that_is_missing_is_named(tmp_path: Path) -> None:
    _, [problem] = check_requests(write(tmp_path, "{}"), ENDPOINT, 1000)
    assert (problem.code, problem.message) == ("invalid_request", "custom_id: Field required")


def test_a_file_without_requests_has_a_problem(tmp_path: Path) -> None:
    total, [problem] = check_requests(write(tmp_path, "", ""), ENDPOINT, 1000)
    assert (total, problem.code, problem.line) == (0, "empty_file", None)


def test_no_more_than_a_hundred_problems_are_listed(tmp_path: Path) -> None:
    assert len(check_requests(write(tmp_path, *["{"] * 300), ENDPOINT, 1000)[1]) == 100


def test_a_batch_has_at_most_50_000_requests(tmp_path: Path) -> None:
    lines = [line(str(i)) for i in range(MAX_REQUESTS + 1)]
    assert check_requests(write(tmp_path, *lines[:-1]), ENDPOINT, 1000) == (MAX_REQUESTS, [])
    _, [problem] = check_requests(write(tmp_path, *lines), ENDPOINT, 1000)
    assert problem.code == "too_many_requests"


@pytest.mark.parametrize("kind", ["{}", "[]", "0"])
def test_a_request_with_too_many_parts_is_a_problem(tmp_path: Path, kind: str) -> None:
    body = line(body={"input": []}).replace("[]", "[" + ",".join([kind] * 1_000_002) + "]")
    _, [problem] = check_requests(write(tmp_path, body), ENDPOINT, 8 << 20)
    assert (problem.code, problem.line) == ("too_many_parts", 1)


def test_a_file_of_empty_lines_is_not_read_to_its_end(tmp_path: Path) -> None:
    path = write(tmp_path, line("a"), *[""] * (MAX_LINES + 10))
    total, [problem] = check_requests(path, ENDPOINT, 1000)
    assert (total, problem.code) == (1, "too_many_lines")


def test_ids_take_little_memory(tmp_path: Path) -> None:
    path = write(tmp_path, *[line(f"{i:05}" + "\U0001f600" * 500) for i in range(5000)])
    tracemalloc.start()
    try:
        assert check_requests(path, ENDPOINT, 10_000) == (5000, [])
        assert tracemalloc.get_traced_memory()[1] < 2 << 20  # ids of 2 KB would take 10 MB
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("bad", ["{}", DEEP, "x" * 2000, " " * 2000])
def test_a_line_that_became_bad_is_an_error_of_its_batch(tmp_path: Path, bad: str) -> None:
    with pytest.raises(ServiceError):
        [*request_groups(write(tmp_path, line("a"), bad), 0, 10_000, 1000)]


def test_windows_hold_whole_requests_and_start_where_one_ended(tmp_path: Path) -> None:
    path = write(tmp_path, *[line(name) for name in "abcde"])
    size = len(line("a")) + 1
    found = [*request_groups(path, 0, 2 * size, 1000)]
    assert [[item.custom_id for item in window] for window in found] == [
        ["a", "b"],
        ["c", "d"],
        ["e"],
    ]
    assert [json.loads(item.body) for item in found[0]] == [{"input": "the work"}] * 2
    [[rest]] = request_groups(path, found[1][-1].end, 1, 1000)
    assert (rest.custom_id, rest.end) == ("e", path.stat().st_size)
    assert [*request_groups(path, rest.end, 1, 1000)] == []


def test_a_request_larger_than_a_window_is_one(tmp_path: Path) -> None:
    path = write(tmp_path, *[line(name) for name in "ab"])
    assert [len(window) for window in request_groups(path, 0, 1, 1000)] == [1, 1]
