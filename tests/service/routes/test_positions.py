"""GET and POST /positions against a running server."""

import asyncio
import contextlib
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, get_args

import numpy as np
import pytest
from safetensors import safe_open

from embedwell.compute.position_encoding import compute_tables, option_names
from embedwell.errors import BadRequest
from embedwell.http.request_context import RequestContext
from embedwell.routes.positions import PositionService, PositionsRequest, SchemeName
from embedwell.settings.settings import Settings
from embedwell_models.config.encoder_config import EncoderConfig, plain_config
from embedwell_models.config.layer_spec import ConvolutionSpec
from embedwell_models.families import rope
from embedwell_models.positions import tables
from embedwell_models.positions.schemes import (
    Alibi,
    Buckets,
    Disentangled,
    Learned,
    Rotary,
    Scaling,
    Scheme,
    Sinusoidal,
    TransformerXL,
)
from embedwell_models.read.inputs import InputRow
from embedwell_models.vectors import Floats
from tests.service.responses import error
from tests.service.server import Server


def test_the_models_own_table_is_the_default(server: Server, minilm_folder: str) -> None:
    with safe_open(f"{minilm_folder}/model.safetensors", framework="np") as checkpoint:
        table = checkpoint.get_tensor("embeddings.position_embeddings.weight")
    content = server.post("/positions", {"positions": [0, 7, 511]}).json()
    assert content["scheme"] == "learned" and content["positions"] == [0, 7, 511]
    np.testing.assert_array_equal(
        np.array(content["vectors"], dtype=np.float32), table[[0, 7, 511]]
    )


def test_sinusoidal_has_the_width_of_the_model_by_default(server: Server) -> None:
    content = server.post("/positions", {"scheme": "sinusoidal", "count": 3}).json()
    expected = tables.sinusoidal(np.arange(3), 384)
    np.testing.assert_array_equal(np.array(content["vectors"], dtype=np.float32), expected)


def test_rotary_has_cosine_and_sine_of_each_pair(server: Server) -> None:
    body = {"scheme": "rotary", "positions": [5], "dim": 4, "base": 100}
    content = server.post("/positions", body).json()
    np.testing.assert_allclose(content["cos"], [[np.cos(5), np.cos(0.5)]], rtol=1e-6)
    np.testing.assert_allclose(content["sin"], [[np.sin(5), np.sin(0.5)]], rtol=1e-6)


def test_alibi_has_slopes_and_a_bias_for_every_pair(server: Server) -> None:
    content = server.post("/positions", {"scheme": "alibi", "heads": 8, "count": 3}).json()
    assert content["slopes"] == [2.0**-power for power in range(1, 9)]
    assert content["bias"][0] == [[0, -0.5, -1], [-0.5, 0, -0.5], [-1, -0.5, 0]]
    default = server.post("/positions", {"scheme": "alibi", "count": 1}).json()
    assert len(default["slopes"]) == 12


def test_causal_alibi_masks_later_keys(server: Server) -> None:
    body = {"scheme": "alibi", "heads": 1, "steepest": 1, "causal": True, "positions": [3, 5]}
    assert server.post("/positions", body).json()["bias"] == [[[0, None], [-1, 0]]]


@pytest.mark.parametrize("scheme", ["relative", "mpnet"])
def test_relative_has_a_bucket_for_every_pair(server: Server, scheme: str) -> None:
    body = {"scheme": scheme, "positions": [0, 1, 200], "bidirectional": False}
    assert server.post("/positions", body).json()["buckets"] == [[0, 0, 0], [1, 0, 0], [31, 31, 0]]


def test_disentangled_has_a_signed_bucket_for_every_pair(server: Server) -> None:
    body = {"scheme": "disentangled", "positions": [0, 2, 300], "buckets": 8, "max_distance": 64}
    content = server.post("/positions", body).json()
    assert content["buckets"] == [[0, -2, -8], [2, 0, -8], [7, 7, 0]]
    plain = server.post("/positions", {**body, "buckets": 0}).json()
    assert plain["buckets"] == [[0, -2, -64], [2, 0, -64], [63, 63, 0]]


def test_transformer_xl_has_a_sinusoid_for_every_distance(server: Server) -> None:
    body = {"scheme": "transformer_xl", "positions": [0, 3], "dim": 4, "base": 100}
    content = server.post("/positions", body).json()
    assert content["distances"] == [-3, 0, 3]
    np.testing.assert_allclose(
        content["vectors"][2], [np.sin(3), np.sin(0.3), np.cos(3), np.cos(0.3)], rtol=1e-6
    )


