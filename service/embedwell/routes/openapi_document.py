"""The OpenAPI document, and the page /docs that shows it."""

import contextlib
import functools
import gzip
import re
from base64 import b64encode
from hashlib import sha256
from pathlib import Path

import orjson
from fastapi import APIRouter, FastAPI, Request, Response
from fastapi.openapi.utils import get_openapi
from starlette.responses import HTMLResponse
from starlette.routing import Route

from embedwell.routes.code_samples import EXTENSION, code_sample, curl
from embedwell.routes.common.openapi_responses import OpenAPIObject, components
from embedwell.routes.common.router import DirectRoute, with_traits

# FastAPI's own page loads its scripts from a CDN, so it is empty without internet access.
_DOCS_PAGE = (Path(__file__).parent / "docs.html").read_text(encoding="utf-8")
TAGS = {  # in their order on the page
    "embed": "Dense, sparse and multi-vector embeddings of texts and images.",
    "compare": "Similarities of two lists of texts, nearest neighbours, and analogies.",
    "rerank": "The relevance of documents to a query.",
    "classify": "Labels of texts and of text pairs.",
    "decide": "Probabilities of the answers to typed questions about a text.",
    "tokens": "Token ids, the vector of each token, and the position encodings of models.",
    "batches": "Files of many requests that the server answers later, in OpenAI's format.",
    "OpenAI": "Routes for clients of OpenAI and of Azure.",
    "Cohere": "Routes for clients of Cohere.",
    "Ollama": "Routes for clients of Ollama.",
    "Weaviate": "The route of Weaviate's module for embeddings.",
    "status": "Health checks, metrics, the description of the model, and models on demand.",
}


def _inline_source(tag: str) -> str:
    """Return the source of a content security policy that allows the page's only `tag`."""
    [content] = re.findall(f"<{tag}>(.*?)</{tag}>", _DOCS_PAGE, re.DOTALL)
    return f"'sha256-{b64encode(sha256(content.encode()).digest()).decode()}'"


_DOCS_HEADERS = {
    "content-security-policy": (
        f"default-src 'none'; script-src {_inline_source('script')}; "
        f"style-src {_inline_source('style')}; connect-src 'self'; base-uri 'none'; "
        "form-action 'none'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
}


def router(_: object) -> APIRouter:
    """Create the routes /docs and /openapi.json."""
    routes = with_traits(APIRouter(route_class=DirectRoute), without_key=True)

    @functools.cache
    def document_bytes(app: FastAPI, compressed: bool) -> bytes:
        # Serialising the document takes longer than embedding hundreds of short texts.
        return (
            gzip.compress(document_bytes(app, False)) if compressed else orjson.dumps(app.openapi())
        )

    @routes.get("/docs", include_in_schema=False)
    async def docs() -> HTMLResponse:
        return HTMLResponse(_DOCS_PAGE, headers=_DOCS_HEADERS)

    @routes.get("/openapi.json", include_in_schema=False)
    def openapi(request: Request) -> Response:  # in a thread: the first document takes a second
        compressed = "gzip" in request.headers.get("accept-encoding", "")
        headers = {"vary": "accept-encoding"} | ({"content-encoding": "gzip"} if compressed else {})
        content = document_bytes(request.app, compressed)
        return Response(content, media_type="application/json", headers=headers)

    return routes


def openapi_document(app: FastAPI) -> OpenAPIObject:
    """Build FastAPI's document, with the components to which the documented responses refer.

    A setting decides whether routes require a key, so they are documented as working with and
    without one. Status 422 is removed, because an invalid request gets status 400.
    """
    routes = [
        route.of_fastapi if isinstance(route, DirectRoute) else route
        for route in app.routes
        if isinstance(route, Route) and route.include_in_schema
    ]
    document = get_openapi(
        title=app.title, version=app.version, description=app.description, routes=routes
    )
    shared = components()
    schemas = document["components"]["schemas"] | shared["schemas"]
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            responses = operation["responses"]
            responses.pop("422", None)
            operation["security"] = [{}, {"key": []}] if "401" in responses else []
            if EXTENSION not in operation:
                with contextlib.suppress(LookupError):  # another package's, without examples
                    operation.update(code_sample(curl(method, path, operation, schemas)))
    _describe_query(document["paths"]["/positions"]["get"], schemas["PositionsRequest"])
    tags = [{"name": name, "description": text} for name, text in TAGS.items()]
    unused = ("HTTPValidationError", "ValidationError")
    shared["schemas"] = {name: schemas[name] for name in sorted(schemas) if name not in unused}
    return {**document, "tags": tags, "components": shared}


def _describe_query(operation: OpenAPIObject, body: OpenAPIObject) -> None:
    """Describe the parameters of a query like the fields of a body that have the same names."""
    for parameter in operation["parameters"]:
        if parameter["in"] == "query":
            parameter["description"] = body["properties"][parameter["name"]]["description"]
