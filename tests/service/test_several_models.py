"""A server with several models: the choice of one, and what it shares with the others."""

from collections.abc import Iterator, Mapping
from pathlib import Path

import httpx
import pytest

from embedwell_client import Client
from tests.conftest import COMPILED, Folder
from tests.models.cross_encoder import write_cross_encoder
from tests.service.responses import error
from tests.service.routes.committed import run_example
from tests.service.server import Options, SeveralModels, error_of

ADMIN = {"authorization": "Bearer operator"}
TEXTS = {"query": "red", "texts": ["blue", "green"]}


@pytest.fixture(scope="module")
def models(tiny_bert: Folder, tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Options]:
    """A reranker, and two embedders of other widths."""
    reranker = write_cross_encoder(tmp_path_factory.mktemp("judge"))
    wide = tiny_bert(**COMPILED)
    small = tiny_bert(**{**COMPILED, "hidden_size": 32, "num_attention_heads": 1})
    return {
        "judge": {"source": str(reranker)},
        "small": {"source": str(small)},
        "org/wide": {"source": str(wide), "pooling": "cls"},
    }


@pytest.fixture(scope="module")
def three(
    models: Mapping[str, Options], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SeveralModels]:
    """A server that keeps three models loaded."""
    with SeveralModels(tmp_path_factory.mktemp("three"), models) as server:
        yield server


@pytest.fixture(scope="module")
def on_demand(
    models: Mapping[str, Options], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SeveralModels]:
    """A server that loads each of three models when it is asked for."""
    folder = tmp_path_factory.mktemp("on_demand")
    with SeveralModels(folder, models, keep="on_demand", admin_key="operator") as server:
        yield server


def dimensions(response: httpx.Response) -> int:
    assert response.status_code == 200, response.text
    return len(response.json()[0])


def requests(model: str) -> Iterator[tuple[str, dict[str, object]]]:
    """Every route with a model field for an embedder, with the smallest body."""
    cohere = {"input_type": "search_query", "texts": ["red"]}
    for path in ("/embed", "/embed_all", "/tokens", "/tokenize"):
        yield path, {"inputs": "red", "model": model}
    for path in ("/v1/embeddings", "/embeddings"):
        yield path, {"input": "red", "model": model}
    for path in ("/v1/embed", "/v2/embed"):
        yield path, {**cohere, "model": model}
    yield "/api/embed", {"input": "red", "model": model}
    yield "/api/embeddings", {"prompt": "red", "model": model}
    yield "/api/show", {"model": model}
    yield "/similarity", {"a": "red", "b": "blue", "model": model}
    yield "/decode", {"ids": [5], "model": model}
    yield "/positions", {"count": 2, "model": model}
    yield f"/models/{model}", {"inputs": "red"}


def documented_requests(server: SeveralModels) -> Iterator[tuple[str, dict[str, object]]]:
    """The first example of every route in the document whose body has a model."""
    document = server.client.get("/openapi.json").json()
    for path, operations in document["paths"].items():
        body = operations.get("post", {}).get("requestBody", {"content": {}})
        if "application/json" in body["content"]:
            reference = body["content"]["application/json"]["schema"]["$ref"]
            schema = document["components"]["schemas"][reference.rpartition("/")[2]]
            if "model" in schema["properties"]:
                yield path, schema["examples"][0]


def test_every_documented_route_refuses_an_unknown_model(three: SeveralModels) -> None:
    paths = []
    for path, example in documented_requests(three):
        fault = error_of(three.post(path, {**example, "model": "nobody"}))
        assert fault["code"] == "model_not_found", path
        paths.append(path)
    assert {"/embed", "/embed_sparse", "/rerank", "/classify", "/positions"} <= {*paths}


def test_each_route_chooses_the_model_by_its_name(three: SeveralModels) -> None:
    for path, body in requests("small"):
        assert three.post(path, body).status_code == 200, path
    for path, body in requests("nobody"):
        response = three.post(path, body)
        fault = error_of(response)
        assert (response.status_code, fault["code"]) == (404, "model_not_found"), path
        assert "this server has 'judge', 'small', 'org/wide'" in fault["message"]


def test_the_vectors_are_those_of_the_model(three: SeveralModels) -> None:
    for model, size in (("small", 32), ("org/wide", 64)):
        assert dimensions(three.post("/embed", {"inputs": "red", "model": model})) == size
        openai = three.post("/v1/embeddings", {"input": "red", "model": model}).json()
        assert openai["model"] == model and len(openai["data"][0]["embedding"]) == size
        tagged = {"input": "red", "model": f"{model}:latest"}
        assert len(three.post("/api/embed", tagged).json()["embeddings"][0]) == size
        [position] = three.post("/positions", {"count": 1, "model": model}).json()["vectors"]
        assert len(position) == size
        query = three.client.get("/positions", params={"count": 1, "model": model})
        assert query.json()["vectors"] == [position]


