"""Compiles models/kernels for each instruction set; without a compiler the package does without."""

import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

KERNELS = "models/kernels"
SOURCES = ["encoder.cpp", "linear.cpp"]
FLAGS = [
    *["-std=c++17", "-O2", "-shared", "-fPIC", "-ffp-contract=off", "-fno-math-errno"],
    *["-Wall", "-Wextra", "-Wno-psabi", "-Wno-maybe-uninitialized"],
]
ISAS = {  # the names that models/isa.py knows
    "avx2": ["-march=x86-64-v3"],
    "avx512": ["-march=x86-64-v4"],
    "vnni": ["-march=x86-64-v4", "-mavx512vnni"],
    "bf16": ["-march=x86-64-v4", "-mavx512vnni", "-mavx512bf16"],
    "amx": [
        *["-march=x86-64-v4", "-mavx512vnni", "-mavx512bf16"],
        *["-mamx-tile", "-mamx-int8", "-mamx-bf16"],
    ],
}


class Compile(BuildHookInterface[Any]):
    """Adds the libraries to the wheel, which then is for this platform alone."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        built = compile_kernels(Path(self.root) / KERNELS)
        if built:
            build_data["artifacts"] += [f"{KERNELS}/{library}" for library in built]
            build_data["pure_python"] = False
            build_data["infer_tag"] = True
        if len(built) < len(ISAS):
            self.app.display_warning(
                f"{KERNELS}: {len(built)} of {len(ISAS)} variants compiled; where none fits the "
                "processor, encoders run on torch alone"
            )


def compile_kernels(folder: Path) -> list[str]:
    """Compile them side by side; the names of the libraries that were built."""
    for old in folder.glob("*.so"):
        old.unlink()
    compiler = shutil.which(os.environ.get("CXX", "c++"))
    if compiler is None or sys.platform != "linux" or platform.machine() != "x86_64":
        return []
    jobs = {}
    for isa, flags in ISAS.items():
        library = f"libencoder-{isa}.so"
        command = [compiler, *FLAGS, *flags, *SOURCES, "-o", library]
        jobs[library] = subprocess.Popen(command, cwd=folder)
    # A compiler too old for an instruction set fails on it alone.
    return [library for library, job in jobs.items() if job.wait() == 0]
