"""Compile the kernels for each instruction set; without a compiler the package does without.

`python hatch_build.py [ISA]...` compiles them, or those of some instruction sets, in this checkout,
and the threads that they share.
"""

import hashlib
import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Collection
from pathlib import Path
from typing import Any, TextIO

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

KERNELS = "models/embedwell_models/kernels"
SOURCES = ["encoder.cpp", "linear.cpp"]
FLAGS = [
    *["-std=c++17", "-O2", "-shared", "-fPIC", "-ffp-contract=off", "-fno-math-errno"],
    *["-Wall", "-Wextra", "-Werror=switch", "-Wno-psabi", "-Wno-maybe-uninitialized"],
    "-Wno-unknown-warning-option",  # clang does not know the one before
]
THREADS = "libthreads.so"
THREAD_SOURCES, THREAD_FLAGS = ["thread_pool.cpp"], ["-pthread"]  # for every x86-64
LOG = "compile.log"  # beside the sources: pip shows nothing that a build writes
ISAS = {  # the names that models/embedwell_models/cpu_backend/library.py knows
    "avx2": ["-march=x86-64-v3"],
    "avxvnni": ["-march=x86-64-v3", "-mavxvnni"],
    "avx512": ["-march=x86-64-v4"],
    "vnni": ["-march=x86-64-v4", "-mavx512vnni"],
    "bf16": ["-march=x86-64-v4", "-mavx512vnni", "-mavx512bf16"],
    "amx": [
        *["-march=x86-64-v4", "-mavx512vnni", "-mavx512bf16"],
        *["-mamx-tile", "-mamx-int8", "-mamx-bf16"],
    ],
}


MANYLINUX = {b"GLIBC": (2, 28), b"GLIBCXX": (3, 4, 24), b"CXXABI": (1, 3, 11)}
"""The newest symbols of system libraries that a manylinux_2_28 wheel may need (PEP 600)."""


class Compile(BuildHookInterface[Any]):
    """Adds the libraries to the wheel, which then is for Linux on x86-64 alone.

    They are loaded by ctypes, so the wheel is for every version of Python.
    """

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        built = compile_kernels(Path(self.root) / KERNELS)
        if built:
            build_data["artifacts"] += [f"{KERNELS}/{library}" for library in built]
            build_data["pure_python"] = False
            build_data["tag"] = f"py3-none-{platform_tag(Path(self.root) / KERNELS, built)}"
        if missing := {*libraries()} - {*built}:
            self.app.display_warning(
                f"{KERNELS}: {', '.join(sorted(missing))} not compiled (see {KERNELS}/{LOG}); "
                "where none fits the processor, encoders run on torch alone"
            )


def platform_tag(folder: Path, libraries: Collection[str]) -> str:
    """The platform of a wheel with these libraries, by the symbols that they need."""
    for library in libraries:
        content = (folder / library).read_bytes()
        for name, digits in re.findall(rb"\0(GLIBC|GLIBCXX|CXXABI)_([0-9.]+)(?=\0)", content):
            if tuple(map(int, digits.split(b"."))) > MANYLINUX[name]:
                return "linux_x86_64"
    return "manylinux_2_28_x86_64"


def libraries(isas: Collection[str] = ISAS) -> list[str]:
    """The names of the libraries for some instruction sets."""
    return [*(f"libencoder-{isa}.so" for isa in isas), THREADS]


def compiler() -> list[str] | None:
    """The command of CXX, or of the first C++ compiler that this machine has."""
    chosen = shlex.split(os.environ.get("CXX", ""))
    for command in [chosen] if chosen else [["c++"], ["g++"], ["clang++"]]:
        if path := shutil.which(command[0]):
            return [path, *command[1:]]
    return None


def source_checksum(folder: Path) -> int:
    """The checksum of the sources, as models/embedwell_models/cpu_backend/abi.py compares it."""
    sources = (path.read_bytes() for path in sorted(folder.glob("*.[ch]*")))
    return int(hashlib.sha256(b"".join(sources)).hexdigest()[:15], 16)


def compile_kernels(folder: Path, isas: Collection[str] = ISAS) -> list[str]:
    """Compile them side by side; the names of the libraries that were built.

    What the compiler says is in the log, as is why there is nothing to compile.
    """
    command = compiler()
    with (folder / LOG).open("w", encoding="utf-8") as log:
        if sys.platform != "linux" or platform.machine() != "x86_64":
            log.write("the kernels are for Linux on x86-64\n")
            return []
        if command is None:
            log.write("there is no C++ compiler: c++, g++ or clang++\n")
            return []
        command += [*FLAGS, f"-DSOURCE_CHECKSUM={source_checksum(folder)}"]
        # A compiler too old for an instruction set fails on it alone.
        arguments = [*([*ISAS[isa], *SOURCES] for isa in isas), [*THREAD_FLAGS, *THREAD_SOURCES]]
        jobs = [
            _Job(folder, [*command, *more], library)
            for more, library in zip(arguments, libraries(isas), strict=True)
        ]
        return [job.library for job in jobs if job.succeeds(log)]


class _Job:
    def __init__(self, folder: Path, command: list[str], library: str) -> None:
        self.library = library
        self._library, self._new = folder / self.library, folder / f"{self.library}.new"
        self._command = [*command, "-o", self._new.name]
        self._process = subprocess.Popen(
            self._command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )

    def succeeds(self, log: TextIO) -> bool:
        """Wait for it, and write what the compiler said."""
        output, _ = self._process.communicate()
        log.write(f"{shlex.join(self._command)}\n{output}exit status {self._process.returncode}\n")
        if self._process.returncode:
            self._library.unlink(missing_ok=True)  # of an older version
            return False
        self._new.replace(self._library)  # at once: a server may be starting
        return True


if __name__ == "__main__":
    folder = Path(__file__).parent / KERNELS
    chosen = sys.argv[1:] or [*ISAS]
    if unknown := {*chosen} - {*ISAS}:
        sys.exit(f"no instruction set {min(unknown)}; there are {', '.join(ISAS)}")
    if compile_kernels(folder, chosen) != libraries(chosen):
        sys.exit((folder / LOG).read_text(encoding="utf-8"))
