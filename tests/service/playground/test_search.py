"""The first view of the page: texts, also those of a dropped file, are found by their meaning."""

import re

import numpy as np
from playwright.sync_api import Locator, Page, expect

from tests.service.playground.conftest import OpenView, drop
from tests.service.playground.copied import copied_results
from tests.service.server import Server

LIMIT = 100_000  # characters that the field of texts shows


def found(page: Page) -> Locator:
    """The texts that were found, the nearest first."""
    return page.get_by_role("list", name="Nearest texts").get_by_role("listitem")


def test_the_page_opens_on_a_search_by_meaning(server: Server, open_view: OpenView) -> None:
    page = open_view("")
    expect(page.get_by_role("heading", level=1)).to_have_text("Search")
    expect(found(page).first).to_contain_text("Forgot password")
    expect(found(page).first).to_contain_text("has no word of the query")
    page.get_by_role("button", name="When do I get my money back?").click()
    expect(found(page).first).to_contain_text("Refunds reach your account")
    texts = ["When do I get my money back?", "Refunds reach your account within five working days."]
    query, text = np.array(server.post("/embed", {"inputs": texts}).json())
    expect(found(page).first.locator("b").last).to_have_text(f"{query @ text:.3f}")
    page.get_by_label("Query").fill(" ")
    expect(page.get_by_text("Type a query to search.")).to_be_visible()
    expect(found(page)).to_have_count(0)
    page.get_by_label("Query").fill("gift cards")
    expect(found(page).first).to_contain_text("Gift cards are valid")
    expect(page.get_by_text("has no word of the query")).to_have_count(0)
    by_curl, by_python = copied_results(page)
    assert by_curl == by_python


def test_own_texts_are_searched_and_stay_when_the_view_changes(open_view: OpenView) -> None:
    page = open_view("search?query=a+boat")
    found(page).first.wait_for()
    page.get_by_text("Search your own texts").click()
    page.get_by_role("textbox", name="Texts").fill("a ship on the sea\nbread and butter")
    expect(page.get_by_role("heading", name="Nearest of 2 texts")).to_be_visible()
    expect(found(page).first).to_contain_text("a ship on the sea")
    expect(page.locator(".copy")).to_contain_text("The link does not contain your texts.")
    page.get_by_role("link", name="Similarity").click()
    page.locator("table.matrix").wait_for()
    page.get_by_role("link", name="Search").click()
    expect(found(page)).to_have_count(2)


def test_a_dropped_table_is_searched(open_view: OpenView) -> None:
    page = open_view("search?query=an+animal")
    found(page).first.wait_for()
    page.get_by_text("Search your own texts").click()
    drop(page, "texts.csv", 'kind,text\nship,"three ships, at sea"\nanimal,a red fox\n')
    expect(found(page).first).to_contain_text("a red fox")
    expect(found(page)).to_have_count(2)


def test_a_long_file_is_read_whole_and_cannot_be_cut_by_typing(open_view: OpenView) -> None:
    page = open_view("search?query=the+last+line")
    found(page).first.wait_for()
    page.get_by_text("Search your own texts").click()
    lines = ["word " * 10_000, "other " * 10_000, "here is the last line"]
    drop(page, "long.txt", "\n".join(lines))
    expect(found(page).first).to_contain_text("here is the last line")
    field = page.get_by_role("textbox", name="Texts")
    assert len(field.input_value()) == LIMIT < sum(map(len, lines))
    expect(field).not_to_be_editable()
    page.get_by_role("button", name="Type other texts").click()
    field.fill("one\ntwo")
    expect(page.get_by_role("heading", name="Nearest of 2 texts")).to_be_visible()


def test_a_text_is_shown_in_its_own_direction(open_view: OpenView) -> None:
    page = open_view("search?query=שלום")
    query = page.get_by_label("Query")
    assert query.evaluate("element => getComputedStyle(element).direction") == "rtl"
    page.get_by_text("Search your own texts").click()
    page.get_by_role("textbox", name="Texts").fill("שלום לכולם\ngood morning")
    expect(found(page)).to_have_count(2)
    directions = {
        re.sub(r"^\d\. ", "", item.locator(".name").inner_text()): item.locator(".name").evaluate(
            "element => getComputedStyle(element).direction"
        )
        for item in found(page).all()
    }
    assert directions == {"שלום לכולם": "rtl", "good morning": "ltr"}
