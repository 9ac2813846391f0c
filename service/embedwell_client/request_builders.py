"""Build the requests of the Python clients, each with the parser of its response."""

import json
import logging
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any, Generic, TypedDict, TypeVar

import httpx
import numpy as np

from embedwell_client import responses
from embedwell_client.errors import RequestFailed, error_response, no_response, unreadable_response
from embedwell_client.options import AttemptResult
from embedwell_client.responses import Array, Neighbor, SparseWeights, TokenVectors

TextOrIds = str | Sequence[int]
"""A text or its token ids."""
ComparisonInput = str | Sequence[str] | Sequence[Sequence[float]] | Array
"""A text, texts, or vectors (B, dim)."""

A = TypeVar("A")
JSON, BYTES = "application/json", "application/octet-stream"

log = logging.getLogger(__name__)


class InputOptions(TypedDict, total=False):
    """Prompt and truncation of texts; see docs/inputs.md.

    model: name of one of the server's models.
    task: one of Jina's tasks; see docs/model-files.md.
    """

    model: str | None
    on_overflow: str | None
    prompt: str | None
    prompt_name: str | None
    input_type: str | None
    task: str | None


class EmbedOptions(InputOptions, total=False):
    """Options of /embed; see docs/output.md.

    late_chunking: the texts are the chunks of one document.
    muvera: one vector in place of a text's token vectors; see docs/multi-vector.md.
    """

    normalize: bool
    dimensions: int | None
    output_dtype: str
    late_chunking: bool
    muvera: Mapping[str, int] | None


class SparseOptions(InputOptions, total=False):
    """Options of /embed_sparse; see docs/sparse.md.

    top_k: return only so many of the largest weights.
    min_weight: return only weights of at least this value.
    """

    top_k: int | None
    min_weight: float


class TokensOptions(InputOptions, total=False):
    """Options of /tokens; see docs/tokens.md."""

    chunks: Sequence[Sequence[str]] | None
    layer: int | str | None
    spans: Sequence[Sequence[tuple[int, int]]] | None
    pooling: str
    normalize: bool
    output_dtype: str


class SimilarityOptions(InputOptions, total=False):
    """Options of /similarity.

    metric: cosine, dot, euclidean, manhattan or maxsim.
    mode: matrix or pairwise.
    """

    metric: str
    mode: str
    top_k: int | None


class SearchOptions(InputOptions, total=False):
    """Options of a search for neighbours.

    candidates: texts to search. Default: the words of a model that is a word table.
    """

    candidates: Sequence[str] | None
    k: int


class NeighborsOptions(SearchOptions, total=False):
    """Options of /neighbors.

    metric: cosine, dot or euclidean.
    """

    metric: str


class AnalogyOptions(SearchOptions, total=False):
    """Options of /analogy.

    method: 3CosAdd or 3CosMul.
    """

    method: str


class RerankOptions(TypedDict, total=False):
    """Options of /rerank; see docs/rerank.md.

    raw_scores: return logits instead of scores from 0 to 1.
    instruction: for a reranker that is a language model. Default: the model's instruction.
    """

    model: str | None
    top_n: int | None
    raw_scores: bool
    on_overflow: str | None
    instruction: str | None


@dataclass(frozen=True, slots=True)
class Request(Generic[A]):
    """A request, with the parser of its response.

    first_index, num_inputs: index of its first input among all inputs, and number of its inputs.
    """

    path: str
    parse: Callable[[httpx.Response], A]
    body: bytes = b""
    accept: str = JSON
    first_index: int = 0
    num_inputs: int = 0

    @property
    def method(self) -> str:
        return "POST" if self.body else "GET"

    @property
    def headers(self) -> dict[str, str]:
        return {"content-type": JSON, "accept": self.accept}

    def result(self, attempt: AttemptResult) -> A:
        """Read the response of an attempt; raises RequestFailed."""
        if isinstance(attempt, httpx.RequestError):
            raise no_response(attempt) from attempt
        if not attempt.is_success:
            raise error_response(attempt, self.first_index)
        try:
            return self.parse(attempt)
        except Exception as error:  # the response may be another program's
            raise unreadable_response(attempt, error) from error


def build_limits_request() -> Request[Mapping[str, int]]:
    return Request("/info", responses.limits)


def build_info_request() -> Request[dict[str, Any]]:
    return Request("/info", responses.content)


def build_embed_requests(
    inputs: list[TextOrIds], options: EmbedOptions, limits: Mapping[str, int], batch: int
) -> Iterator[Request[Array]]:
    """Split inputs into requests of at most `batch` texts, within the server's limits.

    limits: the limits in /info.
    """
    max_texts = min(batch, limits["max_texts"])
    # A token has at least one byte, and usually more.
    body_bytes = limits["max_body_bytes"] - len(_embed_body([], options))
    max_bytes = min(body_bytes, limits["max_tokens"])
    if options.get("late_chunking"):  # the chunks of a document are embedded together
        max_texts, max_bytes = len(inputs), sys.maxsize

    def parse(response: httpx.Response) -> Array:
        truncated = response.headers["x-truncated"]
        if truncated != "0" and options.get("on_overflow") is None:
            log.warning("truncated inputs: %s; see the option on_overflow", truncated)
        return responses.array(response)

    for first_index, items in _batches(inputs, max_texts, max_bytes):
        body = _embed_body(items, options)
        yield Request("/embed", parse, body, BYTES, first_index, len(items))