def test_the_client_chooses_a_model(three: SeveralModels) -> None:
    with Client(three.url) as client:
        assert client.embed(["red", "blue"], model="org/wide").shape == (2, 64)
        assert client.tokens("red", model="org/wide")[0].vectors.shape[1] == 64
        assert client.similarity("red", ["red"], model="org/wide")[0, 0] == pytest.approx(1.0)
        assert client.rerank("red", ["blue", "green"], model="judge").shape == (2,)
        assert client.positions(count=1, model="org/wide")["vectors"].shape == (1, 64)


def test_without_a_name_the_first_model_of_the_task_answers(three: SeveralModels) -> None:
    assert dimensions(three.post("/embed", {"inputs": "red"})) == 32
    openai = three.post("/v1/embeddings", {"input": "red"}).json()
    assert openai["model"] == "small"
    assert len(three.post("/tokens", {"inputs": "red"}).json()["results"]) == 1
    assert len(three.post("/rerank", TEXTS).json()) == 2
    assert (
        three.post("/rerank", TEXTS).json()
        == three.post("/rerank", {**TEXTS, "model": "judge"}).json()
    )
    assert three.client.get("/info").json()["model"] == "judge", "the first of all"


def test_a_model_of_another_task_says_what_it_does(three: SeveralModels) -> None:
    assert error(three.post("/embed", {"inputs": "a", "model": "judge"}), 400)["code"] == (
        "not_offered"
    )
    predict = {"inputs": "a", "model": "small"}
    assert error(three.post("/predict", predict), 400)["code"] == "not_offered"


def test_the_models_are_listed_with_task_dimensions_and_state(three: SeveralModels) -> None:
    listed = three.client.get("/v1/models").json()["data"]
    described = [(m["id"], m["task"], m["dimensions"], m["state"]) for m in listed]
    assert described == [
        ("judge", "rerank", None, "loaded"),
        ("small", "embed", 32, "loaded"),
        ("org/wide", "embed", 64, "loaded"),
    ]
    tags = three.client.get("/api/tags").json()["models"]
    assert [tag["name"] for tag in tags] == ["judge:latest", "small:latest", "org/wide:latest"]
    assert len(three.client.get("/api/ps").json()["models"]) == 3
    assert len(three.client.get("/models").json()["data"]) == 3


def test_info_describes_the_model_that_is_named(three: SeveralModels) -> None:
    info = three.client.get("/info", params={"model": "org/wide"}).json()
    assert (info["model"], info["engine"]["dim"], info["pooling"]) == ("org/wide", 64, ["cls"])
    assert info["pooling_source"] == "setting"
    assert error(three.client.get("/info", params={"model": "x"}), 404)["param"] == "model"


def test_each_model_has_a_base_address(three: SeveralModels) -> None:
    for name, width in (("small", 32), ("org/wide", 64)):
        base = f"/m/{name}"
        for path in ("", "/", "/embed", "//embed", "/embed/"):
            vectors = three.post(base + path, {"inputs": "red"}).json()
            assert vectors == three.post("/embed", {"inputs": "red", "model": name}).json()
        assert len(vectors[0]) == width
        openai = three.post(f"{base}/v1/embeddings", {"input": "red"}).json()
        assert openai["model"] == name
        assert three.client.get(f"{base}/info").json()["model"] == name
        assert three.client.get(f"{base}/health").status_code == 200
        assert three.client.head(f"{base}/health").status_code == 200
        assert len(three.client.get(f"{base}/v1/models").json()["data"]) == 3
        ranks = three.post(f"{base}/rerank", TEXTS).json()
        assert ranks == three.post("/rerank", {**TEXTS, "model": name}).json()
    query = {"query": "red", "texts": ["red", "blue"]}
    assert three.post("/m/judge", query).json() == three.post("/m/judge/rerank", query).json()
    assert error(three.post("/m/judge/embed", {"inputs": "red"}), 400)["code"] == "not_offered"
    [labels] = three.post("/m/judge/predict", {"inputs": [["red"]]}).json()
    assert len(labels) == 1


def test_a_name_in_the_body_or_query_has_precedence_over_the_path(three: SeveralModels) -> None:
    body = {"inputs": "red", "model": "org/wide"}
    assert dimensions(three.post("/m/small/embed", body)) == 64
    placeholder = {"inputs": "red", "model": "tei"}
    assert dimensions(three.post("/m/org/wide/embed", placeholder)) == 64
    info = three.client.get("/m/small/info", params={"model": "org/wide"}).json()
    assert info["model"] == "org/wide"
    fault = error_of(three.post("/m/small/v1/embeddings", {"input": "a", "model": "nobody"}))
    assert fault["code"] == "model_not_found"


def test_a_path_names_one_model(three: SeveralModels) -> None:
    for path in ("/m/small/m/judge/info", "/m/small" * 2000 + "/info"):
        assert error(three.client.get(path), 404)["code"] in ("not_found", "model_not_found")


