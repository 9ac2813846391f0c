"""The playground while the server cannot be reached or refuses its requests, and afterwards."""

import re
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import BrowserContext, Page, Route, expect

from tests.service.server import Server

pytestmark = pytest.mark.full


class Outage:
    """Fails requests to the server's routes, but for the page itself, while it is `on`."""

    def __init__(self, page: Page) -> None:
        self.on = False
        self.still: set[str] = set()
        """Paths that fail also after the outage."""
        page.route("**/*", self._answer)

    def _answer(self, route: Route) -> None:
        path = urlsplit(route.request.url).path
        if path in self.still or (self.on and not path.startswith("/playground")):
            route.abort("connectionrefused")
        else:
            route.continue_()


@pytest.fixture
def page(context: BrowserContext) -> Page:
    return context.new_page()


@pytest.fixture
def outage(page: Page) -> Outage:
    return Outage(page)


def test_an_outage_is_named_and_old_results_are_dimmed_until_a_retry(
    server: Server, page: Page, outage: Outage
) -> None:
    outage.still = {"/live"}  # by which the page would notice by itself that the server is back
    page.goto(f"{server.url}/playground#tokens")
    river = page.locator(".chips").first.get_by_role("button", name="river")
    river.wait_for()
    outage.on = True
    page.get_by_label("Text", exact=True).fill("A green tree")
    expect(page.get_by_role("status").first).to_contain_text("The server cannot be reached")
    expect(page.locator(".stale").filter(has=river)).to_have_css("opacity", re.compile(r"0\.[1-6]"))
    expect(page.locator("header .model")).to_have_text("offline")
    outage.on = False
    page.get_by_role("button", name="Retry").click()
    page.locator(".chips").first.get_by_role("button", name="tree").wait_for()
    expect(page.locator(".stale")).to_have_count(0)
    expect(page.get_by_role("button", name="Retry")).to_have_count(0)


@pytest.mark.parametrize(
    ("view", "result"),
    [
        *(("tokens", ".chip"), ("positions", ".chart"), ("similarity", "table.matrix")),
        *(("document", ".sentence"), ("map", "figure canvas"), ("server", "dl.facts")),
    ],
)
def test_a_view_that_opens_in_an_outage_is_read_when_the_server_is_back(
    server: Server, page: Page, outage: Outage, view: str, result: str
) -> None:
    outage.on = True
    page.goto(f"{server.url}/playground#{view}")
    expect(page.get_by_role("status").first).to_contain_text("The server cannot be reached")
    expect(page.locator("header .model")).to_have_text("offline")
    outage.on = False
    page.locator(result).first.wait_for()
    expect(page.locator("header .model")).to_have_text("all-MiniLM-L6-v2")
    expect(page.get_by_role("status").first).not_to_contain_text("cannot be reached")


def test_a_view_that_could_not_be_loaded_is_loaded_when_the_server_is_back(
    server: Server, page: Page, outage: Outage
) -> None:
    page.goto(f"{server.url}/playground#tokens")
    page.locator("figure.chart").wait_for()
    outage.on, outage.still = True, {"/playground/views/server.js"}
    page.get_by_role("link", name="Server").click()
    expect(page.get_by_role("status").first).to_contain_text("The server cannot be reached")
    # Only now it waits for the server: the message comes before the answer of /live.
    expect(page.locator("header .model")).to_have_text("offline")
    outage.on, outage.still = False, set()
    page.locator("dl.facts").wait_for()


def test_a_stopped_server_is_not_said_to_be_ready(
    server: Server, page: Page, outage: Outage
) -> None:
    page.goto(f"{server.url}/playground#server")
    engine = page.locator(".tile").first
    expect(engine).to_have_text("readyengine")
    outage.on = True
    expect(engine).to_have_text("unreachableengine")
    outage.on = False
    expect(engine).to_have_text("readyengine")