def _embed_body(inputs: Sequence[bytes], options: EmbedOptions) -> bytes:
    # The inputs are JSON already, because the size of a batch is measured in JSON.
    fields = [b'"inputs":[' + b",".join(inputs) + b"]"]
    fields += [dump(name) + b":" + dump(value) for name, value in options.items()]
    return b"{" + b",".join(fields) + b"}"


def build_tokens_request(
    texts: str | Sequence[str] | None, options: TokensOptions
) -> Request[list[TokenVectors]]:
    encoding = {"layout": "block", "encoding_format": "base64"}
    inputs = {} if texts is None else {"inputs": texts}
    return Request("/tokens", responses.tokens, dump({**inputs, **encoding, **options}))


def build_sparse_request(
    texts: list[TextOrIds], options: SparseOptions
) -> Request[list[SparseWeights]]:
    return Request("/embed_sparse", responses.sparse, dump({"inputs": texts, **options}))


def build_similarity_request(
    a: ComparisonInput, b: ComparisonInput, options: SimilarityOptions
) -> Request[Array]:
    return Request("/similarity", responses.scores, dump({"a": a, "b": b, **options}))


def build_rerank_request(
    query: str, documents: Sequence[str], options: RerankOptions
) -> Request[Array]:
    content = {"query": query, "documents": documents, **options}
    return Request("/rerank", responses.ranking, dump(content))


def build_neighbors_request(
    texts: str | Sequence[str], options: NeighborsOptions
) -> Request[list[list[Neighbor]]]:
    return Request("/neighbors", responses.neighbors, dump({"inputs": texts, **options}))


def build_analogy_request(
    positive: Sequence[str], negative: Sequence[str], options: AnalogyOptions
) -> Request[list[Neighbor]]:
    content = {"positive": positive, "negative": negative, **options}
    return Request("/analogy", responses.analogy, dump(content))


def build_doesnt_match_request(texts: Sequence[str], options: InputOptions) -> Request[str]:
    return Request("/doesnt_match", responses.odd_text, dump({"inputs": texts, **options}))


def build_positions_request(options: Mapping[str, Any]) -> Request[dict[str, Any]]:
    return Request("/positions", responses.arrays, dump(options))


def as_list(texts: TextOrIds | Iterable[TextOrIds]) -> list[Any]:
    """Return a list of inputs, also for a single text or row of ids.

    Raises TypeError for bytes and for anything else that has no items.
    """
    _refuse_bytes(texts, "")
    if not isinstance(texts, Iterable):
        raise TypeError(f"texts are a str or a list of str, not {texts!r:.99}")
    inputs = [texts] if isinstance(texts, str) else list(texts)
    for index, item in enumerate(inputs):
        _refuse_bytes(item, f"input {index}: ")
    return [inputs] if inputs and isinstance(inputs[0], Integral) else inputs


def dump(content: Any, index: int | None = None) -> bytes:
    """Serialise to JSON, including numpy's numbers and arrays.

    Raises RequestFailed for a lone surrogate, and for a number that is not finite.

    index: index of the input that is serialised.
    """
    try:
        return _ENCODER.encode(content).encode()
    except ValueError as error:
        subject = "the request" if index is None else f"input {index}"
        message = f"{subject} cannot be sent: {error}"
        raise RequestFailed(None, "invalid_request", message, index=index) from None


def _plain_numbers(value: object) -> object:
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    raise TypeError(f"a request cannot hold a {type(value).__name__}")


_ENCODER = json.JSONEncoder(
    ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=_plain_numbers
)


def _refuse_bytes(value: object, place: str) -> None:
    # Bytes are a sequence of integers, as token ids are.
    if isinstance(value, bytes | bytearray):
        raise TypeError(f"{place}bytes are neither a text nor token ids; decode them")


def _batches(
    inputs: Iterable[TextOrIds], max_texts: int, max_bytes: int
) -> Iterator[tuple[int, list[bytes]]]:
    """Split inputs into batches of JSON, each with the index of its first input."""
    first_index, size = 0, 0
    batch: list[bytes] = []
    for index, item in enumerate(inputs):
        item_json = dump(item, index)
        if batch and (len(batch) >= max_texts or size + len(item_json) > max_bytes):
            yield first_index, batch
            first_index, batch, size = index, [], 0
        batch.append(item_json)
        size += len(item_json) + 1  # the comma
    yield first_index, batch  # even an empty one, because the server's error explains the problem
