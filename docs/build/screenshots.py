"""Takes the pictures of docs/playground.md of a running server.

`python -m docs.build.screenshots URL [VIEW …]`: those of all views that its models can answer.
"""

import sys
import threading
from io import BytesIO
from pathlib import Path

import httpx
from PIL import Image
from playwright.sync_api import Page, sync_playwright

FOLDER = Path(__file__).parents[1] / "images" / "playground"
# Fragment of each view's address, and what is there when it is drawn.
VIEWS = {
    "search": ("search", ".bars li"),
    "tokens": ("tokens", "figure.chart"),
    "positions": ("positions?scheme=rotary&scaling=yarn", "[aria-label^=Scalings]"),
    "similarity": ("similarity?dimensions=64&type=int8", "table.matrix"),
    "document": ("document", ".sentence"),
    "map": ("map", "figure canvas"),
    "images": ("images", "table.matrix"),
    "sparse": ("sparse", ".finding"),
    "multi_vector": ("multi_vector", ".bars"),
    "rerank": ("rerank", ".bars"),
    "classify": ("classify", ".bars"),
    "server": ("server", ".tiles"),
}
SIZES = {"desktop": (1280, 800), "phone": (390, 844)}
OTHERS = [("dark", "desktop", "tokens"), ("light", "phone", "search")]  # the rest: light, desktop
LOAD_TIME = 20_000  # ms for which the server is busy before its view is taken


def main(url: str = "http://127.0.0.1:8080", *views: str) -> None:
    """Write a WebP file for each view. views: by default all that are offered."""
    FOLDER.mkdir(exist_ok=True)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path="/usr/bin/chromium", args=["--no-sandbox"]
        )
        chosen = views or offered_views(browser.new_page(), url)
        pictures = [("light", "desktop", view) for view in chosen]
        pictures += [other for other in OTHERS if other[2] in chosen]
        for theme, size, view in pictures:
            width, height = SIZES[size]
            page = browser.new_page(
                viewport={"width": width, "height": height},
                color_scheme="dark" if theme == "dark" else "light",
            )
            fragment, drawn = VIEWS[view]
            page.goto(f"{url}/playground#{fragment}")
            page.wait_for_selector(drawn)
            if view == "server":
                wait_under_load(page, url)
            page.wait_for_timeout(1500)
            save(page.screenshot(full_page=True), f"{view}-{theme}-{size}")
            page.close()


def offered_views(page: Page, url: str) -> list[str]:
    """The views to which the page leads."""
    page.goto(f"{url}/playground#tokens")
    page.wait_for_selector("figure.chart")
    links = page.locator("nav a").evaluate_all("links => links.map(link => link.hash)")
    return [link.removeprefix("#") for link in links]


def wait_under_load(page: Page, url: str) -> None:
    """Wait while some clients ask, so that there is something to see."""
    stop = threading.Event()

    def ask(texts: int) -> None:
        while not stop.wait(0.05):
            httpx.post(f"{url}/embed", json={"inputs": ["A text of eight or nine tokens."] * texts})

    clients = [threading.Thread(target=ask, args=[count]) for count in (1, 2, 4)]
    for client in clients:
        client.start()
    page.wait_for_timeout(LOAD_TIME)
    stop.set()
    for client in clients:
        client.join()


def save(png: bytes, name: str) -> None:
    Image.open(BytesIO(png)).save(FOLDER / f"{name}.webp", quality=80, method=6)


if __name__ == "__main__":
    main(*sys.argv[1:])
