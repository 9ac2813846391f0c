"""Everything that can go wrong with a request.

ServiceError
├── BadRequest 400          invalid_request, unknown_prompt, input_too_long, …
├── Unauthorized 401        invalid_api_key
├── Forbidden 403           host_not_allowed, origin_not_allowed: of a browser's request
├── UnknownModel 404        model_not_found
├── NotFound 404            not_found: lists what there is
├── WrongMethod 405         method_not_allowed (with Allow)
├── TooLarge 413            body_too_large, too_many_parts, too_many_texts, …
├── Unsupported 415         unsupported_type, unsupported_encoding
├── Overloaded 429          overloaded (with Retry-After)
├── ClientDisconnected 499              client_gone; only metrics see it
├── Unexpected 500          internal_error: a fault of ours
├── EncodingFailed 500      encoding_failed
│   ├── NotFinite 500       not_finite
│   └── EngineCrash 500     engine_crash
├── UnknownTransferEncoding 501       unsupported_coding
├── EngineLost 503          engine_unavailable (with Retry-After)
│   └── EngineDied 503      the same, of a job that an engine had when it died
├── ShuttingDown 503             shutting_down (with Retry-After)
├── TimedOut 504            timeout (with Retry-After)
└── ConnectionClosed                     the connection is closed, too
    ├── MalformedRequest 400       invalid_request: no HTTP
    ├── ReceiveTimeout 408  receive_timeout
    ├── HeadTooLarge 431    head_too_large
    └── TooManyConnections 503
"""

_INPUTS = {"input", "inputs", "texts", "ids", "a", "b", "chunks", "spans"}
"""The fields with an entry for each input."""

Path = tuple[str | int, ...]
"""Fields and indices, from a request to a part of it."""


class ServiceError(Exception):
    """An answer other than the one asked for.

    param: the field at fault. index: which of the inputs. retry: seconds after which to try again.
    """

    status = 500
    code = "internal_error"

    def __init__(
        self,
        message: str,
        *,
        code: str | None = None,
        param: str | None = None,
        index: int | None = None,
        retry: float | None = None,
    ) -> None:
        super().__init__(message)
        self.message, self.param, self.index, self.retry = message, param, index, retry
        self.code = code or type(self).code
        self.headers = {} if retry is None else {"retry-after": str(max(1, round(retry)))}

    def locate(self, path: Path) -> None:
        """Name the input, until now one of several by its index, by its place in the request."""
        told = f"input {self.index}"
        where, self.param, self.index = place(path)
        self.message = self.message.replace(told, where, 1)


class BadRequest(ServiceError):
    status, code = 400, "invalid_request"


class Unauthorized(ServiceError):
    status, code = 401, "invalid_api_key"

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.headers["www-authenticate"] = "Bearer"


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
    """The end of the connection, too: the rest of the request may come yet."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.headers["connection"] = "close"


class MalformedRequest(ConnectionClosed):
    status, code = 400, "invalid_request"


class ReceiveTimeout(ConnectionClosed):
    status, code = 408, "receive_timeout"


class HeadTooLarge(ConnectionClosed):
    status, code = 431, "head_too_large"


class TooManyConnections(ConnectionClosed):
    status, code = 503, "too_many_connections"

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.headers["retry-after"] = "1"


class TooLarge(ServiceError):
    status, code = 413, "too_large"


class Unsupported(ServiceError):
    status, code = 415, "unsupported"

    def __init__(self, message: str, *, code: str, header: str, supported: str) -> None:
        """header: that tells what is supported."""
        super().__init__(message, code=code)
        self.headers[header] = supported


class Overloaded(ServiceError):
    status, code = 429, "overloaded"


class ClientDisconnected(ServiceError):
    status, code = 499, "client_gone"  # nginx's number for it


class Unexpected(ServiceError):
    """What nobody expected: clients are not told what it was, the log is."""


class EncodingFailed(ServiceError):
    """The same input would fail again: OpenAI's client, which tries each 500 again, is told so."""

    status, code = 500, "encoding_failed"

    def __init__(self, message: str, *, param: str | None = None, index: int | None = None) -> None:
        super().__init__(message, param=param, index=index)
        self.headers["x-should-retry"] = "false"


class NotFinite(EncodingFailed):
    """A number that JSON has no word for, and no other answer should have."""

    code = "not_finite"


class EngineCrash(EncodingFailed):
    """The engine's process ends whenever it computes this input, so it is not tried again."""

    code = "engine_crash"


class UnknownTransferEncoding(ServiceError):
    """Of the transfer: https://www.rfc-editor.org/rfc/rfc9112#section-6.1"""

    status, code = 501, "unsupported_coding"


class EngineLost(ServiceError):
    status, code = 503, "engine_unavailable"


class EngineDied(EngineLost):
    """The engine died before it answered. computing: whether the job was in a running pass."""

    def __init__(self, *, computing: bool) -> None:
        super().__init__("the engine died; try again", retry=2)
        self.computing = computing


class ShuttingDown(ServiceError):
    status, code = 503, "shutting_down"


class TimedOut(ServiceError):
    status, code = 504, "timeout"


def place(path: Path) -> tuple[str, str | None, int | None]:
    """How a message names a part of a request, the field it is in, and which input it is."""
    param = next((part for part in path if isinstance(part, str)), None)
    index = next((part for part in path if isinstance(part, int)), None)
    return ".".join(map(str, path)), param, index if param in _INPUTS else None