def test_an_unknown_model_in_the_path_is_refused_with_the_list(three: SeveralModels) -> None:
    for response in (
        three.post("/m/nobody/embed", {"inputs": "red"}),
        three.client.get("/m/nobody/info"),
    ):
        fault = error(response, 404)
        assert (fault["code"], fault["param"]) == ("model_not_found", "model")
        assert "this server has 'judge', 'small', 'org/wide'" in fault["message"]
    assert error(three.client.get("/m/small/nothing"), 404)["code"] == "not_found"


def test_metrics_have_the_label_of_the_model(three: SeveralModels) -> None:
    before = three.client.get("/metrics").text
    three.post("/embed", {"inputs": ["red", "blue"], "model": "org/wide"})
    after = three.client.get("/metrics").text

    def texts(page: str) -> float:
        [line] = [x for x in page.splitlines() if x.startswith('embedwell_texts_total{model="org')]
        return float(line.rpartition(" ")[2])

    assert texts(after) - texts(before) == 2
    assert 'embedwell_ready{model="small"} 1.0' in after
    assert 'embedwell_request_seconds_bucket{le="0.5",model="judge"}' in after
    assert 'embedwell_requests_total{path="/embed",status="200"}' in after
    assert 'path="/m/small' not in after


def test_an_idle_model_on_demand_is_ready_and_not_loaded(on_demand: SeveralModels) -> None:
    def gauge(name: str) -> str:
        lines = on_demand.client.get("/metrics").text.splitlines()
        [line] = [each for each in lines if each.startswith(f'{name}{{model="org/wide"}}')]
        return line.partition("} ")[2]

    key = {"authorization": "Bearer operator"}
    assert on_demand.client.post("/models/org/wide/load", headers=key).status_code == 200
    assert gauge("embedwell_loaded") == "1.0"
    assert on_demand.client.post("/models/org/wide/unload", headers=key).status_code == 200
    assert (gauge("embedwell_ready"), gauge("embedwell_loaded")) == ("1.0", "0.0")


def test_the_server_is_ready_with_the_models_that_are_kept(
    three: SeveralModels, on_demand: SeveralModels
) -> None:
    assert three.client.get("/ready").status_code == 200
    assert on_demand.client.get("/ready").status_code == 200
    assert three.client.get("/m/org/wide/ready").json()["status"] == "ready"
    assert three.client.get("/m/org/wide/.well-known/ready").status_code == 204


def test_the_documented_examples_load_and_unload_a_model(
    on_demand: SeveralModels, tmp_path: Path
) -> None:
    replaced = {"all-MiniLM-L6-v2": "org/wide", "$EMBEDWELL_ADMIN_KEY": "operator"}
    for action, state in (("load", "loaded"), ("unload", "unloaded")):
        run_example("post", f"/models/{{name}}/{action}", on_demand.url, tmp_path, replaced)
        assert on_demand.state("org/wide") == state


def test_without_the_key_of_an_operator_nothing_is_loaded_by_request(
    three: SeveralModels, on_demand: SeveralModels
) -> None:
    fault = error(three.client.post("/models/small/unload"), 403)
    assert fault["code"] == "admin_disabled" and "EMBEDWELL_ADMIN_KEY" in fault["message"]
    assert three.state("small") == "loaded"
    for headers in ({}, {"authorization": "Bearer other"}):
        response = on_demand.client.post("/models/small/load", headers=headers)
        assert error(response, 401)["code"] == "invalid_api_key"


def test_an_operator_loads_and_unloads_a_model(on_demand: SeveralModels) -> None:
    for _ in range(2):  # which changes nothing the second time
        loaded = on_demand.client.post("/models/org/wide/load", headers=ADMIN)
        assert (loaded.status_code, loaded.json()) == (
            200,
            {"model": "org/wide", "state": "loaded"},
        )
    assert on_demand.state("org/wide") == "loaded"
    for _ in range(2):
        unloaded = on_demand.client.post("/models/org/wide/unload", headers=ADMIN)
        assert unloaded.json() == {"model": "org/wide", "state": "unloaded"}
    assert error(on_demand.client.post("/models/x/load", headers=ADMIN), 404)["param"] == "model"


def test_a_request_waits_until_its_model_is_loaded(on_demand: SeveralModels) -> None:
    on_demand.client.post("/models/small/unload", headers=ADMIN)
    assert on_demand.state("small") == "unloaded"
    body = {"inputs": "red", "model": "small"}
    first = on_demand.post("/embed", body)
    assert dimensions(first) == 32 and on_demand.state("small") == "loaded"
    assert first.json() == on_demand.post("/embed", body).json()
    assert on_demand.state("judge") == "unloaded"
    listed = on_demand.client.get("/api/ps").json()["models"]
    assert "judge:latest" not in [model["name"] for model in listed]
