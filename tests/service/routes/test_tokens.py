"""POST /tokens and /embed_all against a running server."""

import base64

import numpy as np
import pytest

from embedwell_models import Embedder
from tests.service.responses import error
from tests.service.server import Server

TEXT = "Déjà vu in 北京: tokens 🦊 have places."


def test_every_token_has_its_text_place_and_vector(server: Server, embedder: Embedder) -> None:
    content = server.post("/tokens", {"inputs": TEXT}).json()
    tokens = content["results"][0]["tokens"]
    assert content["layer"] == 6
    ids = embedder.tokenize([TEXT])[0]
    assert [token["id"] for token in tokens] == ids
    assert [token["special"] for token in tokens] == [True, *[False] * (len(ids) - 2), True]
    for token in tokens[1:-1]:
        assert token["text"] == TEXT[token["start"] : token["stop"]] != ""
        part = TEXT.encode()[token["start_byte"] : token["stop_byte"]]
        assert part.decode() == token["text"]
    assert tokens[0]["start"] is tokens[-1]["stop"] is None
    expected = embedder.hidden([ids])[0]
    content = np.array([token["embedding"] for token in tokens], dtype=np.float32)
    np.testing.assert_array_equal(content, expected)


@pytest.mark.parametrize("layer", [0, 3, 6, "token", "position", "segment"])
def test_any_layer_and_each_part_of_the_input_can_be_requested(
    server: Server, embedder: Embedder, layer: int | str
) -> None:
    content = server.post("/tokens", {"inputs": ["one", TEXT], "layer": layer}).json()
    ids = embedder.tokenize(["one", TEXT])
    for result, expected in zip(content["results"], embedder.hidden(ids, layer), strict=True):
        vectors = [token["embedding"] for token in result["tokens"]]
        np.testing.assert_array_equal(np.array(vectors, dtype=np.float32), expected)


@pytest.mark.parametrize(
    ("layer", "expected"),
    [
        (-1, "layer: Input should be greater than or equal to 0"),
        (1.5, "layer: Input should be a valid integer"),
        ([1], "layer: Input should be a valid integer"),
        ("last", "layer: Input should be 'input', 'token', 'position' or 'segment'"),
    ],
)
def test_the_error_of_an_invalid_layer_lists_the_valid_ones(
    server: Server, layer: object, expected: str
) -> None:
    fault = error(server.post("/tokens", {"inputs": "a", "layer": layer}), 400)
    assert (fault["message"], fault["param"]) == (expected, "layer")


def test_layer_zero_is_the_input(server: Server) -> None:
    zero, named = (
        server.post("/tokens", {"inputs": TEXT, "layer": n}).json() for n in (0, "input")
    )
    assert zero == named


def test_layer_zero_is_the_normalised_sum_of_its_parts(server: Server, embedder: Embedder) -> None:
    def layer(name: object) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
        tokens = server.post("/tokens", {"inputs": TEXT, "layer": name}).json()["results"][0]
        return np.array([token["embedding"] for token in tokens["tokens"]])

    total = layer("token") + layer("position") + layer("segment")
    centred = total - total.mean(axis=1, keepdims=True)
    scaled = centred / total.std(axis=1, keepdims=True)
    # The norm has a scale and a shift for each dimension: a straight line through all tokens.
    for dimension in (0, 100, 383):
        line = np.polynomial.Polynomial.fit(scaled[:, dimension], layer(0)[:, dimension], 1)
        np.testing.assert_allclose(line(scaled[:, dimension]), layer(0)[:, dimension], atol=1e-5)


def test_a_span_is_the_mean_of_its_tokens_computed_with_the_whole_text(server: Server) -> None:
    text = "Berlin is large. Its people like it."
    spans = [[0, 6], [17, 36], [0, 36]]
    content = server.post("/tokens", {"inputs": text, "spans": [spans]}).json()["results"][0]
    tokens = server.post("/tokens", {"inputs": text}).json()["results"][0]["tokens"]
    inner = tokens[1:-1]
    for (start, stop), span in zip(spans, content["spans"], strict=True):
        touched = [t["embedding"] for t in inner if t["start"] < stop and t["stop"] > start]
        np.testing.assert_allclose(span["embedding"], np.mean(touched, axis=0), atol=1e-6)
        assert [span["start"], span["stop"]] == [start, stop]
    alone = server.post("/tokens", {"inputs": text[17:], "spans": [[[0, 19]]]}).json()
    apart = np.abs(
        np.subtract(alone["results"][0]["spans"][0]["embedding"], content["spans"][1]["embedding"])
    )
    assert apart.max() > 0.01


