"""Whatever the OpenAPI document allows, and whatever it does not, is answered as it says.

Schemathesis makes the requests up; `make fuzz` lets it make thousands.
"""

import gzip
import json
import os
import zlib
from collections.abc import Callable
from typing import Any

import hypothesis
import schemathesis
from schemathesis.config import SchemathesisConfig

from tests.service.server import Server
from tests.service.test_document import DOCUMENT

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


@SCHEMA.parametrize()
@hypothesis.settings(max_examples=CASES or 15, derandomize=not CASES)
def test_every_request_is_answered_as_the_document_says(server: Server, case: Any) -> None:
    pack = PACK.get(case.headers.get("content-encoding"))
    valid = all(part.mode.is_positive for part in case.meta.components.values())
    packed = {"data": pack(json.dumps(case.body).encode())} if pack and valid else {}
    case.call_and_validate(base_url=server.url, **packed)
