"""Responses to valid and invalid requests match the OpenAPI document.

Schemathesis generates the requests; `make fuzz` generates thousands, with a key and without.
"""

import gzip
import json
import os
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import hypothesis
import pytest
import schemathesis
from schemathesis.config import SchemathesisConfig
from schemathesis.specs.openapi.checks import negative_data_rejection, positive_data_acceptance

from tests.models.colbert import write_stanford
from tests.models.cross_encoder import write_cross_encoder
from tests.models.tiny import write_static_model
from tests.service.local_server import local_server
from tests.service.routes.committed import DOCUMENT
from tests.service.server import HttpServer, Server

CASES = int(os.environ.get("FUZZ_CASES", "0"))

OPTIONS: dict[str, Any] = {
    "generation": {"deterministic": not CASES},
    # Refusals that a schema cannot express: an unknown prompt, fields that exclude each
    # other, a response that would be too large, what a setting does not allow.
    "checks": {
        "positive_data_acceptance": {"expected-statuses": ["200", "400", "403", "404", "413"]}
    },
}
SCHEMA = schemathesis.openapi.from_dict(DOCUMENT, config=SchemathesisConfig.from_dict(OPTIONS))
# Some hundred more cases of each operation, which without the key are all refused alike.
FEW_CASES = SchemathesisConfig.from_dict({**OPTIONS, "phases": {"coverage": {"enabled": False}}})
SCHEMA_OF_FEW = schemathesis.openapi.from_dict(DOCUMENT, config=FEW_CASES)
COMPRESS: dict[str, Callable[[bytes], bytes]] = {"gzip": gzip.compress, "deflate": zlib.compress}


KEY = {"authorization": "Bearer sesame"}


@pytest.fixture(scope="module")
def server_with_key(
    minilm_folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    """A server that needs a key."""
    with Server(tmp_path_factory.mktemp("key") / "log", api_key="sesame") as server:
        yield server


def compressed(case: Any) -> dict[str, bytes]:
    """The compressed body, if the case is valid and names a supported encoding."""
    compress = COMPRESS.get(case.headers.get("content-encoding"))
    valid = all(part.mode.is_positive for part in case.meta.components.values())
    return {"data": compress(json.dumps(case.body).encode())} if compress and valid else {}


def call(case: Any, server: HttpServer, **options: Any) -> Any:
    """Send a case, again while the engine cannot respond as the machine is busy otherwise."""
    response = case.call(base_url=server.url, **compressed(case), **options)
    while response.status_code == 503 and b"engine_unavailable" in response.content:
        response = case.call(base_url=server.url, **compressed(case), **options)
    return response


def validate(case: Any, response: Any) -> None:
    """Check a response; an unknown field that is null makes no body invalid."""
    skipped = [negative_data_rejection] if has_null(case.body) else []
    case.validate_response(response, excluded_checks=skipped)


def has_null(value: Any) -> bool:
    if isinstance(value, dict):
        return any(item is None or has_null(item) for item in value.values())
    return isinstance(value, list) and any(map(has_null, value))


@pytest.fixture(scope="module")
def reranker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpServer]:
    """A server of a small reranker."""
    folder = write_cross_encoder(tmp_path_factory.mktemp("reranker"))
    with local_server(folder, served_name="small,*") as server:
        yield server


@pytest.mark.full
@SCHEMA.include(tag=["rerank", "classify"]).parametrize()
@hypothesis.settings(max_examples=CASES or 15, derandomize=not CASES)
def test_responses_of_a_reranker_match_the_document(reranker: HttpServer, case: Any) -> None:
    validate(case, call(case, reranker))


@pytest.fixture(scope="module")
def colbert(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpServer]:
    """A server of a small multi-vector model."""
    folder = tmp_path_factory.mktemp("colbert")
    write_stanford(folder)
    with local_server(folder, served_name="small,*") as server:
        yield server


@pytest.mark.full
@SCHEMA.include(tag=["embed", "compare", "rerank"]).parametrize()
@hypothesis.settings(max_examples=CASES or 15, derandomize=not CASES)
def test_responses_of_a_multi_vector_model_match_the_document(
    colbert: HttpServer, case: Any
) -> None:
    validate(case, call(case, colbert))


@pytest.fixture(scope="module")
def batches(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpServer]:
    """A server that computes batches."""
    folder = tmp_path_factory.mktemp("static")
    with local_server(write_static_model(folder), batch_folder=folder / "batches") as server:
        yield server


@pytest.mark.full
@SCHEMA.include(tag="batches").parametrize()
@hypothesis.settings(max_examples=CASES or 15, derandomize=not CASES)
def test_responses_about_batches_match_the_document(batches: HttpServer, case: Any) -> None:
    validate(case, call(case, batches))


@pytest.mark.full(after=12)
@SCHEMA.parametrize()
@hypothesis.settings(max_examples=CASES or 15, derandomize=not CASES)
def test_responses_match_the_document(server_with_key: Server, case: Any) -> None:
    validate(case, call(case, server_with_key, headers=KEY))


@pytest.mark.full(after=6)
@SCHEMA_OF_FEW.parametrize()
@hypothesis.settings(max_examples=CASES or 3, derandomize=not CASES)
def test_requests_without_the_key_are_refused_as_documented(
    server_with_key: Server, case: Any
) -> None:
    response = call(case, server_with_key)
    case.validate_response(response, excluded_checks=[positive_data_acceptance])
    if {"key": []} in case.operation.definition.raw["security"]:
        assert response.status_code in (401, 405), response.text
