"""Description of the machine on which numbers were measured."""

import datetime
import os
import platform
import subprocess
from pathlib import Path
from typing import Any

from benchmarks.environments import ROOT

_FLAGS = ("avx2", "avx512f", "avx_vnni", "avx512_vnni", "avx512_bf16", "avx512_fp16", "amx")


def describe() -> dict[str, Any]:
    """Return the processor, the system, the commit and the time."""
    cpu = _cpuinfo()
    flags = cpu.get("flags", "").split()
    return {
        "cpu": cpu.get("model name", platform.processor()),
        "cpu_id": "/".join(cpu.get(key, "") for key in ("cpu family", "model", "stepping")),
        "cpu_flags": [flag for flag in flags if flag.startswith(_FLAGS)],
        "cores": cores(),
        "memory_gib": round(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30, 1),
        "load_average": os.getloadavg(),
        "system": platform.platform(),
        "python": platform.python_version(),
        "commit": _commit(),
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
    }


def cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0))


def line(description: dict[str, Any]) -> str:
    """Return the machine as a line of text."""
    flags = " ".join(description["cpu_flags"])
    return f"{description['cpu']} ({description['cpu_id']}; {flags}), {description['cores']} cores"


def _cpuinfo() -> dict[str, str]:
    path = Path("/proc/cpuinfo")
    if not path.exists():
        return {}
    first = path.read_text().split("\n\n", 1)[0].splitlines()
    pairs = (entry.partition(":") for entry in first)
    return {key.strip(): value.strip() for key, _, value in pairs}


def _commit() -> str:
    command = ["git", "describe", "--always", "--dirty"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.strip() or "unknown"
