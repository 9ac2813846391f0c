"""Pictures: what is written in them, and what a page shows on hover."""

import io
import re
from collections.abc import Iterator, Sequence
from html.parser import HTMLParser
from typing import Any
from xml.etree import ElementTree

import click
import numpy as np
import orjson
import pytest
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.image import imread

from embedwell_lab.plots.heatmap import Panel, draw_panels, draw_similarity
from embedwell_lab.plots.projection import Projection
from embedwell_lab.plots.render import Picture, freeze_layout, render
from embedwell_lab.plots.scatter import color_by_column, draw_map, place_labels
from embedwell_lab.plots.style import shorten, theme
from tests.conftest import UNUSUAL_TEXTS

pytestmark = pytest.mark.full

SVG = "{http://www.w3.org/2000/svg}"
HOSTILE = "--><script>alert(1)</script> {{data}} & $x^2$ \x0b\x00"


@pytest.fixture(autouse=True)
def light() -> Iterator[None]:
    with theme(dark=False):
        yield


def projection(points: Sequence[tuple[float, float]]) -> Projection:
    return Projection(np.array(points, np.float32), ("across", "up"), "PCA")


def texts_of(picture: Picture) -> list[str]:
    root = ElementTree.fromstring(render(picture, ".svg", "title"))
    return ["".join(element.itertext()) for element in root.iter(f"{SVG}text")]


class Page(HTMLParser):
    """The elements of a page, and the data of its script."""

    def __init__(self, content: bytes) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.addresses: list[str] = []
        self._script = ""
        self.feed(content.decode())
        self.data: dict[str, Any] = orjson.loads(self._script)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        found = dict(attributes)
        names = found.keys() & {"src", "href", "xlink:href"}
        self.addresses += [found[name] or "" for name in names]
        self._in_data = found.get("id") == "data"

    def handle_data(self, data: str) -> None:
        if self.tags and self.tags[-1] == "script" and self._in_data:
            self._script += data
            self._in_data = False


def test_a_map_names_its_axes_and_labels_its_points() -> None:
    points = projection([(0, 0), (1, 1), (0, 1)])
    picture = draw_map(points, ["one", "two", "three"], "a title", with_labels=True)
    assert {"across", "up", "a title", "PCA", "one", "two", "three"} <= set(texts_of(picture))
    assert picture.omitted == 0
    assert "one" not in texts_of(draw_map(points, ["one", "two", "three"], "a title"))


def test_dollar_signs_are_no_formula() -> None:
    points = projection([(0, 0), (1, 1)])
    picture = draw_map(points, ["$5 or $6", "b"], "title", with_labels=True)
    assert "$5 or $6" in texts_of(picture)


def test_a_legend_names_the_categories_and_the_points_without_one() -> None:
    points = projection([(0, 0), (1, 1), (0, 1)])
    coloring = color_by_column("kind", ["a", "b", None])
    texts = texts_of(draw_map(points, ["x", "y", "z"], "title", coloring))
    assert {"kind", "a (1)", "b (1)", "no value (1)"} <= set(texts)


def test_a_colour_bar_of_whole_numbers_has_whole_ticks() -> None:
    points = projection([(0, 0), (1, 1), (0, 1)])
    texts = texts_of(draw_map(points, ["x"] * 3, "title", color_by_column("stars", [1, 2, None])))
    assert {"stars (grey: no value)", "1", "2"} <= set(texts) and "1.5" not in texts


def test_a_point_and_its_hover_text_are_at_the_same_place() -> None:
    points = projection([(0, 0), (2, 1), (1, 3)])
    picture = draw_map(points, ["x", "y", "z"], "title", color_by_column("kind", ["a", "b", "a"]))
    image = imread(io.BytesIO(render(picture, ".png", "title")))
    height, width = image.shape[:2]
    colors = [tuple(image[int(y * height), int(x * width)][:3]) for x, y, _ in picture.points]
    assert colors[0] == colors[2] != colors[1]
    assert (1.0, 1.0, 1.0) not in colors
    assert [text for *_, text in picture.points] == ["x\nkind: a", "y\nkind: b", "z\nkind: a"]


def test_labels_do_not_cover_each_other_and_stay_inside() -> None:
    random = np.random.default_rng(0)
    points = random.normal(size=(80, 2)).astype(np.float32)
    figure = Figure(figsize=(6, 4), layout="constrained")
    axes = figure.subplots()
    axes.scatter(*points.T)
    freeze_layout(figure)
    placed = place_labels(axes, points, [f"label number {index}" for index in range(80)])
    drawn = axes.texts
    assert 10 < placed == len(drawn) < 80
    boxes = [label.get_window_extent() for label in drawn]
    for index, box in enumerate(boxes):
        assert box.count_overlaps(boxes[:index]) == 0
        assert axes.bbox.containsx(box.x0) and axes.bbox.containsx(box.x1)


def test_labels_without_room_are_counted() -> None:
    points = projection([*[(1, 1)] * 9, (0, 0), (2, 2)])
    picture = draw_map(points, ["same place"] * 11, "title", with_labels=True)
    assert 0 < picture.omitted == 11 - texts_of(picture).count("same place")


def test_a_png_has_twice_the_resolution() -> None:
    figure = Figure(figsize=(3, 2))
    figure.subplots()
    assert imread(io.BytesIO(render(Picture(figure), ".png", ""))).shape[:2] == (400, 600)


@pytest.mark.parametrize("suffix", [".png", ".svg", ".html"])
def test_the_same_picture_has_the_same_bytes(suffix: str) -> None:
    once, again = (
        render(draw_map(projection([(0, 0), (1, 1)]), ["a", "b"], "title"), suffix, "title")
        for _ in range(2)
    )
    assert once == again