def test_the_scheme_none_has_no_arrays(server: Server) -> None:
    content = server.post("/positions", {"scheme": "none", "count": 2}).json()
    assert content == {"scheme": "none", "parameters": {}, "positions": [0, 1]}
    assert server.post("/positions", {"layer": 6, "count": 2}).json() == content


@pytest.mark.parametrize(
    ("interleaved", "pairs"), [(True, [[0, 1], [2, 3]]), (False, [[0, 2], [1, 3]])]
)
def test_rotary_has_the_pairs_of_columns(server: Server, interleaved: bool, pairs: object) -> None:
    body = {"scheme": "rotary", "dim": 4, "interleaved": interleaved, "count": 1}
    content = server.post("/positions", body).json()
    assert content["pairs"] == pairs and content["parameters"]["interleaved"] is interleaved


@pytest.mark.parametrize(
    ("options", "scaling"),
    [
        ({"scaling": "linear", "factor": 4}, Scaling(kind="linear", factor=4, original=512)),
        (
            {"scaling": "dynamic", "factor": 2, "original": 10, "length": 40},
            Scaling(kind="dynamic", factor=2, original=10),
        ),
        ({"scaling": "ntk", "factor": 2}, Scaling(kind="ntk", factor=2)),
        (
            {"scaling": "yarn", "factor": 4, "fast": 16, "whole": False},
            Scaling(
                kind="yarn", factor=4, original=512, magnitude=1.13862944, fast=16, whole=False
            ),
        ),
        (
            {"scaling": "llama3", "factor": 8, "original": 64},
            Scaling(kind="llama3", factor=8, original=64, fast=4, slow=1),
        ),
    ],
    ids=lambda options: options.get("scaling") if isinstance(options, dict) else "",
)
def test_rotary_applies_the_requested_scaling(
    server: Server, options: dict[str, object], scaling: Scaling
) -> None:
    body = {"scheme": "rotary", "positions": [0, 9, 30], "dim": 16, "base": 1000, **options}
    content = server.post("/positions", body).json()
    scheme = Rotary(dim=16, base=1000, scaling=scaling)
    expected = tables.rotary(np.array([0, 9, 30]), scheme, 40)
    for part, expected_part in zip(("cos", "sin"), expected, strict=True):
        np.testing.assert_allclose(content[part], expected_part, rtol=1e-6, atol=1e-7)
    assert content["parameters"].items() >= options.items()
    again = server.post(
        "/positions", {"scheme": "rotary", "positions": [0, 9, 30], **content["parameters"]}
    )
    assert again.json() == content


def config(**different: Any) -> EncoderConfig:
    sizes = {"hidden_size": 64, "num_layers": 3, "num_heads": 4, "intermediate_size": 96}
    rest = {"family": "bert", "vocab_size": 99, "max_positions": 128, "norm_eps": 1e-5}
    return plain_config(**{**sizes, **rest, **different})


LONGROPE = Rotary(
    dim=4,
    scaling=Scaling(kind="longrope", original=9, magnitude=1.5, short=(1.0, 2.0), long=(4.0, 8.0)),
)
MODELS: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"input_positions": Sinusoidal(base=500.0), "embedding_size": 32}, {"dim": 32, "base": 500.0}),
    (
        {"positions": Rotary(dim=8, base=500.0, interleaved=True)},
        {"dim": 8, "base": 500.0, "interleaved": True, "scaling": "default"},
    ),
    (
        {"positions": Rotary(dim=8, scaling=Scaling(kind="linear", factor=3.0))},
        {"dim": 8, "base": 1e4, "interleaved": False, "scaling": "linear", "factor": 3.0},
    ),
    (
        {"positions": LONGROPE},
        {"dim": 4, "base": 1e4, "interleaved": False, "scaling": "longrope"}
        | {"original": 9, "length": 16, "magnitude": 1.5},
    ),
    (
        {"positions": Alibi(steepest=4.0), "causal": True},
        {"heads": 4, "steepest": 4.0, "causal": True},
    ),
    (
        {"positions": Buckets(buckets=8, max_distance=20)},
        {"buckets": 8, "max_distance": 20, "bidirectional": True},
    ),
    (
        {"positions": Disentangled(buckets=8, max_distance=20)},
        {"buckets": 8, "max_distance": 20},
    ),
    ({"positions": TransformerXL(base=500.0)}, {"dim": 64, "base": 500.0}),
]