def test_a_span_can_be_the_largest_value_of_its_tokens(server: Server) -> None:
    body = {"inputs": TEXT, "spans": [[[0, 7]]], "pooling": "max"}
    (span,) = server.post("/tokens", body).json()["results"][0]["spans"]
    tokens = server.post("/tokens", {"inputs": TEXT}).json()["results"][0]["tokens"][1:-1]
    touched = [token["embedding"] for token in tokens if token["start"] < 7]
    np.testing.assert_array_equal(span["embedding"], np.max(touched, axis=0))


def test_offsets_do_not_count_the_prompt(server: Server) -> None:
    body = {"inputs": TEXT, "prompt": "passage: "}
    tokens = server.post("/tokens", body).json()["results"][0]["tokens"]
    plain = server.post("/tokens", {"inputs": TEXT}).json()["results"][0]["tokens"]
    assert [t["start"] for t in tokens[1:3]] == [None, None]  # "passage" and ":"
    assert [t["start"] for t in tokens[3:]] == [t["start"] for t in plain[1:]]


def test_truncated_texts_have_only_their_remaining_tokens(server: Server) -> None:
    for side in ("left", "right"):
        body = {"inputs": "many words " * 300, "truncation_direction": side}
        response = server.post("/tokens", body)
        (result,) = response.json()["results"]
        assert (result["truncated"], result["dropped"]) == (True, 346)
        tokens = result["tokens"]
        assert len(tokens) == 256 and response.headers["x-truncated"] == "1"
        assert tokens[0]["special"] and tokens[-1]["special"]
        assert (tokens[1]["start"] == 0) is (side == "right")


def test_base64_holds_the_bytes_of_the_numbers(server: Server) -> None:
    body = {"inputs": "bytes", "normalize": True}
    numbers = server.post("/tokens", body).json()["results"][0]["tokens"]
    strings = server.post("/tokens", {**body, "encoding_format": "base64"}).json()
    for token, number in zip(strings["results"][0]["tokens"], numbers, strict=True):
        decoded = np.frombuffer(base64.b64decode(token["embedding"]), dtype="<f4")
        np.testing.assert_array_equal(decoded, np.array(number["embedding"], dtype=np.float32))
        assert abs(np.linalg.norm(decoded) - 1) < 1e-6


@pytest.mark.parametrize("part", [{}, {"spans": [[[0, 4]], [[0, 3], [3, 9]]]}])
@pytest.mark.parametrize("dtype", ["float32", "float16", "ubinary"])
def test_a_block_has_the_same_numbers_as_objects(
    server: Server, part: dict[str, object], dtype: str
) -> None:
    body = {"inputs": ["déjà", TEXT], "output_dtype": dtype, **part}
    objects = server.post("/tokens", body).json()
    name = "spans" if part else "tokens"
    plain = server.post("/tokens", {**body, "layout": "block"}).json()
    packed = server.post("/tokens", {**body, "layout": "block", "encoding_format": "base64"}).json()
    assert objects["dtype"] == plain["dtype"] == packed["dtype"] == dtype
    for result, numbers, block in zip(
        *(a["results"] for a in (objects, plain, packed)), strict=True
    ):
        vectors = np.array([item.pop("embedding") for item in result[name]], dtype=dtype_of(dtype))
        assert block[name] == numbers[name] == result[name]
        assert block["shape"] == numbers["shape"] == list(vectors.shape)
        decoded = np.frombuffer(base64.b64decode(block["embeddings"]), dtype=dtype_of(dtype))
        np.testing.assert_array_equal(decoded.reshape(block["shape"]), vectors)
        listed = np.array(numbers["embeddings"], dtype=dtype_of(dtype))
        np.testing.assert_array_equal(listed, vectors)


