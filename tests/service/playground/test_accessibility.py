"""Every view in every theme and size: usable without a mouse, without sight, and on a phone."""

import itertools

import pytest
from axe_playwright_python.sync_playwright import Axe  # type: ignore[import-untyped]
from playwright.sync_api import BrowserContext, Page, ViewportSize

from tests.service.playground.conftest import OpenView

VIEWS = ["tokens", "positions", "similarity", "document", "map", "server"]
LOADED = {  # what each view shows when all is there
    "tokens": "figure.chart",
    "positions": "section:nth-of-type(2) .chart",
    "similarity": "table.matrix",
    "document": ".sentence",
    "map": "figure canvas",
    "server": ".tiles",
}
PHONE, DESKTOP = ViewportSize(width=390, height=844), ViewportSize(width=1280, height=900)


@pytest.mark.full(after=6)
@pytest.mark.parametrize(
    ("scheme", "size", "view"),
    [
        *itertools.product(["dark"], ["phone"], VIEWS),
        *itertools.product(["light"], ["phone", "desktop"], VIEWS),
        *itertools.product(["dark"], ["desktop"], VIEWS),
    ],
)
def test_axe_finds_nothing_serious_and_nothing_is_cut_off(
    context: BrowserContext, open_view: OpenView, scheme: str, size: str, view: str
) -> None:
    page = open_view("tokens")
    page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
    page.set_viewport_size(PHONE if size == "phone" else DESKTOP)
    page.goto(page.url.replace("#tokens", f"#{view}"))
    page.wait_for_selector(LOADED[view])
    violations = Axe().run(page).response["violations"]
    serious = [item for item in violations if item["impact"] in ("serious", "critical")]
    assert not serious, [(item["id"], item["nodes"][0]["html"]) for item in serious]
    assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0


def focused(page: Page) -> str:
    """Text, or else tag, of the element that has the focus."""
    element = "document.activeElement"
    text: str = page.evaluate(f"{element}.textContent || {element}.tagName")
    return text


def test_the_keyboard_alone_reaches_a_view_and_its_tokens(open_view: OpenView) -> None:
    page = open_view("similarity")
    page.keyboard.press("Tab")
    assert focused(page) == "Skip to the view"
    page.keyboard.press("Tab")
    assert focused(page) == "Tokens"
    page.keyboard.press("Enter")
    page.wait_for_selector(".chip")
    page.get_by_label("Another text").focus()
    while "bank" not in focused(page):
        page.keyboard.press("Tab")
    assert page.get_by_role("heading", level=2).first.text_content() == (
        "“bank” · id 2924, characters 16–20, bytes 16–20 · norm 10.3"
    )


def test_a_heat_map_is_read_out_by_the_arrow_keys(open_view: OpenView) -> None:
    page = open_view("positions?scheme=sinusoidal&dim=8")
    page.wait_for_selector(LOADED["positions"])
    section = page.locator("section").nth(1)
    section.locator("canvas").focus()
    for key in ("ArrowDown", "ArrowDown", "ArrowRight"):
        page.keyboard.press(key)
    assert section.locator("figure .readout").text_content() == "position 2, dimension 1: -0.416"


def test_the_theme_is_chosen_and_remembered(open_view: OpenView) -> None:
    page = open_view("tokens")
    color = "getComputedStyle(document.body).backgroundColor"
    assert page.evaluate(color) == "rgb(255, 255, 255)"
    page.get_by_label("Theme").select_option("dark")
    assert page.evaluate(color) == "rgb(20, 23, 27)"
    page.reload()
    page.wait_for_selector("h1")
    assert page.evaluate(color) == "rgb(20, 23, 27)"
