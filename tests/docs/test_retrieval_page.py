"""The programs of docs/retrieval.md print what the page shows."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.service.server import Server

PAGE = (Path(__file__).parents[2] / "docs" / "retrieval.md").read_text(encoding="utf-8")
FILES, *_ = re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL)
PROGRAM = "".join(re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL))
OUTPUT = "".join(re.findall(r"```text\n(.*?)```", PAGE, re.DOTALL))
SCORE = re.compile(r"\b0\.\d\d\b")


def test_the_programs_print_what_the_page_shows(server: Server, tmp_path: Path) -> None:
    subprocess.run(["bash", "-e", "-c", FILES], cwd=tmp_path, check=True)
    program = PROGRAM.replace("http://localhost:8080", server.url)
    command = [sys.executable, "-c", program]
    printed = subprocess.run(command, cwd=tmp_path, check=True, stdout=subprocess.PIPE, text=True)
    assert SCORE.sub("", printed.stdout) == SCORE.sub("", OUTPUT)
    scores, expected = (list(map(float, SCORE.findall(t))) for t in (printed.stdout, OUTPUT))
    assert scores == pytest.approx(expected, abs=0.011)  # rounded to two decimals
