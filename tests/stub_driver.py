"""Stand-in for NVIDIA's driver: libraries that torch and CUDA load, without a GPU."""

import shutil
import subprocess
from pathlib import Path

import pytest

# CUDA's runtime asks for every function by its name. ERROR: the status of those that are not here.
_SOURCE = r"""
#include <cstring>
extern "C" {
int cuInit(unsigned) { return INIT; }
int cuDriverGetVersion(int *version) { *version = VERSION; return 0; }
int cuDeviceGetCount(int *count) { *count = 1; return 0; }
int nvmlInit_v2() { return 0; }
int nvmlDeviceGetCount_v2(unsigned *count) { *count = 1; return 0; }
static int other() { return ERROR; }
int cuGetProcAddress_v2(const char *name, void **function, int, unsigned long, int *found);
int cuGetProcAddress(const char *name, void **function, int, unsigned long) {
  return cuGetProcAddress_v2(name, function, 0, 0, nullptr);
}
int cuGetProcAddress_v2(const char *name, void **function, int, unsigned long, int *found) {
  const struct { const char *name; void *function; } ours[] = {
      {"cuInit", (void *)cuInit},
      {"cuDriverGetVersion", (void *)cuDriverGetVersion},
      {"cuDeviceGetCount", (void *)cuDeviceGetCount},
      {"cuGetProcAddress", (void *)cuGetProcAddress_v2},
  };
  *function = (void *)other;
  for (auto &each : ours)
    if (!std::strcmp(name, each.name)) *function = each.function;
  if (found) *found = 0;
  return 0;
}
}
"""


def compile_driver(folder: Path, *, version: int = 13000, init: int = 0, error: int = 801) -> Path:
    """Compile a driver into a folder, which it returns; skips the test without a compiler.

    version: CUDA's that the driver supports, such as 12040 for 12.4. init: the status of the
    driver's start, 0 for success. error: the status of what a GPU would have to do.
    """
    # Not hatch_build's choice, which machines without the tools of a build lack.
    compiler = next(filter(None, map(shutil.which, ("c++", "g++", "clang++"))), None)
    if compiler is None:
        pytest.skip("needs a C++ compiler")
    source = folder / "driver.cpp"
    source.write_text(_SOURCE)
    values = [f"-DVERSION={version}", f"-DINIT={init}", f"-DERROR={error}"]
    for name in ("libcuda.so.1", "libnvidia-ml.so.1"):
        output = ["-shared", "-fPIC", "-o", str(folder / name)]
        subprocess.run([compiler, *values, *output, str(source)], check=True)
    return folder
