"""Tests of inputs that are too long, on a running server and the library."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from embedwell_models import Embedder
from embedwell_models.errors import InputError
from embedwell_models.read.inputs import Overflow
from embedwell_models.tokenizer.tokenizer import Tokenizer
from embedwell_models.vectors import Floats, normalize
from tests.service.responses import error, vectors
from tests.service.server import Server

LONG = " ".join(f"word {number} of a long text," for number in range(120))


@pytest.fixture(scope="session")
def all_ids(minilm_folder: Path) -> list[int]:
    """The token ids of LONG, none cut off."""
    return [*Tokenizer(minilm_folder, 10**6).encode([LONG])[0].ids]


def batched(ids: list[int], size: int) -> Iterator[list[int]]:
    return (ids[start : start + size] for start in range(0, len(ids), size))


def mean(embedder: Embedder, windows: list[list[int]], weights: list[int]) -> Floats:
    pooled = embedder.encode(windows, normalized=False)
    average: Floats = np.average(pooled, axis=0, weights=weights).astype(np.float32)
    return average


@pytest.mark.parametrize("side", ["start", "end"])
def test_tokens_are_cut_off_at_the_requested_side(
    server: Server, embedder: Embedder, all_ids: list[int], side: str
) -> None:
    actual = vectors(server.post("/embed", {"inputs": LONG, "on_overflow": side}))
    expected = [101, *all_ids[-255:]] if side == "start" else [*all_ids[:255], 102]
    np.testing.assert_array_equal(actual, embedder.encode([expected]))
    body = {"inputs": LONG, "truncation_direction": "left" if side == "start" else "right"}
    np.testing.assert_array_equal(actual, vectors(server.post("/embed", body)))


@pytest.mark.parametrize("overflow", ["start", "end", "mean"])
def test_the_library_reads_long_texts_as_the_server_does(
    server: Server, embedder: Embedder, overflow: Overflow
) -> None:
    texts = ["short", LONG, f"{LONG} {LONG}"]
    actual = embedder.embed(texts, on_overflow=overflow, prompt="text for: ")
    body = {"inputs": texts, "on_overflow": overflow, "prompt": "text for: "}
    assert actual.tobytes() == vectors(server.post("/embed", body)).tobytes()
    alone = embedder.embed(LONG, on_overflow=overflow, prompt="text for: ")
    np.testing.assert_array_equal(alone, actual[1])
    first = embedder.embed(texts, on_overflow=overflow, dimensions=None, budget=300)
    assert first.shape == actual.shape


@pytest.mark.parametrize(
    "body",
    [
        {"inputs": ["a", LONG], "on_overflow": "error"},
        {"inputs": ["a", "x" * 300_000]},
        {"inputs": ["a"], "prompt": "long " * 300, "on_overflow": "mean"},
        {"inputs": ["a", LONG], "on_overflow": "mean", "late_chunking": True},
        {"inputs": ["a", ""], "late_chunking": True},
        {"inputs": [LONG, "b"], "late_chunking": True, "on_overflow": "error"},
        {"inputs": [LONG, "b"], "late_chunking": True},
    ],
)
def test_the_library_refuses_with_the_servers_message(
    server: Server, embedder: Embedder, body: dict[str, Any]
) -> None:
    options = {name: value for name, value in body.items() if name != "inputs"}
    with pytest.raises(InputError) as raised:
        embedder.embed(body["inputs"], **options)
    refused, expected = raised.value, error(server.post("/embed", body), 400)
    message = expected["message"].removesuffix(" with on_overflow or truncate")  # its own fields
    assert (str(refused), refused.code, refused.index) == (
        *(message, expected["code"], expected["index"]),
    )


def test_the_library_refuses_an_unknown_handling_of_long_texts(embedder: Embedder) -> None:
    unknown: Any = "START"
    with pytest.raises(InputError, match="'START', but must be one of error, start, end, mean"):
        embedder.embed("a", on_overflow=unknown)


def test_an_error_has_the_index_and_what_to_do(server: Server) -> None:
    for path in ("/embed", "/tokens"):
        failure = error(server.post(path, {"inputs": ["a", LONG], "on_overflow": "error"}), 400)
        assert (failure["code"], failure["index"]) == ("input_too_long", 1)
        assert "on_overflow" in failure["message"]
    body = {"a": ["a", "b"], "b": [LONG], "on_overflow": "error"}
    assert error(server.post("/similarity", body), 400)["code"] == "input_too_long"


def test_the_mean_of_windows_is_weighted_by_their_own_tokens(
    server: Server, embedder: Embedder, all_ids: list[int]
) -> None:
    slices = list(batched(all_ids[1:-1], 254))
    assert len(slices) == 4 and len(slices[-1]) < 254
    expected = mean(embedder, [[101, *ids, 102] for ids in slices], [len(ids) for ids in slices])
    body = {"inputs": ["short", LONG], "on_overflow": "mean", "normalize": False}
    actual = vectors(server.post("/embed", body))
    np.testing.assert_allclose(actual[1], expected, atol=1e-6)
    alone = vectors(server.post("/embed", {"inputs": "short", "normalize": False}))
    np.testing.assert_array_equal(actual[:1], alone)
    unit = vectors(server.post("/embed", {"inputs": LONG, "on_overflow": "mean"}))
    np.testing.assert_allclose(unit, normalize(actual[1:]), atol=1e-7)


def test_windows_of_token_ids_are_those_of_the_text(server: Server, all_ids: list[int]) -> None:
    actual = vectors(server.post("/embed", {"inputs": [LONG, all_ids], "on_overflow": "mean"}))
    np.testing.assert_array_equal(actual[0], actual[1])


def test_ids_without_special_tokens_get_none_in_their_windows(
    server_any_dimensions: Server, embedder: Embedder, all_ids: list[int]
) -> None:
    ids = all_ids[1:301]
    expected = mean(embedder, [ids[:256], ids[256:]], [256, 44])
    body = {"inputs": ids, "on_overflow": "mean", "normalize": False}
    actual = vectors(server_any_dimensions.post("/embed", body))
    np.testing.assert_allclose(actual[0], expected, atol=1e-6)


def test_a_prompt_is_put_before_every_window(
    server: Server, embedder: Embedder, all_ids: list[int]
) -> None:
    prompt = embedder.tokenize(["text for:"])[0][1:-1]
    slices = list(batched(all_ids[1:-1], 251))
    windows = [[101, *prompt, *ids, 102] for ids in slices]
    expected = normalize(mean(embedder, windows, [len(ids) for ids in slices])[None])
    body = {"inputs": LONG, "on_overflow": "mean", "prompt": "text for: "}
    np.testing.assert_allclose(vectors(server.post("/embed", body)), expected, atol=1e-6)


def test_details_contain_the_windows_and_all_tokens(server: Server, all_ids: list[int]) -> None:
    body = {"inputs": ["short", LONG], "on_overflow": "mean", "details": True}
    content = server.post("/embed", body).json()
    read = len(all_ids) - 2 + 2 * 4
    assert content["inputs"] == [
        {"tokens": 3, "truncated": False, "dropped": 0},
        {"tokens": read, "truncated": False, "dropped": 0, "windows": 4},
    ]
    assert content["usage"] == {"texts": 2, "tokens": read + 3}


def test_truncate_and_on_overflow_together_are_refused(server: Server) -> None:
    for options in ({"truncate": True}, {"truncation_direction": "right"}):
        body = {"inputs": "a", "on_overflow": "end", **options}
        assert error(server.post("/embed", body), 400)["param"] == "on_overflow"
    assert error(server.post("/embed", {"inputs": "a", "on_overflow": "START"}), 400)


def test_a_prompt_that_leaves_no_room_is_refused(server: Server) -> None:
    body = {"inputs": "a", "on_overflow": "mean", "prompt": "long " * 300}
    assert error(server.post("/embed", body), 400)["code"] == "prompt_too_long"
