"""A copy of this checkout, and its kernels as another compiler makes them."""

import shutil
import subprocess
from collections.abc import Collection
from pathlib import Path

from hatch_build import (
    FLAGS,
    LOG,
    SOURCES,
    TARGETS,
    compile_kernels,
    compiler,
    libraries,
    source_checksum,
    target,
)

ROOT = Path(__file__).parents[2]


def copy_checkout(target: Path) -> None:
    """Copy what the tests of the kernels need, and no kernels."""
    for folder in ("models", "service", "tests"):
        without = shutil.ignore_patterns("*.so", "__pycache__")
        shutil.copytree(ROOT / folder, target / folder, ignore=without)
    for name in ("pyproject.toml", "hatch_build.py", "LICENSE"):
        shutil.copy(ROOT / name, target)


def compile_copy(kernels: Path, isas: Collection[str], optimized: Collection[str]) -> str:
    """Compile the kernels of a copy for some instruction sets; return what the compiler says.

    optimized: those of them that are compiled as installed. The others take a tenth of the time.
    """
    command = compiler() or []
    built, output = compile_kernels(kernels, optimized), (kernels / LOG).read_text()
    assert built == libraries(optimized), output
    command += [*FLAGS, "-O0", f"-DSOURCE_CHECKSUM={source_checksum(kernels)}"]
    for isa in [name for name in isas if name not in optimized]:
        more = [*TARGETS[target(command)][isa], *SOURCES, "-o", f"libencoder-{isa}.so"]
        done = subprocess.run(
            [*command, *more], cwd=kernels, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        output += done.stderr
    return output