def test_sinusoids_are_those_that_the_model_adds() -> None:
    scheme = Sinusoidal(halves=True, offset=2)
    encoding = PositionsRequest(positions=[0, 5]).encoding(config(input_positions=scheme))
    table = tables.sinusoidal_table(scheme, 6, 64)
    np.testing.assert_array_equal(compute_tables(encoding)["vectors"], table[[1, 6]])


@pytest.mark.parametrize(("model", "parameters"), MODELS, ids=lambda part: str(part)[:60])
def test_absent_options_are_the_models(model: dict[str, Any], parameters: dict[str, Any]) -> None:
    served = config(**model)
    default_options = PositionsRequest().encoding(served)
    assert default_options.parameters == parameters
    assert default_options.scheme in (model.get("input_positions"), model.get("positions"))
    named = PositionsRequest.model_validate({"scheme": default_options.name})
    assert named.encoding(served).parameters == parameters
    other_model = PositionsRequest.model_validate({"scheme": default_options.name}).encoding(
        config()
    )
    assert other_model.parameters != parameters


@pytest.mark.parametrize(
    ("model", "options", "trained"),
    [
        ({"positions": Buckets(buckets=8)}, {}, True),
        ({"positions": Buckets(buckets=8)}, {"scheme": "relative", "buckets": 8}, True),
        ({"positions": Buckets(buckets=8)}, {"buckets": 16}, False),
        ({"positions": Buckets(buckets=8)}, {"max_distance": 64}, False),
        ({"positions": Buckets(buckets=8)}, {"bidirectional": False}, False),
        ({"positions": Buckets()}, {"scheme": "mpnet"}, False),
        ({"positions": Buckets(), "family": "mpnet"}, {"scheme": "mpnet"}, True),
        ({"positions": Buckets(), "family": "mpnet"}, {"scheme": "relative"}, True),
        (
            {"positions": Buckets(), "family": "mpnet", "input_positions": Learned()},
            {"layer": 1},
            True,
        ),
        ({}, {"scheme": "relative"}, False),
    ],
    ids=str,
)
def test_only_the_models_scheme_has_trained_biases_which_count_for_each_head(
    model: dict[str, Any], options: dict[str, Any], trained: bool
) -> None:
    actual = PositionsRequest.model_validate({"count": 10, **options}).encoding(config(**model))
    assert actual.value_bound == (500 if trained else 100) and actual.trained == trained


FIELDS = PositionsRequest.model_json_schema()["properties"]


def extremes(option: str) -> list[Any]:
    """Return the minimum, a middle value and the maximum of an option, or all of its values."""
    schema = FIELDS[option]["anyOf"][0]
    if schema["type"] == "boolean":
        return [False, True]
    if "enum" in schema:
        return list(schema["enum"])
    above, maximum = schema.get("exclusiveMinimum"), schema["maximum"]
    minimum = schema["minimum"] if above is None else float(np.nextafter(above, 2))
    return [minimum, type(minimum)((minimum * maximum) ** 0.5), maximum]


def tables_of(body: dict[str, Any]) -> Iterator[Any]:
    """Yield the tables of a body; none if it is refused."""
    with contextlib.suppress(BadRequest):
        encoding = PositionsRequest.model_validate(body).encoding(config())
        yield from compute_tables(encoding).values()


@pytest.mark.parametrize(
    ("scheme", "scaling"),
    [
        *(("rotary", scaling) for scaling in extremes("scaling")),
        *((name, "default") for name in get_args(SchemeName) if name not in ("learned", "rotary")),
    ],
)
def test_extreme_options_give_finite_numbers(scheme: str, scaling: str) -> None:
    body = {"scheme": scheme, "positions": [0, 1, 1_000_000]}
    body |= {"scaling": scaling} if scheme == "rotary" else {}
    free = [
        name for name in option_names(scheme, scaling) if name not in ("dim", "scaling", "causal")
    ]
    for chosen in itertools.product(*map(extremes, free)):
        for dim in (2, 4, 512) if "dim" in option_names(scheme) else (None,):
            requested = {**body, **dict(zip(free, chosen, strict=True)), "dim": dim}
            assert all(np.isfinite(table).all() for table in tables_of(requested)), requested


@pytest.mark.parametrize("length", [9, 10])
def test_longrope_divides_by_the_factors_of_the_length(length: int) -> None:
    encoding = PositionsRequest(positions=[3], length=length).encoding(config(positions=LONGROPE))
    factors = np.array([1.0, 2.0] if length == 9 else [4.0, 8.0])
    cosines = compute_tables(encoding)["cos"]
    np.testing.assert_allclose(cosines[0], 1.5 * np.cos([3.0, 0.03] / factors), rtol=1e-6)


