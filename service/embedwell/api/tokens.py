"""POST /tokens and /embed_all: vectors of tokens after any layer, and of parts of a text."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from fastapi import APIRouter

from embedwell.api.body import input_list, text_list
from embedwell.api.model_choice import ModelChoice
from embedwell.api.openapi_responses import route_responses
from embedwell.api.router import Context, api_router
from embedwell.api.schemas.common import Matrix
from embedwell.api.schemas.tokens import TokensAnswer
from embedwell.api.token_results import (
    InputVectors,
    ResultFormat,
    chunk_vectors,
    only_ids_below,
    span_vectors,
    token_vectors,
)
from embedwell.api.tokens_request import EmbedAllRequest, TokensRequest
from embedwell.errors import BadRequest
from embedwell.inference.pipeline import Pipeline
from embedwell.inputs.chunks import ChunkedDocument
from embedwell.inputs.options import Input, InputOptions
from embedwell.inputs.spans import check_spans
from embedwell.inputs.tokenized_input import TokenizedInput
from embedwell.request.limits import check_response_numbers
from embedwell.request.request_context import RequestContext
from embedwell.request.run_in_thread import run_in_thread
from embedwell_models.config.encoder_config import EncoderConfig
from embedwell_models.vectors import Floats


@dataclass(frozen=True)
class TokenVectorService:
    """Computes token vectors for every API.

    max_values: maximum count of numbers in a response.
    """

    pipeline: Pipeline
    config: EncoderConfig
    max_values: int

    async def tokens(self, context: RequestContext, body: TokensRequest) -> Any:
        """Respond to /tokens."""
        layer = body.checked_layer(self.config)
        inputs = await self._input_vectors(context, body, layer)
        result_format = ResultFormat(
            body.layout == "block", body.normalize, body.output_dtype, body.encoding_format
        )
        if response := result_format.binary_response(context, inputs):
            return response
        results = [result_format.result(vectors, index) for index, vectors in enumerate(inputs)]
        return {"layer": layer, "dtype": body.output_dtype, "results": results}

    async def last_layer(
        self, context: RequestContext, inputs: Sequence[Input], options: InputOptions
    ) -> list[Floats]:
        """Compute the vectors of all tokens after the last layer: B arrays (T, D)."""
        rows = await self.pipeline.reader.read(context, inputs, options)
        states = await self._hidden_states(context, rows, self.config.num_layers)
        if not self.config.subwords:
            return states
        pairs = zip(rows, states, strict=True)
        return [vectors[np.asarray(row.ids) < self.config.vocab_size] for row, vectors in pairs]

    async def _input_vectors(
        self, context: RequestContext, body: TokensRequest, layer: int | str
    ) -> list[InputVectors]:
        if body.inputs is not None and body.chunks is None:
            return await self._text_vectors(context, text_list(body.inputs), body, layer)
        if body.chunks is None or body.inputs is not None:
            raise BadRequest("give either inputs or chunks, not both or neither", param="inputs")
        if body.spans is not None:
            raise BadRequest(
                "spans cannot be combined with chunks; give inputs instead of chunks", param="spans"
            )
        return await self._chunk_vectors(context, body.chunks, body, layer)

    async def _text_vectors(
        self, context: RequestContext, texts: list[str], body: TokensRequest, layer: int | str
    ) -> list[InputVectors]:
        if body.spans is not None:
            check_spans(body.spans, texts)
            values = sum(map(len, body.spans)) * self.config.hidden_size
            check_response_numbers(values, self.max_values)
            context.memory.grow_by_numbers(values)
        rows, tokens = await self.pipeline.reader.read_with_tokens(
            context, texts, body.options_without_windows()
        )
        states = await self._hidden_states(context, rows, layer)
        read_texts = list(zip(texts, rows, tokens, states, strict=True))
        if self.config.subwords or self.config.unknown_id is not None:
            # A word with several ids is returned as one token.
            limit = self.config.vocab_size if body.spans is None else self.config.num_vectors
            read_texts = [only_ids_below(limit, read) for read in read_texts]
        if body.spans is None:
            in_vocabulary = self.pipeline.reader.tokenizer.in_vocabulary
            return [token_vectors(read, in_vocabulary) for read in read_texts]
        # Thousands of spans would block the event loop.
        pool_spans = partial(span_vectors, read_texts, body.spans, body.pooling)
        return await run_in_thread(pool_spans, small=False)

    async def _chunk_vectors(
        self,
        context: RequestContext,
        chunks: list[list[str]],
        body: TokensRequest,
        layer: int | str,
    ) -> list[InputVectors]:
        if self.config.subwords:
            message = (
                "this model does not support chunks, because its words have several ids; send "
                "inputs and spans"
            )
            raise BadRequest(message, code="not_offered", param="chunks")
        size = sum(len(text) for texts in chunks for text in texts)
        options, documents = body.options_without_windows(), []
        for index, texts in enumerate(chunks):
            documents.append(await self._read_document(context, index, texts, options, size))
            self._check_values(context)
        if not documents:
            raise BadRequest(
                "chunks is empty; give at least one text", code="no_input", param="chunks"
            )
        states = await self._hidden_states(context, [document.row for document in documents], layer)
        return [
            chunk_vectors(index, document, vectors, body.pooling)
            for index, (document, vectors) in enumerate(zip(documents, states, strict=True))
        ]

    async def _read_document(
        self,
        context: RequestContext,
        index: int,
        chunks: list[str],
        options: InputOptions,
        size: int,
    ) -> ChunkedDocument:
        try:
            return await self.pipeline.reader.read_chunks(context, chunks, options, size)
        except BadRequest as error:
            if (
                error.param is None
            ):  # the index is the chunk's, but the client's inputs are documents
                error.param, error.index = "chunks", index
            raise

    async def _hidden_states(
        self, context: RequestContext, rows: list[TokenizedInput], layer: str | int
    ) -> list[Floats]:
        self._check_values(context)
        context.memory.grow_by_numbers(context.tokens * self.config.hidden_size)
        return await self.pipeline.hidden(context, rows, layer)

    def _check_values(self, context: RequestContext) -> None:
        check_response_numbers(context.tokens * self.config.hidden_size, self.max_values)


def router(models: ModelChoice[TokenVectorService]) -> APIRouter:
    """Create the routes of this module."""
    routes = api_router("tokens")

    @routes.post(
        "/tokens",
        summary="Token vectors",
        response_model=TokensAnswer,
        responses=route_responses(binary=True),
        name="tokens",
    )
    async def tokens(context: Context, body: TokensRequest) -> Any:
        return await models.choose(body.model, body.task).tokens(context, body)

    @routes.post(
        "/embed_all",
        summary="Embed tokens (TEI)",
        response_model=list[Matrix],
        responses=route_responses(),
    )
    async def embed_all(context: Context, body: EmbedAllRequest) -> Any:
        service = models.choose(body.model, body.task)
        return await service.last_layer(
            context, input_list(body.inputs), body.options_without_windows()
        )

    return routes
