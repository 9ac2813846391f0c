"""Table of the jobs being computed, in shared memory that outlives the engine."""

import mmap
from typing import BinaryIO

_SLOTS = 4096
_BYTES = 4  # bytes of a slot


class RunningTextCounts:
    """Number of texts in running batches, for each job of one connection.

    The engine writes before and after a batch; the HTTP process reads when the connection is lost.
    Jobs whose numbers differ by a multiple of 4096 share a slot, so a waiting job may appear to
    run.
    """

    def __init__(self, memory: mmap.mmap) -> None:
        self._counts = memoryview(memory).cast("i")

    @classmethod
    def create(cls) -> tuple["RunningTextCounts", BinaryIO]:
        """Return an empty table, and the file by which the engine maps it; raises OSError."""
        from tempfile import TemporaryFile  # engines create no table

        file = TemporaryFile()  # noqa: SIM115
        try:
            # Allocate the pages: writing to a mapped hole on a full disk would kill the process.
            file.write(bytes(_SLOTS * _BYTES))
            file.flush()
            return cls.attach(file.fileno()), file
        except OSError:
            file.close()
            raise

    @classmethod
    def attach(cls, fd: int) -> "RunningTextCounts":
        """Map the table of a file descriptor, which may be closed afterwards."""
        return cls(mmap.mmap(fd, _SLOTS * _BYTES))

    def begin(self, number: int, texts: int = 1) -> None:
        """Count texts of a job whose batch begins."""
        self._counts[number % _SLOTS] += texts

    def end(self, number: int, texts: int = 1) -> None:
        """Count texts of a job whose batch has ended."""
        self._counts[number % _SLOTS] -= texts

    def __contains__(self, number: int) -> bool:
        return self._counts[number % _SLOTS] > 0
