"""Memory of this process, on Linux."""

from pathlib import Path


def resident(pages: str) -> int:
    """The bytes of this process's memory of a kind: RssFile or RssAnon."""
    lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith(f"{pages}:"))
