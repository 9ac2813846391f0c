"""Compiles models/attention.cpp when a compiler is there; without one the package does without."""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

SOURCE, LIBRARY = "models/attention.cpp", "models/libattention.so"
FLAGS = ["-std=c++17", "-O3", "-shared", "-fPIC", "-fno-math-errno", "-Wno-psabi"]


class Compile(BuildHookInterface[Any]):
    """Adds the library to the wheel, which then is for this platform alone."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if compile_library(Path(self.root)):
            build_data["artifacts"].append(LIBRARY)
            build_data["pure_python"] = False
            build_data["infer_tag"] = True
        else:
            self.app.display_warning(f"{SOURCE} was not compiled: attention runs on torch alone")


def compile_library(root: Path) -> bool:
    """Whether the library was built."""
    compiler = shutil.which(os.environ.get("CXX", "c++"))
    library = root / LIBRARY
    library.unlink(missing_ok=True)
    if compiler is None or sys.platform != "linux":
        return False
    return subprocess.call([compiler, *FLAGS, root / SOURCE, "-o", library]) == 0
