"""Format of log messages, the same in all processes."""

import contextlib
import json
import logging
import sys
import threading
import warnings
from datetime import UTC, datetime
from types import TracebackType
from typing import Literal

log = logging.getLogger(__name__)

LogFormat = Literal["text", "json"]

_TEXT = "%(asctime)s %(levelname)s %(name)s: %(message)s"
_FIELDS = ("request_id", "path", "status")  # fields that a message may have, by `extra`


class JsonFormatter(logging.Formatter):
    """Formats a message as a JSON object on one line, in ASCII."""

    def format(self, record: logging.LogRecord) -> str:
        fields = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "process": record.process,
            "message": record.getMessage(),
        }
        fields |= {name: vars(record)[name] for name in _FIELDS if name in vars(record)}
        if record.exc_info:
            fields["exception"] = self.formatException(record.exc_info)
        return json.dumps(fields)


def configure_logging(level: str, log_format: LogFormat) -> None:
    """Log messages of `level` and above to standard error."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonFormatter() if log_format == "json" else logging.Formatter(_TEXT))
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    for library in ("httpx", "uvicorn.error"):
        logging.getLogger(library).setLevel(logging.WARNING)
    warnings.filterwarnings("ignore", module="PIL")  # it warns of each part of a client's image
    if log_format == "json":  # no other handler may write lines of text
        logging.captureWarnings(True)
        sys.excepthook = _log_uncaught
        threading.excepthook = lambda args: _log_uncaught(
            args.exc_type, args.exc_value, args.exc_traceback
        )


def announce(message: str, level: int, log_format: LogFormat) -> None:
    """Write a message to the operator: as plain text, or as a JSON object if logs are JSON."""
    if log_format == "json":
        log.log(level, "%s", message.strip())
        return
    import click  # the engines announce nothing

    with contextlib.suppress(OSError):  # standard error can be closed
        click.echo(message, err=True)


def _log_uncaught(
    kind: type[BaseException], error: BaseException | None, traceback: TracebackType | None
) -> None:
    log.critical("uncaught exception", exc_info=(kind, error or kind(), traceback))
