"""Log the start of a download, and its size and duration at the end."""

import logging
import time
from collections.abc import Callable
from pathlib import Path

log = logging.getLogger(__name__)


def log_fetch(model: str, fetch: Callable[[], Path]) -> Path:
    """Call `fetch`, which returns the folder with all files of the model, and return the folder."""
    log.info("%s is being fetched", model)
    start = time.monotonic()
    folder = fetch()
    sizes = [path.stat().st_size for path in folder.rglob("*") if path.is_file()]
    megabytes, seconds = sum(sizes) / 1e6, time.monotonic() - start
    log.info(
        "%s is fetched: %d files, %.1f MB, after %.1f s", model, len(sizes), megabytes, seconds
    )
    return folder
