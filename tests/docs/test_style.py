"""The pages for users are short, introduce themselves, and are in plain English."""

import re
from pathlib import Path

import pytest

from docs.build import settings_page

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
PAGES = [README, *sorted(ROOT.glob("docs/*.md"))]
GENERATED = re.compile(
    r"<!-- ([a-z ]+): written by make openapi -->.*?<!-- end of \1 -->", re.DOTALL
)
OLD_WORDS = re.compile(r"\bbeside\b|\bis no [a-z]+\b|\bthat is of\b", re.IGNORECASE)


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_no_row_of_a_table_is_too_long_to_read(page: Path) -> None:
    lines = page.read_text(encoding="utf-8").splitlines()
    assert [line for line in lines if line.startswith("|") and len(line) > 160] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_a_page_begins_with_a_sentence(page: Path) -> None:
    title, _, text = page.read_text(encoding="utf-8").partition("\n\n")
    assert title.startswith("# ") and not text.startswith(("|", "```", "!", "#"))


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_a_section_does_not_begin_with_a_table(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert re.findall(r"^#+ (.*)\n\n\|", text, re.MULTILINE) == []


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_a_page_is_in_plain_english(page: Path) -> None:
    assert OLD_WORDS.findall(page.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    "page",
    [*PAGES, ROOT / "CONTRIBUTING.md", *sorted(ROOT.glob("docs/developers/*.md"))],
    ids=lambda path: path.name,
)
def test_a_list_or_a_block_in_a_list_is_inside_it_on_the_site(page: Path) -> None:
    # Python-Markdown takes what is indented by less than four spaces out of the list.
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.M)
    assert [
        line for line in text.splitlines() if re.match(r" {1,3}(- |\d+\. |```|!\[)", line)
    ] == []


def test_the_readme_is_an_introduction() -> None:
    assert len(README.read_text(encoding="utf-8").split()) <= 700


def test_the_pages_for_users_are_read_in_a_day() -> None:
    # Not the lists of settings and of families, which grow with them.
    pages = [page for page in PAGES if page != settings_page.FILE]
    written = [GENERATED.sub("", page.read_text(encoding="utf-8")) for page in pages]
    words = sum(len(text.split()) for text in written)
    assert words <= 30_500, f"{words} words: say less, or say it once"
