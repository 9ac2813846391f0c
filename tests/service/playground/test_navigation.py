"""The links between the views, pressed before all is loaded, and the page of the API."""

from playwright.sync_api import BrowserContext, Route, expect

from tests.service.playground.conftest import OpenView
from tests.service.server import Server

PRESS_WHEN_SHOWN = """
new MutationObserver((_, observer) => {
  const link = document.querySelector('a[href="#positions"]');
  if (link) { observer.disconnect(); link.click(); }
}).observe(document, { childList: true, subtree: true });
"""

WIDTH_OF_TEXT = """element => {
  const range = document.createRange();
  range.selectNodeContents(element);
  return range.getBoundingClientRect().width;
}"""


def test_a_link_works_as_soon_as_it_is_there(context: BrowserContext, open_view: OpenView) -> None:
    context.add_init_script(PRESS_WHEN_SHOWN)
    page = open_view("tokens")
    page.get_by_role("heading", name="Positions", exact=True).wait_for()


def test_a_view_that_loads_late_does_not_replace_the_chosen_one(
    context: BrowserContext, open_view: OpenView
) -> None:
    held: list[Route] = []

    def hold(route: Route) -> None:
        held.append(route)

    context.route("**/views/tokens.js", hold)
    page = open_view("tokens")
    page.get_by_role("link", name="Positions").click()
    chart = page.locator("figure.chart").first
    expect(chart).to_be_visible()
    held[0].continue_()
    page.evaluate("import('/playground/views/tokens.js')")
    page.evaluate("new Promise(requestAnimationFrame)")  # what its arrival changes is drawn
    expect(chart).to_be_visible(timeout=1)


def test_the_api_is_listed_by_task(server: Server, open_view: OpenView) -> None:
    page = open_view("tokens")
    page.get_by_role("contentinfo").get_by_role("link", name="API").click()
    groups = page.locator("main section")
    expect(groups.get_by_role("heading", level=2)).to_contain_text(["embed", "compare", "rerank"])
    expect(groups.nth(1).locator("summary code")).to_contain_text(["/similarity", "/neighbors"])
    count = sum(map(len, server.client.get("/openapi.json").json()["paths"].values()))
    expect(page.locator("section > details > summary")).to_have_count(count)
    groups.nth(1).locator("summary").first.click()
    groups.nth(1).get_by_role("button", name="Send").first.click()
    expect(groups.nth(1).locator("details[open] pre").last).to_contain_text("200")


def test_an_operation_shows_an_example_and_says_what_its_fields_mean(
    server: Server, context: BrowserContext
) -> None:
    page = context.new_page()
    page.goto(f"{server.url}/docs")
    operation = page.locator("section > details", has=page.get_by_text("/embed", exact=True))
    operation.locator("summary").first.click()
    expect(operation.locator("pre").first).to_contain_text(f"curl {server.url}/embed -d")
    field = operation.get_by_role("row", name="late_chunking")
    expect(field).to_contain_text("the inputs are consecutive chunks of one text", ignore_case=True)
    expect(field.get_by_role("cell").nth(1)).to_have_text("boolean")
    operation.get_by_text("Embeddings", exact=True).click()
    expect(operation.get_by_role("row", name="timing")).to_contain_text("How long")


def test_the_page_of_the_api_fits_a_phone(server: Server, context: BrowserContext) -> None:
    page = context.new_page()
    page.set_viewport_size({"width": 400, "height": 800})
    page.goto(f"{server.url}/docs")
    expect(page.locator("summary").first).to_be_visible()
    page.evaluate("document.querySelectorAll('details').forEach(each => { each.open = true })")
    assert page.evaluate("document.documentElement.scrollWidth") == 400
    for title in page.locator("section > details > summary").all():
        method, path = title.locator("b").bounding_box(), title.locator("code").bounding_box()
        assert method and path
        below = path["y"] > method["y"] + method["height"] / 2
        text = title.locator("b").evaluate(WIDTH_OF_TEXT)
        assert below or method["x"] + text < path["x"], title.inner_text()


def test_required_fields_are_first(server: Server, context: BrowserContext) -> None:
    page = context.new_page()
    page.goto(f"{server.url}/docs")
    operation = page.locator("section > details", has=page.get_by_text("/embed", exact=True))
    operation.locator("summary").first.click()
    fields = operation.locator("td:first-child > code")
    expect(fields.first).to_have_text("inputs")
    expect(fields.nth(1)).to_have_text("prompt_name")
