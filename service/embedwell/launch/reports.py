"""Reports of a process to its supervisor: lines of JSON on its standard output."""

import asyncio
import contextlib
import logging
import os
from collections.abc import Callable
from typing import Any

import orjson

log = logging.getLogger(__name__)

Report = dict[str, Any]  # it has the name of the event as "event"


class ReportReader:
    """Opens a pipe, and calls back for each report from it, on the running event loop."""

    def __init__(self, on_report: Callable[[Report], None]) -> None:
        self._on_report, self._incomplete = on_report, b""
        self._end, self.write_end = os.pipe()
        os.set_blocking(self._end, False)
        asyncio.get_running_loop().add_reader(self._end, self._read)

    def close(self) -> None:
        """Read the remaining reports, and close the pipe."""
        with contextlib.suppress(BlockingIOError):
            while self._read():
                continue
        asyncio.get_running_loop().remove_reader(self._end)
        os.close(self._end)

    def _read(self) -> bool:
        data = os.read(self._end, 1 << 16)
        if not data:
            asyncio.get_running_loop().remove_reader(self._end)
        *lines, self._incomplete = (self._incomplete + data).split(b"\n")
        for line in lines:
            try:
                message = orjson.loads(line)
            except orjson.JSONDecodeError:  # it was printed by a library
                log.info("%s", line.decode(errors="replace"))
            else:
                self._on_report(message)
        return bool(data)
