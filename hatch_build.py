"""Compile the kernels for each instruction set; without a compiler the package does without.

`python hatch_build.py [ISA]...` compiles them, or those of some instruction sets, in this checkout,
and the threads that they share. With KERNELS=best in the environment, pip compiles those that this
processor runs, which takes less time; with KERNELS=compiled none, and takes those of this checkout.
"""

import hashlib
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.metadata.plugin.interface import MetadataHookInterface

KERNELS = "models/embedwell_models/kernels"
SOURCES = ["encoder.cpp", "linear.cpp"]
FLAGS = [
    *["-std=c++17", "-O2", "-shared", "-fPIC", "-ffp-contract=off", "-fno-math-errno"],
    *["-Wall", "-Wextra", "-Werror=switch", "-Wno-psabi", "-Wno-maybe-uninitialized"],
    "-Wno-unknown-warning-option",  # clang does not know the one before
]
THREADS = "libthreads.so"
THREAD_SOURCES, THREAD_FLAGS = ["thread_pool.cpp"], ["-pthread"]  # for every processor
LOG = "compile.log"  # next to the sources: pip shows nothing that a build writes
X86 = {  # the names that models/embedwell_models/cpu_backend/library.py knows
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
ARM = {
    "neon": ["-march=armv8-a"],
    "dotprod": ["-march=armv8.2-a+dotprod"],
    "mmla": ["-march=armv8.2-a+dotprod+i8mm+bf16"],
}
TARGETS: Mapping[str, Mapping[str, list[str]]] = {  # the instruction sets, by system and processor
    "linux_x86_64": X86,
    "linux_aarch64": ARM,
    "macosx_arm64": {isa: [*flags, "-mmacosx-version-min=11.0"] for isa, flags in ARM.items()},
}

MANYLINUX = {b"GLIBC": (2, 28), b"GLIBCXX": (3, 4, 24), b"CXXABI": (1, 3, 11)}
"""The newest symbols of system libraries that a manylinux_2_28 wheel may need (PEP 600)."""


class Readme(MetadataHookInterface):
    """The description that an index shows: README.md, with links into the repository."""

    def update(self, metadata: dict[str, Any]) -> None:
        repository = metadata["urls"]["Repository"]
        if ".example/" in repository and "Private :: Do Not Upload" not in metadata["classifiers"]:
            raise ValueError(f"pyproject.toml: {repository} stands for the project's own URL")
        text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        text = with_absolute_links(text, repository, f"v{metadata['version']}")
        metadata["readme"] = {"content-type": "text/markdown", "text": text}


def with_absolute_links(text: str, repository: str, tag: str) -> str:
    """Replace the relative links of a page at the top of the repository, and those of pictures."""

    def replace(match: re.Match[str]) -> str:
        view = "raw" if match[0].startswith("!") else "blob"
        return f"{match[1]}({repository}/{view}/{tag}/{match[2]})"

    return re.sub(r"(!?\[[^\]]*\])\((?!\w+:|#)([^)\s]+)\)", replace, text)


class Compile(BuildHookInterface[Any]):
    """Adds the libraries to the wheel, which then is for the compiler's target alone.

    They are loaded by ctypes, so the wheel is for every version of Python.
    """

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        wheel_target = target(compiler())
        every = [*TARGETS.get(wheel_target, X86)]
        isas = best_isas(every, Path(self.root)) if os.environ.get("KERNELS") == "best" else every
        folder = Path(self.root) / KERNELS
        if os.environ.get("KERNELS") == "compiled":
            built = [name for name in libraries(isas) if (folder / name).exists()]
        else:
            if wheel_target in TARGETS:
                self.app.display_info(  # shown by `pip install -v` and build, but not by pip alone
                    f"Compiling the kernels for {', '.join(isas)}, {processor_count()} at a time: "
                    "each takes half a minute"
                )
            built = compile_kernels(folder, isas)
        if built:
            build_data["artifacts"] += [f"{KERNELS}/{library}" for library in built]
            build_data["pure_python"] = False
            tag = platform_tag(folder, built, wheel_target)
            build_data["tag"] = f"py3-none-{tag}"
        if missing := {*libraries(isas)} - {*built}:
            self.app.display_warning(
                f"{KERNELS}: {', '.join(sorted(missing))} not compiled (see {KERNELS}/{LOG}); "
                "where none fits the processor, encoders run on torch alone"
            )


def best_isas(isas: Collection[str], root: Path) -> list[str]:
    """The best two of some instruction sets that this processor has; all if it has none.

    The second is for compilers and systems that lack the first.
    """
    sys.path.insert(0, str(root / "models"))
    from embedwell_models.cpu_backend import library  # which needs no other package

    available = library.features()
    best = [isa for isa, needed in library.ISAS.items() if needed <= available and isa in isas]
    return best[:2] or [*isas]


def platform_tag(folder: Path, libraries: Collection[str], target: str) -> str:
    """The platform of a wheel with these libraries, by the symbols that they need."""
    if target == "macosx_arm64":
        return "macosx_11_0_arm64"
    for library in libraries:
        content = (folder / library).read_bytes()
        for name, digits in re.findall(rb"\0(GLIBC|GLIBCXX|CXXABI)_([0-9.]+)(?=\0)", content):
            if tuple(map(int, digits.split(b"."))) > MANYLINUX[name]:
                return target
    return target.replace("linux", "manylinux_2_28")


def libraries(isas: Collection[str]) -> list[str]:
    """The names of the libraries for some instruction sets."""
    return [*(f"libencoder-{isa}.so" for isa in isas), THREADS]


def compiler() -> list[str] | None:
    """The command of CXX, or of the first C++ compiler that this machine has."""
    chosen = shlex.split(os.environ.get("CXX", ""))
    for command in [chosen] if chosen else [["c++"], ["g++"], ["clang++"]]:
        if path := shutil.which(command[0]):
            return [path, *command[1:]]
    return None


def target(command: list[str] | None) -> str:
    """The system and the processor that a compiler compiles for, as in TARGETS; "" without one."""
    if command is None:
        return ""
    done = subprocess.run([*command, "-dumpmachine"], capture_output=True, text=True, check=False)
    processor, *rest = done.stdout.strip().split("-")
    system = "macosx" if "apple" in rest else next((name for name in rest if name == "linux"), "")
    return f"{system}_{processor}"


def source_checksum(folder: Path) -> int:
    """The checksum of the sources, as models/embedwell_models/cpu_backend/abi.py compares it."""
    sources = (path.read_bytes() for path in sorted(folder.glob("*.[ch]*")))
    return int(hashlib.sha256(b"".join(sources)).hexdigest()[:15], 16)


def compile_kernels(folder: Path, isas: Collection[str] = ()) -> list[str]:
    """Compile them, as many at a time as there are processors; the names of those that were built.

    isas: by default all of the compiler's target. What the compiler says is in the log, as is why
    there is nothing to compile.
    """
    command = compiler()
    with (folder / LOG).open("w", encoding="utf-8") as log:
        if command is None:
            log.write("there is no C++ compiler: c++, g++ or clang++\n")
            return []
        flags = TARGETS.get(found := target(command))
        if flags is None:
            log.write(f"the kernels are for {', '.join(TARGETS)}, and not for {found}\n")
            return []
        command += [*FLAGS, f"-DSOURCE_CHECKSUM={source_checksum(folder)}"]
        isas = isas or [*flags]
        # A compiler too old for an instruction set fails on it alone.
        arguments = [*([*flags[isa], *SOURCES] for isa in isas), [*THREAD_FLAGS, *THREAD_SOURCES]]
        compilers = [
            _Compiler(folder, [*command, *more], library)
            for more, library in zip(arguments, libraries(isas), strict=True)
        ]
        # One for each processor, of 0.4 GB each. After Ctrl-C, `map` starts no other.
        with ThreadPoolExecutor(processor_count()) as pool:
            for output in pool.map(_Compiler.run, compilers):
                log.write(output)
    return [each.library for each in compilers if each.succeeded]


def processor_count() -> int:
    """The number of processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class _Compiler:
    def __init__(self, folder: Path, command: list[str], library: str) -> None:
        self.library, self.succeeded = library, False
        self._library, self._new = folder / library, folder / f"{library}.new"
        self._command = [*command, "-o", self._new.name]

    def run(self) -> str:
        """Compile the library; the command, what the compiler said, and its exit status."""
        done = subprocess.run(
            self._command,
            cwd=self._library.parent,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        self.succeeded = done.returncode == 0
        if self.succeeded:
            self._new.replace(self._library)  # at once: a server may be starting
        else:
            self._library.unlink(missing_ok=True)  # of an older version
        return f"{shlex.join(self._command)}\n{done.stdout}exit status {done.returncode}\n"


if __name__ == "__main__":
    folder = Path(__file__).parent / KERNELS
    available = TARGETS.get(target(compiler()), {})
    chosen = sys.argv[1:] or [*available]
    if unknown := {*chosen} - {*available}:
        sys.exit(f"no instruction set {min(unknown)}; there are {', '.join(available)}")
    if compile_kernels(folder, chosen) != libraries(chosen):
        sys.exit((folder / LOG).read_text(encoding="utf-8"))
