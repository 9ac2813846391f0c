"""The jobs whose texts are being computed: memory that an engine's death leaves readable."""

import mmap
from tempfile import TemporaryFile
from typing import BinaryIO

_SLOTS = 4096
_BYTES = 4  # of a slot


class RunningJobs:
    """How many texts of each job of one connection are in running passes.

    The engine writes before and after a pass, the HTTP process reads when the connection is lost.
    Two jobs whose numbers are a multiple of 4096 apart share a slot: one of them may then seem to
    run that only waits.
    """

    def __init__(self, memory: mmap.mmap) -> None:
        self._counts = memoryview(memory).cast("i")

    @classmethod
    def create(cls) -> tuple["RunningJobs", BinaryIO]:
        """An empty table, and the file with which the engine maps it; raises OSError."""
        file = TemporaryFile()  # noqa: SIM115
        try:
            # Not a hole: to write to one through a map, where the disk is full, ends the process.
            file.write(bytes(_SLOTS * _BYTES))
            file.flush()
            return cls.attach(file.fileno()), file
        except OSError:
            file.close()
            raise

    @classmethod
    def attach(cls, file: int) -> "RunningJobs":
        """The table behind a descriptor, which may be closed afterwards."""
        return cls(mmap.mmap(file, _SLOTS * _BYTES))

    def begin(self, number: int) -> None:
        """Count a text of a job whose pass begins."""
        self._counts[number % _SLOTS] += 1

    def end(self, number: int) -> None:
        """Count a text of a job whose pass has ended."""
        self._counts[number % _SLOTS] -= 1

    def __contains__(self, number: int) -> bool:
        return self._counts[number % _SLOTS] > 0
