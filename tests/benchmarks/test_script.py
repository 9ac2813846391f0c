"""The options that all benchmarks share."""

import pytest

from benchmarks.script import choose, parser

NAMES = ["OpenVINO, int8", "this, float32", "this, int8"]


def test_contestants_are_chosen_by_parts_of_their_names() -> None:
    assert choose(NAMES, []) == NAMES
    assert choose(NAMES, ["THIS"]) == NAMES[1:]
    assert choose(NAMES, ["float32", "openvino"]) == NAMES[:2]


def test_a_text_in_no_name_of_a_contestant_is_an_error_that_lists_the_names() -> None:
    with pytest.raises(SystemExit) as error:
        choose(NAMES, ["this", "embedwell"])
    assert str(error.value) == (
        "--only 'embedwell' matches no contestant; "
        "choose from: OpenVINO, int8; this, float32; this, int8"
    )


def test_a_benchmark_may_have_models_of_its_own() -> None:
    own = parser("about", "name", ["a", "b"])
    assert own.parse_args([]).model == "a" and own.parse_args(["--model", "b"]).model == "b"
    with pytest.raises(SystemExit):
        own.parse_args(["--model", "c"])
    assert parser("about", "name").parse_args(["--model", "c"]).model == "c"
