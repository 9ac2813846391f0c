"""The errors of a request, each with its status and code.

ServiceError
├── BadRequest 400               invalid_request, unknown_prompt, …
│   ├── InputTooLong 400         input_too_long
│   └── NotOffered 400           not_offered
├── Unauthorized 401             invalid_api_key
├── Forbidden 403                host_not_allowed, origin_not_allowed (browsers only)
├── UnknownModel 404             model_not_found
├── NotFound 404                 not_found: the message lists the routes
├── WrongMethod 405              method_not_allowed (with Allow)
├── TooLarge 413                 body_too_large, too_many_parts, too_many_texts, …
├── Unsupported 415              unsupported_type, unsupported_encoding
├── Overloaded 429               overloaded (with Retry-After)
├── ClientDisconnected 499       client_gone (in metrics only)
├── InternalError 500            internal_error
├── EncodingFailed 500           encoding_failed
│   ├── NotFinite 500            not_finite
│   └── EngineCrash 500          engine_crash
├── UnknownTransferEncoding 501  unsupported_coding
├── EngineUnavailable 503        engine_unavailable (with Retry-After)
│   ├── EngineDied 503           engine_unavailable
│   └── EngineUnresponsive 503   engine_unavailable
├── ShuttingDown 503             shutting_down (with Retry-After)
├── TimedOut 504                 timeout (with Retry-After)
├── DiskFull 507                 disk_full
└── ConnectionClosed             (with Connection: close)
    ├── MalformedRequest 400     invalid_request
    ├── ReceiveTimeout 408       receive_timeout
    ├── HeadTooLarge 431         head_too_large
    ├── TooManyConnections 503   too_many_connections (with Retry-After)
    └── UnknownHttpVersion 505   unsupported_http_version
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import ClassVar

from embedwell_models.errors import InputError, TooLongError, TooManyTokensError, UnpairedTextError
from embedwell_models.outputs.names import DECISION, LABELS

Path = tuple[str | int, ...]
"""Field names and indices that lead to a part of a request."""


class ServiceError(Exception):
    """An error response.

    param: the field that caused the error.
    index: index of the input that caused the error.
    retry_after: seconds after which the client should try again.
    brief: the message without a long list, where a response repeats it; None: the message.
    """

    status = 500
    code = "internal_error"
    own_headers: ClassVar[Mapping[str, str]] = {}
    """Headers of every response of the class."""

    def __init__(
        self,
        message: str,
        *,
        code: str | None = None,
        param: str | None = None,
        index: int | None = None,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message)
        self.message, self.param, self.index = message, param, index
        self.retry_after = retry_after
        self.brief: str | None = None
        self.code = code or type(self).code
        self.headers: dict[str, str] = {}
        if retry_after is not None:
            self.headers["retry-after"] = str(max(1, round(retry_after)))
        self.headers |= self.own_headers

    def locate(self, path: Path) -> None:
        """Replace the index among all inputs of the request with the path to the input."""
        by_index = f"input {self.index}"
        by_path, self.param, self.index = describe_path(path)
        self.message = self.message.replace(by_index, by_path, 1)

    def name_field(self, fields: Iterable[str]) -> None:
        """Set the first of the fields of inputs that a request has, unless a field is set."""
        if self.param is None and (self.index is not None or self.code == "no_input"):
            self.param = next(iter(fields), None)

    def reindex(self, index: int) -> None:
        """Replace the index among some inputs with the index among all inputs."""
        self.message = self.message.replace(f"input {self.index}", f"input {index}", 1)
        self.index = index


class BadRequest(ServiceError):
    status, code = 400, "invalid_request"


class InputTooLong(BadRequest):
    """An input that is too long; the message of the response names what allows truncation."""

    code = "input_too_long"


class NotOffered(BadRequest):
    """A request that the model cannot answer.

    offered: outputs of the model, or its task; the message of the response names their routes.
    """

    code = "not_offered"

    def __init__(
        self,
        message: str,
        *,
        offered: Collection[str] = (),
        param: str | None = None,
        index: int | None = None,
    ) -> None:
        super().__init__(message, param=param, index=index)
        self.offered = offered

    @classmethod
    def by_embedder(cls, outputs: Collection[str]) -> "NotOffered":
        """Return the error of a model that neither reranks nor classifies."""
        if {DECISION, LABELS}.isdisjoint(outputs):
            return cls("this model only embeds texts", offered=["embed"])
        return cls("this model neither reranks nor classifies", offered=outputs)

    @classmethod
    def by_classifier(cls, reranks: bool) -> "NotOffered":
        """Return the error of a model that does not embed. reranks: or else it classifies."""
        if reranks:
            return cls("this model reranks and does not embed", offered=["rerank"])
        return cls("this model classifies and does not embed", offered=["classify"])

    @classmethod
    def vectors(cls, missing: str, offered: Collection[str]) -> "NotOffered":
        """Return the error of an embedder without some vectors. offered: those that it has."""
        return cls(f"this model has no {missing} vectors", offered=offered)

    @classmethod
    def by_listwise_reranker(cls) -> "NotOffered":
        """Return the error of a model that ranks lists, for labels of texts or pairs."""
        return cls(
            "this model ranks the documents of a query and labels no texts", offered=["rerank"]
        )

    @classmethod
    def single_text(cls, index: int) -> "NotOffered":
        """Return the error of a model that reads pairs only, for one text."""
        message = f"input {index} is one text, but the model reads a query and a document"
        return cls(message, offered=["rerank"], index=index)


class Unauthorized(ServiceError):
    status, code = 401, "invalid_api_key"
    own_headers: ClassVar = {"www-authenticate": "Bearer"}


class Forbidden(ServiceError):
    status, code = 403, "host_not_allowed"


class UnknownModel(ServiceError):
    status, code = 404, "model_not_found"


class NotFound(ServiceError):
    status, code = 404, "not_found"


class WrongMethod(ServiceError):
    status, code = 405, "method_not_allowed"

    def __init__(self, message: str, allowed: str) -> None:
        super().__init__(message)
        self.headers["allow"] = allowed


class ConnectionClosed(ServiceError):
    """An error that closes the connection, as the rest of the request may still arrive."""

    own_headers: ClassVar = {"connection": "close"}


class MalformedRequest(ConnectionClosed):
    status, code = 400, "invalid_request"


class ReceiveTimeout(ConnectionClosed):
    status, code = 408, "receive_timeout"


class HeadTooLarge(ConnectionClosed):
    status, code = 431, "head_too_large"


class TooManyConnections(ConnectionClosed):
    status, code = 503, "too_many_connections"


class UnknownHttpVersion(ConnectionClosed):
    status, code = 505, "unsupported_http_version"


class TooLarge(ServiceError):
    status, code = 413, "too_large"


class Unsupported(ServiceError):
    status, code = 415, "unsupported"

    def __init__(self, message: str, *, code: str, header: str, supported: str) -> None:
        """header: the name of the header that lists what is supported."""
        super().__init__(message, code=code)
        self.headers[header] = supported


class Overloaded(ServiceError):
    status, code = 429, "overloaded"


class ClientDisconnected(ServiceError):
    status, code = 499, "client_gone"  # nginx's status


class InternalError(ServiceError):
    """An error of the server; only the log has the details."""


class EncodingFailed(ServiceError):
    """An error that would occur again, so OpenAI's client must not retry it like other 500s."""

    status, code = 500, "encoding_failed"
    own_headers: ClassVar = {"x-should-retry": "false"}


