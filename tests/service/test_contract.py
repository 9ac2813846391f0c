"""Whatever the OpenAPI document allows, and whatever it does not, is answered as it says.

Schemathesis makes the requests up; `make fuzz` lets it make thousands, with a key and without.
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
from schemathesis.specs.openapi.checks import positive_data_acceptance

from tests.service.api.committed import DOCUMENT
from tests.service.local_server import local_server
from tests.service.server import HttpServer, Server

CASES = int(os.environ.get("FUZZ_CASES", "0"))

CONFIG = SchemathesisConfig.from_dict(
    {
        "generation": {"deterministic": not CASES},
        # What the document cannot say: that a model has no such prompt, two fields exclude each
        # other, or an answer would be too large.
        "checks": {"positive_data_acceptance": {"expected-statuses": ["200", "400", "404", "413"]}},
    }
)
SCHEMA = schemathesis.openapi.from_dict(DOCUMENT, config=CONFIG)
PACK: dict[str, Callable[[bytes], bytes]] = {"gzip": gzip.compress, "deflate": zlib.compress}


KEY = {"authorization": "Bearer sesame"}


@pytest.fixture(scope="module")
def locked(minilm_folder: Path) -> Iterator[HttpServer]:
    """A server that wants a key."""
    with local_server(minilm_folder, api_key="sesame") as running:
        yield running


def packed(case: Any) -> dict[str, bytes]:
    """What is sent in place of the body, where its encoding is one that there is."""
    pack = PACK.get(case.headers.get("content-encoding"))
    valid = all(part.mode.is_positive for part in case.meta.components.values())
    return {"data": pack(json.dumps(case.body).encode())} if pack and valid else {}


@SCHEMA.parametrize()
@hypothesis.settings(max_examples=CASES or 15, derandomize=not CASES)
def test_every_request_is_answered_as_the_document_says(server: Server, case: Any) -> None:
    case.call_and_validate(base_url=server.url, **packed(case))


@SCHEMA.parametrize()
@hypothesis.settings(max_examples=CASES or 3, derandomize=not CASES)
def test_with_the_key_it_is_the_same(locked: HttpServer, case: Any) -> None:
    case.call_and_validate(base_url=locked.url, headers=KEY, **packed(case))


@SCHEMA.parametrize()
@hypothesis.settings(max_examples=CASES or 3, derandomize=not CASES)
def test_without_the_key_everything_that_needs_it_is_refused_as_the_document_says(
    locked: HttpServer, case: Any
) -> None:
    answer = case.call(base_url=locked.url, **packed(case))
    case.validate_response(answer, excluded_checks=[positive_data_acceptance])
    if {"key": []} in case.operation.definition.raw["security"]:
        assert answer.status_code in (401, 405), answer.text
