"""The page of techniques names tests, endpoints and commands that exist."""

import json
import re
from pathlib import Path

import click
import pytest

from embedwell.cli.commands import main

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "developers" / "techniques.md").read_text(encoding="utf-8")
ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in PAGE[: PAGE.index("\n## ")].splitlines()
    if line.startswith("|")
][2:]
ROUTES = json.loads((ROOT / "docs" / "openapi.json").read_text(encoding="utf-8"))["paths"]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_a_technique_has_a_place_a_way_and_a_test(row: list[str]) -> None:
    _, what, served, way, test = row
    assert len(what.split()) <= 6
    assert served.startswith("no") or (way and test)
    for name, path in re.findall(r"\[`([^`]+)`\]\(\.\./\.\./([^)]+)\)", test):
        assert (ROOT / path).is_file() and Path(path).name == name
    for route in re.findall(r"`(/[^`]+)`", way):
        assert route in ROUTES
    for command in re.findall(r"`embedwell (\w+)", way):
        assert command in main.list_commands(click.Context(main))


def test_every_link_within_the_documentation_leads_to_a_page() -> None:
    pages = re.findall(r"\]\(\.\./([\w-]+\.md)", PAGE)
    assert len(pages) > 15
    assert all((ROOT / "docs" / page).is_file() for page in pages)
