"""A real browser that opens the playground, and notices whatever goes wrong there."""

from collections.abc import Callable, Iterator
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright

from tests.programs import program
from tests.service.server import Server

OpenView = Callable[..., Page]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Headless Chromium."""
    path = program("chromium", "chromium")
    with sync_playwright() as playwright:
        # The sandbox needs privileges that containers lack; every page here is our own.
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    """A new profile of the browser, on a desktop in light colours."""
    context = browser.new_context(
        color_scheme="light", viewport={"width": 1280, "height": 900}, accept_downloads=True
    )
    context.set_default_timeout(60_000)  # ms
    context.grant_permissions(["clipboard-read", "clipboard-write"])
    yield context
    context.close()


@pytest.fixture
def open_view(server: Server, context: BrowserContext) -> Iterator[OpenView]:
    """Opens the playground at a fragment; in the end nothing may have gone wrong on any page.

    That is: no error or warning in the console, and no request to another origin.
    """
    problems: list[str] = []

    def open_view(fragment: str, url: str = server.url) -> Page:
        page = context.new_page()
        record_problems(page, url, problems)
        page.goto(f"{url}/playground#{fragment}")
        page.wait_for_selector("h1")
        return page

    yield open_view
    assert not problems


def record_problems(page: Page, origin: str, problems: list[str]) -> None:
    """Add what goes wrong on a page to a list."""
    page.on(
        "console",
        lambda message: (
            problems.append(message.text) if message.type in ("error", "warning") else None
        ),
    )
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on(
        "request",
        lambda request: (
            None if is_within(request.url, origin) else problems.append(f"request to {request.url}")
        ),
    )


def is_within(url: str, origin: str) -> bool:
    """Whether a URL is of an origin, or needs no network."""
    parts = urlsplit(url)
    return parts.scheme in ("data", "blob") or f"{parts.scheme}://{parts.netloc}" == origin