def test_longrope_of_another_width_is_refused() -> None:
    with pytest.raises(BadRequest, match="scaling needs 4"):
        PositionsRequest(dim=8).encoding(config(positions=LONGROPE))


def test_a_layer_has_the_scheme_of_its_own() -> None:
    whole, local = Rotary(dim=16, base=160_000.0), Rotary(dim=16)
    table, windows = Learned(), (None, 5, 5)
    served = config(
        positions=whole, local={"positions": local}, windows=windows, input_positions=table
    )
    actual = [PositionsRequest(layer=layer).encoding(served).scheme for layer in range(4)]
    assert actual == [table, whole, local, local]
    assert PositionsRequest().encoding(served).scheme == table
    assert PositionsRequest(scheme="rotary").encoding(served).scheme == whole
    assert PositionsRequest(scheme="rotary", layer=2, dim=4).encoding(served).scheme == Rotary(
        dim=4
    )


def test_a_layer_without_attention_has_no_positions() -> None:
    attention = config(positions=Rotary(dim=16))
    first = replace(attention.layers[0], mixer=ConvolutionSpec(width=3))
    served = replace(attention, layers=(first, *attention.layers[1:]))
    schemes = [PositionsRequest(layer=layer).encoding(served).scheme for layer in (1, 2)]
    assert schemes == [Scheme(), Rotary(dim=16)]
    assert PositionsRequest(scheme="rotary").encoding(served).scheme == Rotary(dim=16)


def test_every_scheme_and_scaling_of_a_model_can_be_requested() -> None:
    schemes = {"none", "mpnet", *(scheme.name for scheme in Scheme.__subclasses__())}
    assert set(get_args(SchemeName)) == schemes
    kinds = PositionsRequest.model_json_schema()["properties"]["scaling"]["anyOf"][0]["enum"]
    assert set(kinds) == {*rope._KINDS, "ntk"} - {"longrope"}  # whose factors a request has not


@pytest.mark.parametrize(
    ("query", "body"),
    [
        ("", {}),
        ("?scheme=sinusoidal&count=4&dim=6&base=500", {"count": 4, "dim": 6, "base": 500}),
        ("?scheme=rotary&positions=0,3,9", {"positions": [0, 3, 9]}),
        (
            "?scheme=rotary&scaling=linear&factor=1.5&interleaved=true",
            {"scaling": "linear", "factor": 1.5, "interleaved": True},
        ),
        ("?layer=0&count=2", {"layer": 0, "count": 2}),
        (
            "?scheme=relative&buckets=16&bidirectional=false",
            {"buckets": 16, "bidirectional": False},
        ),
    ],
)
def test_a_query_has_the_same_response_as_a_body(
    server: Server, query: str, body: dict[str, object]
) -> None:
    scheme = query.partition("scheme=")[2].partition("&")[0]
    body = {**body, "scheme": scheme} if scheme else body
    actual = server.client.get(f"/positions{query}")
    assert actual.status_code == 200, actual.text
    assert actual.content == server.post("/positions", body).content


@pytest.mark.parametrize(
    ("param", "body"),
    [
        ("heads", {"scheme": "rotary", "heads": 8}),
        ("dim", {"scheme": "rotary", "dim": 7}),
        ("factor", {"scheme": "rotary", "factor": 2}),
        ("factor", {"scheme": "rotary", "scaling": "yarn"}),
        ("factor", {"scheme": "rotary", "scaling": "ntk", "factor": 1e-300}),
        ("fast", {"scheme": "rotary", "scaling": "linear", "factor": 2, "fast": 2}),
        ("fast", {"scheme": "rotary", "scaling": "yarn", "factor": 2, "slow": 32}),
        ("fast", {"scheme": "rotary", "scaling": "llama3", "factor": 2, "slow": 4}),
        ("dim", {"scheme": "rotary", "scaling": "dynamic", "factor": 2, "dim": 2}),
        ("scaling", {"scheme": "rotary", "scaling": "longrope", "factor": 2}),
        ("base", {"scheme": "rotary", "base": 1}),
        ("positions", {"positions": [512]}),
        ("positions", {"positions": [-1]}),
        ("positions", {"positions": []}),
        ("count", {"count": 0}),
        (None, {"count": 2, "positions": [1]}),
        ("heads", {"scheme": "alibi", "heads": 0}),
        ("buckets", {"scheme": "relative", "buckets": 64, "max_distance": 32}),
        ("buckets", {"scheme": "relative", "buckets": 3}),
        ("buckets", {"scheme": "disentangled", "buckets": 64, "max_distance": 33}),
        ("buckets", {"scheme": "disentangled", "buckets": 2}),
        ("dim", {"scheme": "transformer_xl", "dim": 7}),
        ("scheme", {"scheme": "polar"}),
        ("dim", {"scheme": "learned", "dim": 4}),
        ("dim", {"dim": 4}),
        ("layer", {"layer": 7}),
        ("layer", {"layer": 1, "scheme": "learned"}),
    ],
)
def test_an_invalid_body_is_refused(server: Server, param: str | None, body: object) -> None:
    assert error(server.post("/positions", body), 400)["param"] == param
    assert error(server.client.get("/positions?count=many"), 400)["param"] == "count"


