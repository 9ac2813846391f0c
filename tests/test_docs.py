"""Consistency of the docs with the code."""

import asyncio
import re
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from models.vectors import Floats
from service.api.router import JsonRoute
from service.request.request_context import RequestContext

ROOT = Path(__file__).parent.parent
ERRORS = (ROOT / "docs" / "errors.md").read_text(encoding="utf-8")
CODE = re.compile(r'(?:\bcode=|\bcode = \d+, |^    code = )"(\w+)"', re.MULTILINE)
NEVER_SENT = {"client_gone", "too_large", "unsupported"}  # the client is gone; base classes


def test_the_table_of_errors_lists_exactly_the_codes_of_the_source() -> None:
    codes = {
        code
        for path in (ROOT / "service").rglob("*.py")
        for code in CODE.findall(path.read_text(encoding="utf-8"))
    }
    cells = re.findall(r"^\| \d+ \|(.*?)\|", ERRORS, re.MULTILINE)
    assert codes - NEVER_SENT == set(re.findall(r"`([a-z_]+)`", "".join(cells)))


class Axes:
    """A pipeline that gives texts with the same first letter the same vector."""

    async def embed(self, context: RequestContext, inputs: Sequence[str], options: Any) -> Any:
        letters = [[text[0] == "a", text[0] == "b"] for text in inputs]
        vectors: Floats = np.array(letters, dtype=np.float32)
        return [], vectors


def test_the_example_endpoint_of_the_architecture_page_works() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    module: dict[str, Any] = {"__name__": "nearest"}
    exec(compile(textwrap.dedent(block), "nearest.py", "exec"), module)
    (route,) = module["router"](Axes()).routes
    assert isinstance(route, JsonRoute) and route.body_type is not None
    body = route.body_type.model_validate({"query": "a query", "texts": ["b", "an answer"]})
    result: Any = asyncio.run(route.endpoint(RequestContext("an id"), body))
    assert result == {"index": 1, "cosine": 1.0}
