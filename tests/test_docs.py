"""Consistency of the docs with the code."""

import asyncio
import re
import textwrap
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from embedwell.errors import BadRequest, ServiceError
from embedwell.http.request_context import RequestContext
from embedwell.routes.common.router import DirectRoute
from embedwell.routes.common.server_state import ModelChoice, ServedNames
from embedwell_models.vectors import Floats
from embedwell_rare.families import ernie

ROOT = Path(__file__).parent.parent
ERRORS = (ROOT / "docs" / "errors.md").read_text(encoding="utf-8")
READING = [
    ROOT / "models/embedwell_models/errors.py",
    *(ROOT / "models/embedwell_models/read").glob("*.py"),
    ROOT / "models/embedwell_vision/reader.py",
]
CODE = re.compile(r'(?:\bcode=|\bcode: str = |\bcode = \d+, |^    code = )"(\w+)"', re.MULTILINE)
WITH_PACKAGES = ("embedwell_models", "embedwell_classic")
"""Packages of models/ whose own packages the architecture page lists."""
NEVER_SENT = {"client_gone", "too_large", "unsupported"}  # the client is gone; base classes
IN_BATCHES = {  # of the problems that a failed batch lists
    *("empty_file", "too_many_requests", "too_many_lines", "line_too_long"),
    *("duplicate_custom_id", "invalid_url", "invalid_json_line"),
}


def test_the_list_of_errors_has_exactly_the_codes_of_the_source() -> None:
    codes = {
        code
        for path in [*(ROOT / "service").rglob("*.py"), *READING]
        for code in CODE.findall(path.read_text(encoding="utf-8"))
    }
    cells = re.findall(r"^- \d+ (`.*?):", ERRORS, re.MULTILINE)
    assert codes - NEVER_SENT - IN_BATCHES == set(re.findall(r"`([a-z_]+)`", "".join(cells)))


def test_the_architecture_page_has_every_package() -> None:
    page = (ROOT / "docs" / "developers" / "architecture.md").read_text(encoding="utf-8")
    above = ("models", "service", *map("models/{}".format, WITH_PACKAGES), "service/embedwell")
    modules = (module for each in above for module in (ROOT / each).glob("*/*.py"))
    packages = {module.parent.relative_to(ROOT).as_posix() for module in modules}
    linked = set(re.findall(r"\]\(\.\./\.\./([\w/]+)\)", page)) | {"service/embedwell"}
    assert len(packages) > 30 and packages - linked == set()


class Axes:
    """A DenseVectorService that gives texts with the same first letter the same vector."""

    async def vectors(self, context: RequestContext, request: Any) -> tuple[list[Any], Floats]:
        if "" in request.inputs:
            raise BadRequest("it is empty", index=request.inputs.index(""))
        letters = [[text[0] == "a", text[0] == "b"] for text in request.inputs]
        return [], np.array(letters, dtype=np.float32)


class Registry:
    """A ModelRegistry of two models."""

    def choice(self, service: object, *offers: str) -> ModelChoice[Axes]:
        return ModelChoice(ServedNames(["axes"], ["others"]), [Axes(), Axes()])


@pytest.fixture(scope="module")
def nearest() -> DirectRoute:
    """The route of the example on the architecture page, for two models."""
    page = (ROOT / "docs" / "developers" / "architecture.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    module: dict[str, Any] = {"__name__": "nearest"}
    exec(compile(textwrap.dedent(block), "nearest.py", "exec"), module)
    (route,) = module["router"](Registry()).routes
    assert isinstance(route, DirectRoute)
    return route


def call(route: DirectRoute, **fields: Any) -> Any:
    assert route.body_type is not None
    body = route.body_type.model_validate(fields)
    endpoint: Any = route.endpoint(RequestContext("an id"), body)
    return asyncio.run(endpoint)


def test_the_example_endpoint_works(nearest: DirectRoute) -> None:
    expected = {"index": 1, "cosine": 1.0}
    assert call(nearest, query="a query", texts=["b", "an answer"]) == expected
    assert call(nearest, query="a query", texts=["b", "an answer"], model="others") == expected


def test_the_example_endpoint_names_what_is_at_fault(nearest: DirectRoute) -> None:
    for fields, param, index in (
        ({"query": "", "texts": ["a"]}, "query", None),
        ({"query": "a", "texts": ["a", ""]}, "texts", 1),
        ({"query": "a", "texts": ["a"], "model": "nobody"}, "model", None),
    ):
        with pytest.raises(ServiceError) as failed:
            call(nearest, **fields)
        assert (failed.value.param, failed.value.index) == (param, index)
    with pytest.raises(ValidationError, match="texts"):
        call(nearest, query="a", texts=[])


def test_the_example_of_a_family_is_the_file_that_is_compared_with_transformers() -> None:
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"^ *```python\n(.*?)^ *```", page, re.DOTALL | re.MULTILINE)
    assert textwrap.dedent(block) == Path(ernie.__file__).read_text(encoding="utf-8")