@pytest.mark.parametrize(
    ("query", "param"),
    [
        ("positions=1,1_0", "positions"),
        ("count=1_0", "count"),
        ("scheme=rotary&base=1_0.5", "base"),
    ],
)
def test_grouped_digits_in_a_query_are_refused(server: Server, query: str, param: str) -> None:
    assert error(server.client.get(f"/positions?{query}"), 400)["param"] == param


def test_a_learned_table_of_a_model_without_one_is_refused() -> None:
    with pytest.raises(BadRequest, match="trained position table"):
        PositionsRequest(scheme="learned").encoding(config())


class EchoPipeline:
    """A pipeline that returns token ids as vectors."""

    async def hidden(
        self, context: RequestContext, rows: Sequence[InputRow], output: str
    ) -> list[Floats]:
        return [row.ids[:, None].astype(np.float32) for row in rows]


@pytest.mark.parametrize("offset", [0, 1, 2])
def test_a_learned_table_is_not_computed_from_padding(offset: int) -> None:
    model: Any = SimpleNamespace(
        pipeline=EchoPipeline(),
        config=config(input_positions=Learned(offset=offset)),
        settings=Settings(max_values=1000),
    )
    positions = PositionService(model)
    actual: Any = asyncio.run(positions.encode(RequestContext("a"), PositionsRequest(count=5)))
    ids = actual["vectors"]
    assert len(ids) == 5 and offset - 1 not in ids


@pytest.mark.parametrize(
    "body",
    [
        {"scheme": "alibi", "heads": 1024, "count": 64},
        {"scheme": "relative", "count": 2001},
        {"scheme": "disentangled", "count": 2001},
        {"scheme": "transformer_xl", "positions": list(range(2001)), "dim": 2},
        {"scheme": "transformer_xl", "count": 100, "dim": 65_536},
        {"scheme": "sinusoidal", "count": 1_000_000},
        {"scheme": "rotary", "count": 1_000_000},
    ],
    ids=lambda body: "-".join(map(str, body.values()))[:40],
)
def test_a_response_of_too_many_numbers_is_refused(server: Server, body: object) -> None:
    assert error(server.post("/positions", body), 413)["code"] == "too_many_values"


def test_the_scheme_none_has_no_limit_of_positions() -> None:
    body = PositionsRequest(scheme="none", count=1_000_000)
    assert body.encoding(config()).value_bound == 0


@pytest.mark.parametrize(
    ("body", "fields"),
    [
        ({"count": 3}, ["vectors"]),
        ({"scheme": "sinusoidal", "count": 3}, ["vectors"]),
        ({"scheme": "rotary", "count": 3}, ["cos", "sin"]),
        ({"scheme": "alibi", "count": 3}, ["bias"]),
        ({"scheme": "relative", "count": 3}, ["buckets"]),
    ],
)
def test_a_table_as_bytes(server: Server, body: dict[str, object], fields: list[str]) -> None:
    actual = server.post("/positions", body).json()
    expected = np.squeeze([actual[field] for field in fields], axis=0 if len(fields) == 1 else ())
    query = "&".join(f"{name}={value}" for name, value in body.items())
    accept = {"accept": "application/octet-stream"}
    for response in (
        server.post("/positions", body, **accept),
        server.client.get(f"/positions?{query}", headers=accept),
    ):
        shape = [int(size) for size in response.headers["x-shape"].split(",")]
        table = np.frombuffer(response.content, dtype=response.headers["x-dtype"]).reshape(shape)
        np.testing.assert_allclose(table, expected, rtol=1e-6)
