"""Every view in every theme and size: usable without a mouse, without sight, and on a phone."""

from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe  # type: ignore[import-untyped]
from playwright.sync_api import BrowserContext, Page, ViewportSize, expect

from tests.service.local_server import local_server
from tests.service.playground.conftest import OpenView
from tests.service.server import Server, SeveralModels

pytestmark = pytest.mark.full

VIEWS = ["search", "tokens", "positions", "similarity", "document", "map", "server"]
LOADED = {  # what each view shows when all is there
    "search": ".bars li",
    "tokens": "figure.chart",
    "positions": "section:nth-of-type(2) .chart",
    "similarity": "table.matrix",
    "document": ".sentence",
    "map": "figure canvas",
    "server": ".tiles",
}
PHONE = ViewportSize(width=390, height=844)


OF_OTHER_MODELS = {  # the same of the views of other models, and of a view that the model lacks
    "rerank": ".bars li",
    "classify": ".bars li",
    "sparse": ".finding",
    "multi_vector": "figure canvas",
    "images": "table.matrix",
    "server?model=clip": ".tiles",
    "similarity?model=splade": "main a",
}


def check(page: Page, loaded: str) -> None:
    """Assert that axe finds nothing serious, and that the page is as wide as the window.

    First in light colours on a desktop, then in dark ones on a phone: no style sheet combines
    colours and sizes.
    """
    page.wait_for_selector(loaded)
    check_as_shown(page)
    page.emulate_media(color_scheme="dark")
    page.set_viewport_size(PHONE)
    page.reload()
    page.wait_for_selector(loaded)
    check_as_shown(page)


def check_as_shown(page: Page) -> None:
    violations = Axe().run(page).response["violations"]
    serious = [item for item in violations if item["impact"] in ("serious", "critical")]
    assert not serious, [(item["id"], item["nodes"][0]["html"]) for item in serious]
    assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0


@pytest.mark.full(after=7)
@pytest.mark.parametrize("view", VIEWS)
def test_axe_finds_nothing_serious_and_nothing_is_cut_off(open_view: OpenView, view: str) -> None:
    check(open_view(view), LOADED[view])


@pytest.mark.full(after=7)
@pytest.mark.parametrize("view", OF_OTHER_MODELS)
def test_axe_finds_nothing_serious_in_the_views_of_other_models(
    several: SeveralModels, open_view: OpenView, view: str
) -> None:
    check(open_view(view, several.url), OF_OTHER_MODELS[view])


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
    assert focused(page) == "Search"
    while focused(page) != "Tokens":
        page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    page.wait_for_selector(".chip")
    page.get_by_role("slider", name="Layer").focus()
    page.keyboard.press("Tab")
    assert "[CLS]" in focused(page)
    while "bank" not in focused(page):
        page.keyboard.press("ArrowRight")
    assert page.get_by_role("heading", level=2).first.text_content() == (
        "“bank” · id 2924, characters 16–20, bytes 16–20 · norm 10.3"
    )


def test_the_tokens_of_a_text_are_one_stop_of_the_keyboard(open_view: OpenView) -> None:
    page = open_view("tokens")
    page.locator("figure.chart").wait_for()
    chips = page.locator(".chips").first.get_by_role("button")
    chips.first.focus()
    page.keyboard.press("ArrowLeft")  # there is none before it
    assert "[CLS]" in focused(page)
    page.keyboard.press("End")
    assert "[SEP]" in focused(page)
    page.keyboard.press("ArrowLeft")
    assert focused(page).startswith(".")
    page.keyboard.press("Tab")  # to the other text
    assert "[CLS]" in focused(page)
    page.keyboard.press("Shift+Tab")  # back to where it was
    assert focused(page).startswith(".")


@pytest.mark.parametrize("fragment", ["tokens?first=", "document?document=", "search?query="])
def test_a_word_of_600_letters_scrolls_nothing(open_view: OpenView, fragment: str) -> None:
    page = open_view(fragment + "ab" * 300)
    page.locator(".copy").wait_for()
    for width in (390, 1440):
        page.set_viewport_size({"width": width, "height": 900})
        assert page.evaluate("document.documentElement.scrollWidth") == width


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
    assert page.evaluate(color) == "rgb(18, 23, 22)"
    page.reload()
    page.wait_for_selector("h1")
    assert page.evaluate(color) == "rgb(18, 23, 22)"


@pytest.mark.parametrize(("width", "nav_is_below"), [(1280, False), (1024, True), (720, True)])
def test_the_header_has_the_settings_in_its_first_row(
    open_view: OpenView, width: int, nav_is_below: bool
) -> None:
    page = open_view("server")
    page.set_viewport_size({"width": width, "height": 900})
    page.wait_for_selector(LOADED["server"])
    parts = [page.locator(f"header {part}") for part in (".brand", "nav", ".settings")]
    brand, nav, settings = (part.bounding_box() for part in parts)
    assert brand and nav and settings
    assert settings["y"] < brand["y"] + brand["height"]
    assert settings["x"] + settings["width"] > width * 0.95
    assert (nav["y"] >= settings["y"] + settings["height"]) == nav_is_below
    tops = "links => links.map(link => link.offsetTop)"
    assert len({*page.locator("nav a").evaluate_all(tops)}) == 1


@pytest.mark.parametrize("kind", ["one model", "several models"])
def test_the_header_of_a_phone_leaves_the_room_to_the_view(
    server: Server, several: SeveralModels, open_view: OpenView, kind: str
) -> None:
    page = open_view("server", several.url if kind == "several models" else server.url)
    page.set_viewport_size(PHONE)
    page.reload()
    page.wait_for_selector(LOADED["server"])
    place = page.locator("header").bounding_box()
    assert place and place["height"] < PHONE["height"] / 8
    current = page.get_by_role("navigation").get_by_role("link", name="Server")
    expect(current).to_be_in_viewport(ratio=1)  # though it is the last of the row
    theme = page.get_by_label("Theme")
    expect(theme).to_be_hidden()
    page.get_by_role("button", name="Settings").click()
    theme.select_option("dark")
    page.get_by_role("button", name="Settings").click()
    expect(theme).to_be_hidden()


def test_a_phone_shows_the_field_of_a_key_while_the_server_needs_one(
    minilm_folder: Path, context: BrowserContext
) -> None:
    with local_server(minilm_folder, api_key="sesame") as server:
        page = context.new_page()
        page.set_viewport_size(PHONE)
        page.goto(f"{server.url}/playground#server")
        page.get_by_label("API key").fill("sesame")
        page.get_by_label("API key").press("Enter")
        page.wait_for_selector(LOADED["server"])
        expect(page.get_by_label("API key")).to_be_hidden()
        page.close()


def test_the_keyboard_alone_chooses_a_model(several: SeveralModels, open_view: OpenView) -> None:
    page = open_view("tokens", several.url)
    page.get_by_role("combobox", name="Model").wait_for()
    for _ in range(2):
        page.keyboard.press("Tab")
    page.keyboard.type("spl")  # the start of a name
    page.keyboard.press("Enter")
    page.wait_for_url("**/playground#tokens?model=splade")