def dtype_of(name: str) -> str:
    return "uint8" if name == "ubinary" else name


def test_token_vectors_of_one_text_as_bytes(server: Server, embedder: Embedder) -> None:
    accept = {"accept": "application/octet-stream"}
    response = server.post("/tokens", {"inputs": TEXT}, **accept)
    expected = embedder.hidden(embedder.tokenize([TEXT]))[0]
    assert response.headers["x-shape"] == f"{len(expected)},384"
    assert response.content == expected.tobytes()
    bodies: list[dict[str, object]] = [
        {"inputs": ["a", "b"]},
        {"inputs": "a", "layout": "block"},
        {"inputs": "a", "encoding_format": "base64"},
    ]
    for body in bodies:
        assert error(server.post("/tokens", body, **accept), 400)


def test_embed_all_is_the_last_layer_in_teis_format(server: Server, embedder: Embedder) -> None:
    content = server.post("/embed_all", {"inputs": ["one", TEXT]}).json()
    ids = embedder.tokenize(["one", TEXT])
    for vectors, expected in zip(content, embedder.hidden(ids), strict=True):
        np.testing.assert_array_equal(np.array(vectors, dtype=np.float32), expected)


def test_embed_all_takes_token_ids_as_embed_does(server: Server, embedder: Embedder) -> None:
    ids = embedder.tokenize([TEXT])[0]
    expected = server.post("/embed_all", {"inputs": [TEXT, "one"]}).json()
    assert server.post("/embed_all", {"inputs": [ids, "one"]}).json() == expected
    assert server.post("/embed_all", {"inputs": ids}).json() == expected[:1]


@pytest.mark.parametrize(
    ("body", "code", "index"),
    [
        ({"inputs": "a", "layer": 7}, "invalid_request", None),
        ({"inputs": "a", "layer": "last"}, "invalid_request", None),
        ({"inputs": "a", "spans": []}, "invalid_request", None),
        ({"inputs": ["a", "bc"], "spans": [[[0, 1]], [[0, 3]]]}, "invalid_request", 1),
        ({"inputs": "abc", "spans": [[[2, 2]]]}, "invalid_request", 0),
        ({"inputs": "a  b", "spans": [[[1, 3]]]}, "empty_span", 0),
        ({"inputs": [[101, 102]]}, "invalid_request", 0),
        ({"inputs": []}, "no_input", None),
        ({}, "invalid_request", None),
        ({"inputs": "a", "chunks": [["a"]]}, "invalid_request", None),
        ({"chunks": []}, "no_input", None),
        ({"chunks": [["a"], []]}, "no_input", 1),
        ({"chunks": [["a", " "]]}, "empty_chunk", 0),
        ({"chunks": [["a"]], "spans": [[[0, 1]]]}, "invalid_request", None),
        ({"inputs": "a", "on_overflow": "mean"}, "invalid_request", None),
    ],
)
def test_an_invalid_body_is_refused(
    server: Server, body: object, code: str, index: int | None
) -> None:
    fault = error(server.post("/tokens", body), 400)
    assert (fault["code"], fault["index"]) == (code, index)


@pytest.mark.parametrize(
    ("field", "param", "code"),
    [
        ({"prompt_name": "nope"}, "prompt_name", "unknown_prompt"),
        ({"prompt": "word " * 300}, "prompt", "prompt_too_long"),
    ],
)
def test_an_error_of_the_prompt_does_not_name_chunks(
    server: Server, field: dict[str, str], param: str, code: str
) -> None:
    fault = error(server.post("/tokens", {"chunks": [["a"]], **field}), 400)
    assert (fault["param"], fault["index"], fault["code"]) == (param, None, code)


def test_documents_beyond_the_limit_of_numbers_are_not_read(server: Server) -> None:
    document = "house river " * 1600
    response = server.post("/tokens", {"chunks": [[document]] * 400})
    assert error(response, 413)["code"] == "too_many_values"
    assert int(response.headers["x-tokens"]) < 12_000 < 400 * 256