class NotFinite(EncodingFailed):
    """A result that contains an infinity or NaN."""

    code = "not_finite"


class EngineCrash(EncodingFailed):
    """The engine crashes whenever it computes this input, so it is not tried again."""

    code = "engine_crash"


class UnknownTransferEncoding(ServiceError):
    """See https://www.rfc-editor.org/rfc/rfc9112#section-6.1"""

    status, code = 501, "unsupported_coding"


class EngineUnavailable(ServiceError):
    """No engine computes now: it is being loaded or replaced, or does not respond."""

    status, code = 503, "engine_unavailable"


class EngineDied(EngineUnavailable):
    """The engine died before a job was finished.

    computing: whether the job was in a running batch.
    """

    def __init__(self, *, computing: bool) -> None:
        super().__init__("the engine died; try again", retry_after=2)
        self.computing = computing


class EngineUnresponsive(EngineUnavailable):
    """The engine has made no progress for some seconds, and may be replaced soon."""


class ShuttingDown(ServiceError):
    status, code = 503, "shutting_down"


class TimedOut(ServiceError):
    status, code = 504, "timeout"


class DiskFull(ServiceError):
    status, code = 507, "disk_full"


_RESPONSES = {TooManyTokensError: TooLarge, TooLongError: InputTooLong}


def service_error(error: InputError) -> ServiceError:
    """Return the response to an error of reading the inputs."""
    if isinstance(error, UnpairedTextError):
        return NotOffered.single_text(error.index or 0)
    response = _RESPONSES.get(type(error), BadRequest)
    return response(str(error), code=error.code, param=error.param, index=error.index)


@contextmanager
def service_errors() -> Iterator[None]:
    """Raise errors of reading the inputs as responses."""
    try:
        yield
    except InputError as error:
        raise service_error(error) from None


@contextmanager
def reindexed(indices: Sequence[int]) -> Iterator[None]:
    """Raise errors of some inputs with their index among all inputs.

    indices: indices of the inputs among all.
    """
    try:
        yield
    except ServiceError as error:
        if error.index is not None:
            error.reindex(indices[error.index])
        raise


@contextmanager
def located(paths: Sequence[Path]) -> Iterator[None]:
    """Raise errors of some inputs with their path in the request.

    paths: paths of the inputs.
    """
    try:
        yield
    except ServiceError as error:
        if error.index is not None:
            error.locate(paths[error.index])
        raise


def describe_path(path: Path) -> tuple[str, str | None, int | None]:
    """Return the path as messages write it, its field, and the first index in it."""
    param = next((part for part in path if isinstance(part, str)), None)
    index = next((part for part in path if isinstance(part, int)), None)
    return ".".join(map(str, path)), param, index
