"""The state of requests: paths that begin with the name of a model."""

import pytest

from embedwell.http.request_context import ModelPaths, model_in_path

PATHS = ModelPaths({"small": 0, "org": 1, "org/wide": 2, "with:tag": 3})


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/m/small/embed", (0, "/embed")),
        ("/m/small", (0, "/")),
        ("/m/small/", (0, "/")),
        ("/m/small//embed", (0, "//embed")),
        ("/m/org/wide/v1/embeddings", (2, "/v1/embeddings")),
        ("/m/org/embed", (1, "/embed")),
        ("/m/with:tag/api/embed", (3, "/api/embed")),
        ("/m/smaller/embed", None),
        ("/m/", None),
        ("/m", None),
        ("/small/embed", None),
        ("/models/small", None),
    ],
)
def test_a_path_is_split_after_the_longest_name(
    path: str, expected: tuple[int, str] | None
) -> None:
    assert PATHS.split(path) == expected


def test_a_model_is_chosen_for_a_block_alone() -> None:
    assert model_in_path.get() is None
    with PATHS.chosen(2):
        assert model_in_path.get() == 2
        with PATHS.chosen(0):
            assert model_in_path.get() == 0
        assert model_in_path.get() == 2
    assert model_in_path.get() is None
