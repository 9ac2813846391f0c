"""The choice of a model on the page of a server with several."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import BrowserContext, Locator, Page, Request, expect

from tests.models.cross_encoder import write_cross_encoder
from tests.service.local_server import local_server
from tests.service.playground.conftest import OpenView
from tests.service.server import Server, SeveralModels

pytestmark = pytest.mark.full


def choice(page: Page) -> Locator:
    """The selector of the model."""
    return page.get_by_role("combobox", name="Model")


def go(page: Page, view: str) -> None:
    """Follow the link to a view."""
    page.get_by_role("navigation").get_by_role("link", name=view, exact=True).click()
    page.get_by_role("heading", name=view, level=1).wait_for()


def views(page: Page) -> list[str]:
    """The views that the page leads to."""
    return page.get_by_role("navigation").get_by_role("link").all_text_contents()


def test_one_model_has_no_selector_and_only_its_views(server: Server, open_view: OpenView) -> None:
    page = open_view("tokens")
    with page.expect_request("**/tokens") as tokens:
        page.reload()
    assert "model" not in json.loads(tokens.value.post_data or "")
    expect(page.locator("header .model")).to_have_text("all-MiniLM-L6-v2")
    expect(choice(page)).to_have_count(0)
    assert views(page) == [
        "Search",
        "Similarity",
        "Map",
        "Late chunking",
        "Tokens",
        "Positions",
        "Rerank",
        "Server",
    ]


def test_the_selector_says_what_each_model_is_for(
    several: SeveralModels, open_view: OpenView
) -> None:
    page = open_view("server", several.url)
    choice(page).wait_for()
    options = choice(page).get_by_role("option").all_text_contents()
    texts = [re.sub(r" · (unloaded|loading)", "", " ".join(option.split())) for option in options]
    assert texts == [
        "minilm · dense, 384 dimensions",
        "reranker · reranks",
        "classifier · classifies",
        "splade · sparse",
        "inference-free · sparse",
        "org/m3 · dense, sparse, multi-vector, 64 dimensions",
        "colbert · multi-vector, 16 dimensions",
        "clip · dense, images, 24 dimensions",
    ]
    assert len(views(page)) == 12


def test_a_model_on_demand_is_loaded_by_its_view(
    several: SeveralModels, open_view: OpenView
) -> None:
    page = open_view("server?model=reranker", several.url)
    option = choice(page).get_by_role("option").filter(has_text="reranker")
    row = page.get_by_role("row").filter(has_text="reranker")
    if several.state("reranker") == "unloaded":
        expect(option).to_contain_text("unloaded")
        expect(page.get_by_text("“reranker” is not loaded")).to_be_visible()
    go(page, "Rerank")
    expect(page.locator(".bars li")).to_have_count(5)
    expect(option).not_to_contain_text("loaded")
    go(page, "Server")
    row.get_by_role("link").click()
    expect(row).to_contain_text("loaded")
    expect(page.locator("dl.facts").first).to_contain_text("reranker")


def model_of(request: Request) -> Any:
    """The model in the body of a request; None without one."""
    return json.loads(request.post_data or "{}").get("model")


def test_the_chosen_model_is_sent_and_kept_in_the_address(
    several: SeveralModels, open_view: OpenView
) -> None:
    page = open_view("tokens?first=a+red+fox", several.url)
    expect(choice(page)).to_have_value("minilm")
    with page.expect_request(lambda request: model_of(request) == "org/m3") as request:
        choice(page).select_option("org/m3")
    assert request.value.url.endswith("/tokens")
    page.get_by_label("Text", exact=True).fill("the work")
    expect(page.locator(".chips").first).to_contain_text("work")
    expect(page).to_have_url(re.compile(r".*#tokens\?first=the\+work&model=org%2Fm3"))
    page.reload()
    expect(choice(page)).to_have_value("org/m3")
    expect(page.get_by_role("slider", name="Layer")).to_have_attribute("max", "2")
    page.go_back()
    expect(choice(page)).to_have_value("minilm")
    expect(page.get_by_role("slider", name="Layer")).to_have_attribute("max", "6")


def test_a_view_says_which_models_can_answer_it(
    several: SeveralModels, open_view: OpenView
) -> None:
    page = open_view("similarity?metric=dot", several.url)
    page.locator("table.matrix").wait_for()
    choice(page).select_option("splade")
    expect(page.locator("main")).to_have_text(
        re.compile(
            r"“splade” \(sparse\) has no dense vectors\.\s+"
            r"These models support this view: minilm,\s*org/m3,\s*clip\."
        )
    )
    page.get_by_role("main").get_by_role("link", name="minilm").click()
    page.locator("table.matrix").wait_for()
    expect(page.get_by_role("combobox", name="Metric")).to_have_value("dot")


def test_links_lead_to_the_model_that_was_chosen_last_of_those_that_can_answer(
    several: SeveralModels, open_view: OpenView
) -> None:
    page = open_view("similarity", several.url)
    choice(page).select_option("org/m3")
    for view, model in (("Classify", "classifier"), ("Rerank", "org/m3"), ("Images", "clip")):
        go(page, view)
        expect(choice(page)).to_have_value(model)
    go(page, "Similarity")
    page.locator("table.matrix").wait_for()
    expect(choice(page)).to_have_value("org/m3")


def test_a_view_that_no_model_answers_says_so(server: Server, open_view: OpenView) -> None:
    page = open_view("sparse")
    expect(page.locator("main")).to_contain_text(
        "“all-MiniLM-L6-v2” (dense, 384 dimensions) has no sparse vectors. No model of this server "
        "supports this view; embedwell serve naver/splade-v3 serves"
    )
    links = page.get_by_role("main").get_by_role("link")
    assert links.all_text_contents() == views(page)
    links.filter(has_text="Similarity").click()
    page.locator("table.matrix").wait_for()


def test_an_unknown_model_of_a_link_is_named(
    several: SeveralModels, server: Server, context: BrowserContext
) -> None:
    for url in (several.url, server.url):
        page = context.new_page()
        page.goto(f"{url}/playground#tokens?model=nothing")
        expect(page.get_by_role("status").first).to_contain_text("no model 'nothing'")


def test_a_page_without_a_view_in_its_address_shows_what_the_model_is_for(
    tmp_path: Path, open_view: OpenView
) -> None:
    with local_server(write_cross_encoder(tmp_path)) as server:
        page = open_view("", server.url)
        page.get_by_role("heading", name="Rerank", level=1).wait_for()
        expect(page.locator(".bars li")).to_have_count(5)
        assert views(page) == ["Tokens", "Positions", "Rerank", "Server"]
        page.close()


def test_numbers_of_the_server_are_those_of_the_chosen_model(
    several: SeveralModels, open_view: OpenView
) -> None:
    page = open_view("server?model=splade", several.url)
    tokens = page.locator(".tile").nth(2)
    tokens.wait_for()
    texts = set()
    for _ in range(25):  # two readings and more
        several.post("/embed", {"inputs": "a text of some words", "model": "minilm"})
        texts.add(tokens.text_content())
        page.wait_for_timeout(100)
    assert texts == {"0tokens per second"}
    page.get_by_role("row").filter(has_text="minilm").get_by_role("link").click()
    expect(tokens).to_contain_text("tokens per second")
    for _ in range(50):
        several.post("/embed", {"inputs": "a text of some words", "model": "minilm"})
        if not (tokens.text_content() or "0").startswith("0"):
            break
        page.wait_for_timeout(100)
    expect(tokens).not_to_have_text(re.compile("^0"))


@pytest.mark.parametrize("model", ["reranker", "colbert", "clip"])
@pytest.mark.parametrize("view", ["tokens", "positions"])
def test_tokens_and_positions_are_of_any_model(
    several: SeveralModels, open_view: OpenView, model: str, view: str
) -> None:
    page = open_view(f"{view}?model={model}", several.url)
    page.locator("figure.chart").first.wait_for()
    expect(page.get_by_role("status").first).to_have_text("")
    expect(choice(page)).to_have_value(model)
