"""A real browser that opens the playground, and notices whatever goes wrong there."""

from collections.abc import Callable, Iterator
from urllib.parse import urlsplit

import pytest
import torch
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

from tests.models.colbert import write_stanford
from tests.models.cross_encoder import write_cross_encoder
from tests.models.image_models import write_clip
from tests.models.sparse_encoder import write_bge_m3, write_inference_free, write_splade
from tests.models.tiny import VOCABULARY
from tests.programs import program
from tests.service.server import Server, SeveralModels

OpenView = Callable[..., Page]
expect.set_options(timeout=60_000)  # ms

LABELS = {0: "positive", 1: "negative", 2: "neutral"}


@pytest.fixture(scope="session")
def several(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SeveralModels]:
    """A server with a model of each kind: the default one, and small ones of random weights."""
    names = ("reranker", "classifier", "splade", "inference-free", "org/m3", "colbert", "clip")
    folders = {name: tmp_path_factory.mktemp(name.replace("/", "-")) for name in names}
    write_cross_encoder(folders["reranker"])
    write_cross_encoder(folders["classifier"], labels=3, id2label=LABELS)
    write_splade(folders["splade"])
    weights = torch.linspace(0, 2, len(VOCABULARY))
    write_inference_free(folders["inference-free"], weights)
    write_bge_m3(folders["org/m3"])
    write_stanford(folders["colbert"], query_maxlen=20, doc_maxlen=30)
    write_clip(folders["clip"])
    on_demand = {
        name: {"source": str(folder), "keep": "on_demand"} for name, folder in folders.items()
    }
    models = {"minilm": {"source": "all-MiniLM-L6-v2"}, **on_demand}
    with SeveralModels(tmp_path_factory.mktemp("several"), models) as server:
        yield server


@pytest.fixture(scope="package")  # not of the session: its event loop is this thread's
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


def drop(page: Page, name: str, content: str) -> None:
    """Drop a file on the page."""
    transfer = page.evaluate_handle(
        "([name, content]) => { const transfer = new DataTransfer();"
        "transfer.items.add(new File([content], name)); return transfer; }",
        [name, content],
    )
    page.locator(".drop").dispatch_event("drop", {"dataTransfer": transfer})
    expect(page.locator(".drop")).to_contain_text(f"now: {name}")
