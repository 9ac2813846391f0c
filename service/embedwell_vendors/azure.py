"""POST /openai/deployments/NAME/embeddings and other paths of OpenAI's API on Azure."""

from typing import Annotated, Any, get_args

from fastapi import APIRouter, Request, Response
from pydantic import BeforeValidator

from embedwell.http.error_responses import OPENAI
from embedwell.routes.common.options import InputType
from embedwell.routes.common.response_body import BinaryResponse, fastapi_response
from embedwell.routes.common.router import (
    RequestDep,
    api_router,
    errors_completed,
    read_body,
    request_context,
)
from embedwell.routes.common.server_state import ServerState
from embedwell.routes.embed import EmbedService
from embedwell.routes.models import Models, model_list
from embedwell.routes.openai import OpenAIResponse
from embedwell_models.outputs.names import DENSE, MULTI
from embedwell_vendors.embeddings import EmbeddingsRequest


def _known_or_null(value: Any) -> Any:
    return None if isinstance(value, str) and value not in get_args(InputType) else value


class AzureRequest(EmbeddingsRequest):
    """Request body of /v1/embeddings, with any `input_type`: on Azure some are of other APIs."""

    input_type: Annotated[InputType | None, BeforeValidator(_known_or_null)] = None


def router(server: ServerState) -> APIRouter:
    """Create the undocumented routes below /openai; the query `api-version` is ignored."""
    models = server.choice(EmbedService, DENSE, MULTI)
    routes = api_router("OpenAI", error_format=OPENAI, base_path="/openai/")

    @routes.post("/openai/v1/embeddings", include_in_schema=False)
    async def azure_embeddings(
        context: RequestDep, body: AzureRequest
    ) -> OpenAIResponse | BinaryResponse:
        return await body.respond(context, models)

    @routes.post("/openai/deployments/{name:path}/embeddings", include_in_schema=False)
    async def deployment(request: Request) -> Response:
        context, name = request_context(request), request.path_params["name"]
        models.choose_with_role(name)  # before the body is read
        body = await read_body(AzureRequest, context, request.receive)
        named = body.model_copy(update={"model": name})
        with errors_completed(body):
            content = await named.respond(context, models)
        return await fastapi_response(context, content)

    @routes.get("/openai/v1/models", include_in_schema=False)
    @routes.get("/openai/models", include_in_schema=False)
    async def azure_models() -> Models:
        return model_list(server, server.started)

    return routes