@pytest.mark.filterwarnings("ignore:Glyph")
def test_every_text_makes_a_well_formed_picture() -> None:
    points = projection([(index % 6, index // 6) for index in range(len(UNUSUAL_TEXTS))])
    coloring = color_by_column("kind", UNUSUAL_TEXTS)
    picture = draw_map(points, UNUSUAL_TEXTS, "title", coloring, with_labels=True)
    assert texts_of(picture)
    page = Page(render(picture, ".html", "title"))
    assert len(page.data["points"]) == len(UNUSUAL_TEXTS)


@pytest.mark.filterwarnings("ignore:Glyph")
def test_a_page_escapes_texts_and_asks_nothing_of_the_network() -> None:
    coloring = color_by_column(HOSTILE, [HOSTILE, "b"])
    picture = draw_map(projection([(0, 0), (1, 1)]), [HOSTILE, "b"], HOSTILE, coloring, True)
    content = render(picture, ".html", HOSTILE)
    page = Page(content)
    assert page.data["points"][0][2].startswith(HOSTILE.strip())
    assert page.tags.count("script") == 2 and page.tags.count("svg") == 1
    assert all(re.match("#|data:", address) for address in page.addresses)
    assert b"default-src 'none'" in content
    addresses = set(re.findall(rb"https?://[^\"<> ]*", content))
    assert all(address.startswith(b"http://www.w3.org/") for address in addresses)


def test_a_page_has_the_cells_of_a_heat_map_where_they_are() -> None:
    values = np.arange(12.0).reshape(3, 4)
    values[0, 3] = np.nan
    panel = Panel("a panel", values, "query", "key", "value", Normalize(0, 12), first_row=-1)
    picture = draw_panels([panel, panel], "a title\nof\nfour\nlines")
    first, second = Page(render(picture, ".html", "title")).data["grids"]
    assert first["rows"] == ["query -1", "query 0", "query 1"]
    assert first["columns"][3] == "key 3" and first["values"][0] == [0, 1, 2, None]
    left, top, right, bottom = first["box"]
    assert 0 < left < right < second["box"][0] and 0 < top < bottom < 1
    image = imread(io.BytesIO(render(picture, ".png", "title")))
    height, width = image.shape[:2]
    cell = image[int((top + 0.01) * height), int((left + 0.01) * width), :3]
    np.testing.assert_allclose(cell, (0.267, 0.005, 0.329), atol=0.02)  # the least of viridis
    column = image[:, int((left + 0.01) * width), :3]
    drawn = np.flatnonzero(column.min(axis=1) < 0.8) / height
    np.testing.assert_allclose([drawn[0], drawn[-1]], [top, bottom], atol=0.005)
    assert picture.grids[0].axes.get_ylim() == (1.5, -1.5)  # the first row is at the top


def test_a_page_of_too_many_numbers_is_refused() -> None:
    panel = Panel("a panel", np.eye(1001), "query", "key", "value", Normalize(0, 1))
    picture = draw_panels([panel], "title")
    with pytest.raises(click.ClickException, match="1,002,001 numbers, but the limit is 1,000,000"):
        render(picture, ".html", "title")
    assert render(picture, ".svg", "title")


def test_a_similarity_shows_values_and_shortened_texts() -> None:
    scores = np.array([[1, 0.25], [0.25, 1]], np.float32)
    rows = ["a first text that is far too long for a label", "second"]
    texts = texts_of(draw_similarity(scores, "cosine", rows, rows, "title"))
    assert {"second", "a first text that is far too lo…"} <= set(texts)
    assert texts.count("1.00") == texts.count("0.25") == 2


def test_distances_are_shown_without_their_sign() -> None:
    picture = draw_similarity(
        np.array([[0, -12.5]], np.float32), "manhattan", ["a"], ["b", "c"], "title"
    )
    assert {"0.0", "12.5", "manhattan distance"} <= set(texts_of(picture))


@pytest.mark.parametrize(("count", "has_labels"), [(21, True), (120, False)])
def test_a_large_similarity_has_no_values_and_a_huge_one_no_labels(
    count: int, has_labels: bool
) -> None:
    names = [f"text {index}" for index in range(count)]
    picture = draw_similarity(np.eye(count, dtype=np.float32), "cosine", names, names, "title")
    texts = texts_of(picture)
    assert "1.00" not in texts and ("text 7" in texts) == has_labels
    assert (f"{count} texts" in texts) != has_labels
    assert picture.grids[0].rows == names


def test_dark_pictures_have_a_dark_background() -> None:
    with theme(dark=True):
        picture = draw_map(projection([(0, 0), (1, 1)]), ["a", "b"], "title")
        image = imread(io.BytesIO(render(picture, ".png", "title")))
        page = render(picture, ".html", "title")
    assert image[-1, -1, :3].max() < 0.1
    assert b"background: #000000" in page


def test_a_long_title_goes_on_in_another_line() -> None:
    figure_texts = texts_of(draw_map(projection([(0, 0), (1, 1)]), ["a", "b"], "word " * 60))
    assert max(map(len, figure_texts)) < 120


@pytest.mark.parametrize(
    ("text", "short"),
    [("a\n b\x00c", "a b c"), ("abcdef", "abcdef"), ("abcdefg", "abcde…"), ("abcd  efg", "abcd…")],
)
def test_a_shortened_text_is_one_line(text: str, short: str) -> None:
    assert shorten(text, 6) == short
