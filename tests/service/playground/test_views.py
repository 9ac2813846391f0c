"""Every view of the playground, used as a person would."""

import csv
import io
import json
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image
from playwright.sync_api import Browser, BrowserContext, Locator, Page, expect

from tests.service.local_server import local_server
from tests.service.playground.conftest import OpenView, drop
from tests.service.playground.copied import copied_results
from tests.service.server import Server

pytestmark = pytest.mark.full

BANKS = ["They sat on the bank of the river.", "She opened an account at the bank."]


def cosine(a: Any, b: Any) -> float:
    return float(np.dot(a, b) / np.linalg.norm(a) / np.linalg.norm(b))


def states(server: Server, texts: list[str], layer: int | str | None = None) -> list[Any]:
    """Hidden states (T, D) of each text."""
    body = {"inputs": texts} | ({} if layer is None else {"layer": layer})
    results = server.post("/tokens", body).json()["results"]
    return [np.array([token["embedding"] for token in result["tokens"]]) for result in results]


def chip(page: Page, text: str, row: int) -> Locator:
    chips: Locator = page.locator(".chips").nth(row).get_by_role("button")
    return chips.filter(has_text=re.compile(rf"^{re.escape(text)}-?\d"))


def slide(page: Page, label: str, value: int) -> None:
    """Move a slider as the pointer does."""
    slider = page.get_by_role("slider", name=label)
    slider.evaluate(
        "(slider, value) => { slider.value = value; slider.dispatchEvent(new Event('input')); }",
        value,
    )


def test_a_hovered_token_shows_its_cosine_with_all_others(
    server: Server, open_view: OpenView
) -> None:
    page = open_view("tokens")
    chip(page, "river", 0).hover()
    first, second = states(server, BANKS)
    expected = f"{cosine(first[8], second[7]):.2f}"
    expect(chip(page, "bank", 1)).to_have_text(f"bank{expected}")
    expect(chip(page, "river", 0)).to_have_text("river1.00")


@pytest.mark.parametrize(("part", "layer"), [("", 2), ("token", None)])
def test_the_vectors_are_of_any_layer_or_part_of_the_input(
    server: Server, open_view: OpenView, part: str, layer: int | None
) -> None:
    page = open_view("tokens")
    chip(page, "river", 0).wait_for()
    if layer is not None:
        slide(page, "Layer", layer)
    page.get_by_role("combobox", name="Vectors").select_option(part)
    first, second = states(server, BANKS, part or layer)
    expected = f"{cosine(first[5], second[7]):.2f}"
    expect(chip(page, "bank", 1)).to_have_text(f"bank{expected}")
    page.reload()
    expect(chip(page, "bank", 1)).to_have_text(f"bank{expected}")


def test_the_same_word_is_followed_through_the_layers(server: Server, open_view: OpenView) -> None:
    page = open_view("tokens")
    chart = page.get_by_role("img", name="after each layer")
    by_layer = [states(server, BANKS, layer) for layer in range(7)]
    cosines = [cosine(first[5], second[7]) for first, second in by_layer]
    label = chart.get_attribute("aria-label") or ""
    ends = [float(number) for number in re.findall(r"from (\S+) to (\S+)$", label)[0]]
    np.testing.assert_allclose(ends, [cosines[0], cosines[-1]], atol=5e-4)
    assert cosines[0] > cosines[-1] + 0.1


def test_both_compared_tokens_are_outlined_and_the_result_is_said(
    server: Server, open_view: OpenView
) -> None:
    page = open_view("tokens")
    (first, second), (early, late) = states(server, BANKS), states(server, BANKS, 0)
    ends = [cosine(early[5], late[7]), cosine(first[5], second[7])]
    expect(page.locator(".finding")).to_have_text(
        f"The same word “bank”: cosine {ends[0]:.2f} at the input, {ends[1]:.2f} after layer 6."
    )
    expect(chip(page, "bank", 0)).to_have_class(re.compile("chosen"))
    expect(chip(page, "bank", 1)).to_have_class(re.compile("other"))
    expect(page.locator(".heatmap figcaption")).to_have_text(
        "Vector of “bank” (first text) and “bank” (second text)"
    )
    expect(page.locator(".chips-title").first).to_have_text("First text: 11 of at most 256 tokens")
    page.get_by_role("combobox", name="Vectors").select_option("position")
    expect(page.locator("figure.chart")).to_have_count(0)


def test_unknown_tokens_are_not_the_same_word(open_view: OpenView) -> None:
    page = open_view("tokens")
    page.get_by_label("Text", exact=True).fill("🦊")
    page.get_by_label("Another text (optional)").fill("🐻")
    expect(page.locator(".finding")).to_have_text(
        "“🦊” (first text) and “🐻” (second text) are both unknown to the model: "
        "cosine 1.00 at the input, 1.00 after layer 6."
    )
    expect(page.get_by_role("heading", name="“🦊” · id 100, unknown, characters")).to_be_visible()
    page.get_by_text("All tokens as a table").click()
    kinds = page.locator("tbody tr td:nth-child(4)").all_text_contents()
    assert kinds == ["special", "unknown", "special"] * 2


def test_the_highest_cosine_has_the_strongest_color(open_view: OpenView) -> None:
    page = open_view("tokens?first=river&second=a+river+and+the+sea")
    chips, style = page.locator(".chip"), "it => getComputedStyle(it).backgroundColor"
    shown = []
    for theme in ("light", "dark"):
        page.get_by_label("Theme").select_option(theme)
        expect(chips.filter(has_text="1.00")).to_have_count(1)
        shown.append(chips.evaluate_all(f"chips => chips.map({style})"))
        channels = [[int(number) for number in re.findall(r"\d+", color)] for color in shown[-1]]
        saturations = [1 - min(color) / max(color) for color in channels]
        strongest = saturations.index(max(saturations))
        expect(chips.nth(strongest)).to_contain_text("1.00")
    assert shown[0] != shown[1]


def test_a_chart_says_the_values_at_the_pointer_and_at_the_arrow_keys(
    server: Server, open_view: OpenView
) -> None:
    page = open_view("tokens")
    chart, values = page.locator(".chart > svg"), page.locator(".chart .values")
    first, second = states(server, BANKS, 3)
    expected = cosine(first[5], second[7])
    chart.hover()  # in the middle: layer 3 of 6
    expect(values).to_have_text(re.compile(r"^layer 3: "))
    assert float((values.text_content() or "").split()[-1]) == pytest.approx(expected, abs=6e-4)
    chart.focus()
    page.keyboard.press("ArrowRight")
    expect(values).to_have_text(re.compile(r"^layer 4: "))


def test_the_scale_of_a_chart_has_round_numbers(open_view: OpenView) -> None:
    page = open_view("positions?scheme=rotary")
    chart = page.get_by_role("img", name="Score of equal vectors")
    ticks = ["0.4", "0.5", "0.6", "0.7", "0.8", "0.9", "1"]
    expect(chart.locator("text[text-anchor=end]")).to_have_text([*ticks, "63"])


def test_the_tokens_that_a_model_does_not_read_are_shown_as_dropped(open_view: OpenView) -> None:
    page = open_view("tokens")
    page.get_by_label("Text", exact=True).fill(" ".join(["word"] * 260) + " zebra")
    expect(page.locator(".cut")).to_have_text(
        "✂ cut off here: the model does not read the last 7 tokens"
    )
    assert page.locator(".chip.dropped").all_text_contents() == ["word"] * 6 + ["zebra"]


def test_the_table_of_tokens_has_characters_and_bytes(open_view: OpenView) -> None:
    page = open_view("tokens")
    page.get_by_label("Text", exact=True).fill("é red")
    page.get_by_text("All tokens as a table").click()
    row = page.locator("tbody tr").nth(2)
    expect(row.locator("td").nth(2)).to_have_text("red")
    assert row.locator("td").all_text_contents()[4:6] == ["2–5", "3–6"]


@pytest.mark.parametrize("label", ["Text", "Another text (optional)"])
def test_the_inputs_stay_above_the_results_when_one_is_cleared(
    open_view: OpenView, label: str
) -> None:
    page = open_view("tokens")
    page.locator("figure.chart").wait_for()
    page.get_by_label(label, exact=True).fill("")
    expect(page.locator(".chips")).to_have_count(1)
    expect(page.locator("figure.chart")).to_have_count(0)
    places = [page.locator(part).first.bounding_box() for part in (".lead", ".columns", ".chips")]
    places += [page.locator(part).first.bounding_box() for part in ("h2", ".heatmap", ".copy")]
    tops = [place["y"] for place in places if place]
    assert len(tops) == 6
    assert tops == sorted(tops)


@pytest.mark.parametrize(
    ("view", "labels", "hint"),
    [
        ("tokens", ["Text", "Another text (optional)"], "Type a text to see its tokens."),
        ("similarity", ["Queries, one per line"], "Type a query and a text to compare them."),
        ("document", ["Query"], "Type a query and a document to search in it."),
    ],
)
def test_an_empty_input_says_what_to_type(
    open_view: OpenView, view: str, labels: list[str], hint: str
) -> None:
    page = open_view(view)
    page.locator(".copy").wait_for()
    for label in labels:
        page.get_by_label(label, exact=True).fill(" ")
    expect(page.get_by_text(hint)).to_be_visible()
    expect(page.locator(".copy")).to_have_count(0)
    assert "0" not in (page.locator("main").text_content() or "").replace("int8", "")[-40:]


@pytest.mark.parametrize(
    ("scheme", "choice", "table"),
    [
        ("rotary", ("Base", "base", 500), "cos"),
        ("alibi", ("Heads", "heads", 4), "bias"),
        ("relative", ("Buckets", "buckets", 16), "buckets"),
        ("mpnet", ("Largest distance", "max_distance", 32), "buckets"),
        ("disentangled", ("Buckets", "buckets", 64), "buckets"),
        ("transformer_xl", ("Dimensions", "dim", 32), "vectors"),
        ("sinusoidal", ("Dimensions", "dim", 32), "vectors"),
    ],
)
def test_a_scheme_is_drawn_with_its_parameters(
    server: Server, open_view: OpenView, scheme: str, choice: tuple[str, str, int], table: str
) -> None:
    label, option, value = choice
    page = open_view("positions")
    page.get_by_role("combobox", name="Compare with").select_option(scheme)
    slide(page, "Positions", 24)
    field, chosen = page.get_by_role("spinbutton", name=label), f'"{option}":{value}'
    with page.expect_request(lambda request: chosen in (request.post_data or "")) as info:
        field.fill(str(value))
        field.press("Enter")
    body = json.loads(info.value.post_data or "")
    section = page.locator("section").nth(1)
    expect(section.locator("p.readout")).to_contain_text(f"{label.lower()} {value}")
    expected = np.array(server.post("/positions", body).json()[table], dtype=float)
    rows = expected[0] if expected.ndim == 3 else expected
    canvas = section.locator("canvas").first
    for side, size in zip(("height", "width"), rows.shape, strict=True):
        expect(canvas).to_have_js_property(side, size)
    canvas.focus()
    page.keyboard.press("ArrowDown")
    readout = section.locator("figure .readout").first.text_content() or ""
    assert float(readout.rpartition(": ")[2]) == pytest.approx(rows[1, 0], rel=0.01)


def test_the_scalings_of_rotary_angles_are_compared(open_view: OpenView) -> None:
    page = open_view("positions?scheme=rotary&scaling=yarn&factor=8")
    chart = page.get_by_role("img", name="Scalings compared, factor 8")
    lines = (chart.get_attribute("aria-label") or "").split("; ")
    assert [line.split(". ")[-1].partition(":")[0] for line in lines] == [
        *("default", "linear", "dynamic", "ntk", "yarn", "llama3")
    ]
    assert len({line.partition("to ")[2] for line in lines}) > 3


def matrix(page: Page) -> NDArray[np.float64]:
    """The numbers of the table of similarities."""
    rows = page.locator("table.matrix tbody tr").all()
    texts = [row.locator("td").all_text_contents() for row in rows]
    return np.array(texts, dtype=float)


def test_two_lists_are_compared_by_any_metric(server: Server, open_view: OpenView) -> None:
    page = open_view("similarity")
    page.get_by_label("Queries, one per line", exact=True).fill("a red fox\na ship")
    page.get_by_label("Texts, one per line", exact=True).fill("an animal\na boat\na stone")
    expect(page.locator("table.matrix")).to_contain_text("a stone")
    texts = {"a": ["a red fox", "a ship"], "b": ["an animal", "a boat", "a stone"]}
    for metric in ("dot", "euclidean", "manhattan", "cosine"):
        page.get_by_role("combobox", name="Metric").select_option(metric)
        heading = page.get_by_role("heading", name="of every pair")
        expect(heading).to_contain_text(metric.capitalize())
        expect(page.get_by_role("status").first).to_have_text("")
        expected = server.post("/similarity", {**texts, "metric": metric}).json()["scores"]
        np.testing.assert_allclose(matrix(page), expected, atol=6e-4)


def test_the_text_of_a_long_input_is_clipped_and_said_to_be_cut(open_view: OpenView) -> None:
    page = open_view("similarity")
    page.get_by_label("Queries, one per line", exact=True).fill("word " * 600)
    expect(page.get_by_role("note")).to_have_text(
        "✂ The model reads only the start of one text: the rest is not compared."
    )
    assert len(page.locator(".columns strong").text_content() or "") <= 160


def test_smaller_vectors_show_what_they_change(
    server_any_dimensions: Server, open_view: OpenView
) -> None:
    page = open_view("similarity", server_any_dimensions.url)
    page.get_by_label("Queries, one per line", exact=True).fill("a red fox\na ship")
    page.get_by_label("Texts, one per line", exact=True).fill("an animal\na boat\na stone")
    expect(page.locator("table.matrix")).to_contain_text("a stone")
    slide(page, "Dimensions", 64)
    page.get_by_role("combobox", name="Numbers").select_option("int8")
    expect(page.locator(".tile").first).to_have_text(
        "64bytes per vector instead of 1536 (24 times fewer)"
    )
    texts = ["a red fox", "a ship", "an animal", "a boat", "a stone"]
    body = {"inputs": texts, "dimensions": 64, "output_dtype": "int8"}
    vectors = np.array(server_any_dimensions.post("/embed", body).json(), dtype=float)
    expected = [[cosine(a, b) for b in vectors[2:]] for a in vectors[:2]]
    np.testing.assert_allclose(matrix(page), expected, atol=6e-4)


def test_the_copied_request_has_the_chosen_dimensions(
    server_any_dimensions: Server, open_view: OpenView
) -> None:
    page = open_view("similarity?dimensions=64&type=int8", server_any_dimensions.url)
    page.locator(".tile").first.wait_for()
    for kind, interpreter in (("curl", ["bash", "-c"]), ("Python", [sys.executable, "-c"])):
        page.get_by_role("button", name=f"Copy as {kind}").click()
        page.get_by_text(f"Copied as {kind}").wait_for()
        copied = page.evaluate("navigator.clipboard.readText()")
        done = subprocess.run([*interpreter, copied], capture_output=True, check=True)
        vectors = json.loads(done.stdout)
        assert np.shape(vectors) == (8, 64)
        assert all(isinstance(number, int) for number in vectors[0])


def test_a_copied_request_says_that_the_server_does_not_cut_vectors(open_view: OpenView) -> None:
    page = open_view("similarity?dimensions=64")
    page.locator(".tile").first.wait_for()
    page.get_by_role("button", name="Copy as curl").click()
    page.get_by_text("Copied as curl").wait_for()
    copied = page.evaluate("navigator.clipboard.readText()")
    comment = copied.splitlines()[0]
    assert comment.startswith("# ")
    assert "64 dimensions" in comment
    done = subprocess.run(["bash", "-c", copied], capture_output=True, check=True)
    assert np.shape(json.loads(done.stdout)) == (8, 384)


def test_sentences_in_context_are_ranked_next_to_sentences_alone(
    server: Server, open_view: OpenView
) -> None:
    page = open_view("document")
    best = page.locator("section p strong")
    expect(best).to_have_text(
        ["The city has 3.85 million inhabitants.", "Berlin is the capital of Germany."]
    )
    page.get_by_label("Query", exact=True).fill("Where do the Spanish govern?")
    expect(best.nth(1)).to_have_text("Madrid is the capital of Spain.")
    query = "Where do the Spanish govern?", "Madrid is the capital of Spain."
    expected = server.post("/similarity", {"a": [query[0]], "b": [query[1]]}).json()["scores"][0][0]
    sentence = page.locator("section").nth(1).locator(".sentence").nth(3)
    expect(sentence).to_have_text(f"{query[1]}#1 · {expected:.2f}")


def test_a_document_that_is_too_long_says_what_is_left_out(open_view: OpenView) -> None:
    page = open_view("document")
    sentence = "The quick brown fox jumps over the lazy dog. "
    page.get_by_label("Document", exact=True).fill(sentence * 40)
    context, alone = page.locator("section").nth(0), page.locator("section").nth(1)
    expect(context.locator(".cut")).to_have_text(
        "✂ The document is longer than the model reads: the last 15 sentences are left out."
    )
    expect(context.locator(".sentence")).to_have_count(25)
    expect(alone.locator(".sentence")).to_have_count(40)  # each of them fits


ANIMALS = [f"a {color} {animal}" for color in ("red", "blue") for animal in ("fox", "cat", "owl")]
SHIPS = [f"{count} ships on the sea" for count in ("two", "three", "ten", "many")]


def saved_map(page: Page) -> list[dict[str, str]]:
    """The rows of the map, as saved."""
    with page.expect_download() as download:
        page.get_by_role("button", name="Save as CSV").click()
    return list(csv.DictReader(io.StringIO(Path(download.value.path()).read_text("utf-8"))))


def csv_of(texts: Sequence[str], kind: str) -> str:
    return "".join(f'{kind},"{text}"\n' for text in texts)


def test_a_dropped_table_is_mapped_by_its_principal_components(
    server: Server, open_view: OpenView
) -> None:
    page = open_view("map")
    page.locator("figure canvas").wait_for()
    drop(page, "things.csv", "kind,name\n" + csv_of(ANIMALS, "animal") + csv_of(SHIPS, "ship"))
    expect(page.locator("figcaption")).to_contain_text("10 texts")
    rows = saved_map(page)
    assert [row["name"] for row in rows] == ANIMALS + SHIPS
    expect(page.locator(".legend")).to_have_text("animalship")
    vectors = np.array(server.post("/embed", {"inputs": ANIMALS + SHIPS}).json())
    left, singular, _ = np.linalg.svd(vectors - vectors.mean(axis=0), full_matrices=False)
    expected = (left * singular)[:, :2]
    actual = np.array([[float(row["x"]), float(row["y"])] for row in rows])
    signs = np.sign((actual * expected).sum(axis=0))
    np.testing.assert_allclose(actual * signs, expected, atol=1e-5)
    share = 100 * singular**2 / (singular**2).sum()
    expect(page.locator("figcaption")).to_contain_text(f"{share[0]:.1f} % and {share[1]:.1f} %")


def test_umap_keeps_groups_apart_and_neighbours_are_of_all_dimensions(
    server: Server, open_view: OpenView
) -> None:
    page = open_view("map")
    page.locator("figure canvas").wait_for()
    drop(page, "things.jsonl", "".join(f"{json.dumps(text)}\n" for text in ANIMALS + SHIPS))
    expect(page.locator("figcaption")).to_contain_text("10 texts")
    page.get_by_role("combobox", name="Projection").select_option("umap")
    expect(page.locator("figcaption")).to_contain_text("UMAP of the first 9 principal components")
    points = np.array([[float(row["x"]), float(row["y"])] for row in saved_map(page)])
    animals, ships = points[:6].mean(axis=0), points[6:].mean(axis=0)
    assert np.linalg.norm(points[:6] - animals, axis=1).max() < np.linalg.norm(animals - ships)
    page.locator("figure canvas").focus()
    page.keyboard.press("ArrowRight")
    body = {"a": [ANIMALS[0]], "b": [*ANIMALS[1:], *SHIPS]}
    scores = server.post("/similarity", body).json()["scores"][0]
    nearest = [body["b"][i] for i in np.argsort(scores)[::-1][:8]]
    assert page.locator("figure ol button").all_text_contents() == nearest


def test_the_map_is_seen_without_scrolling_and_fills_its_frame(open_view: OpenView) -> None:
    for width, height in ((1280, 900), (390, 844)):
        page = open_view("map")
        page.set_viewport_size({"width": width, "height": height})
        expect(page.locator("figure canvas")).to_be_in_viewport(ratio=1)
        assert min(vivid_shares(page)) > 0.7


def test_texts_are_drawn_where_they_are_seen(open_view: OpenView) -> None:
    page = open_view("map")
    page.set_viewport_size({"width": 390, "height": 640})
    page.get_by_role("textbox", name="Texts").fill("one\ntwo\nthree\nfour")
    button, canvas = page.get_by_role("button", name="Embed and draw"), page.locator("canvas")
    button.evaluate("button => button.scrollIntoView({ block: 'start' })")
    expect(canvas).not_to_be_in_viewport()
    button.click()
    expect(page.locator("figcaption")).to_contain_text("4 texts")
    expect(canvas).to_be_in_viewport(ratio=1)


def vivid_shares(page: Page) -> tuple[float, float]:
    """The shares of the map's width and height over which points have their full color."""
    pixels = np.array(Image.open(io.BytesIO(page.locator("figure canvas").screenshot())), int)
    vivid = np.ptp(pixels[..., :3], axis=2) > 80
    width, height = (np.ptp(np.flatnonzero(vivid.any(axis=axis))) for axis in (0, 1))
    return float(width / pixels.shape[1]), float(height / pixels.shape[0])


def test_a_text_is_found_on_the_map(open_view: OpenView) -> None:
    page = open_view("map")
    page.locator("figure canvas").wait_for()
    page.get_by_label("Find texts").fill("BY THE")
    expect(page.get_by_text("1 of 20 texts", exact=True)).to_be_visible()
    expect(page.get_by_role("heading", name="1 of 20 texts with “BY THE”")).to_be_visible()
    while max(vivid_shares(page)) > 0.05:  # until the others are faded
        page.wait_for_timeout(50)
    with page.expect_download() as download:
        page.get_by_role("button", name="Save 1 as CSV").click()
    assert "horses" in Path(download.value.path()).read_text("utf-8").splitlines()[1]
    page.locator(".marked button").click()
    expect(page.get_by_role("heading", name="Nearest to “Two horses")).to_be_visible()
    page.get_by_role("button", name="Show all").click()
    expect(page.get_by_label("Find texts")).to_have_value("")
    assert len(saved_map(page)) == 20


def test_texts_within_a_drawn_line_are_listed(open_view: OpenView) -> None:
    page = open_view("map")
    canvas = page.locator("figure canvas")
    canvas.wait_for()
    page.get_by_label("Find texts").fill("owl")
    box = canvas.bounding_box()
    assert box
    middle = box["x"] + box["width"] / 2
    page.mouse.move(middle, box["y"] + 1)
    page.mouse.down()
    for x, y in ((middle, 0.99), (box["x"] + 1, 0.99), (box["x"] + 1, 0.01)):
        page.mouse.move(x, box["y"] + y * box["height"], steps=5)
    page.mouse.up()
    expect(page.get_by_label("Find texts")).to_have_value("")
    heading = page.get_by_role("heading", name="of 20 texts within the line")
    expect(heading).to_be_visible()
    listed = page.locator(".marked button").all_text_contents()
    page.get_by_role("button", name="Show all").click()
    rows = saved_map(page)
    xs = [float(row["x"]) for row in rows]
    center = (min(xs) + max(xs)) / 2
    assert listed == [row["text"] for row, x in zip(rows, xs, strict=True) if x < center]
    canvas.click(position={"x": 1, "y": 1})
    expect(heading).to_have_count(0)


def test_a_finger_draws_a_line_after_a_press_of_the_button(
    browser: Browser, server: Server
) -> None:
    context = browser.new_context(viewport={"width": 390, "height": 844}, has_touch=True)
    page = context.new_page()
    page.goto(f"{server.url}/playground#map")
    canvas = page.locator("figure canvas")
    canvas.wait_for()
    canvas.scroll_into_view_if_needed()
    button = page.get_by_role("button", name="Draw a line around texts")
    button.tap()
    expect(button).to_have_attribute("aria-pressed", "true")
    box = canvas.bounding_box()
    assert box
    left, top, right, bottom = (
        box["x"] + 1,
        box["y"] + 1,
        box["x"] + box["width"] - 1,
        box["y"] + box["height"] - 1,
    )
    client = context.new_cdp_session(page)

    def touch(kind: str, *points: tuple[float, float]) -> None:
        places = [{"x": x, "y": y} for x, y in points]
        client.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": places})

    touch("touchStart", (left, top))
    for corner in ((left, top + 40), (left, bottom), (right, bottom), (right, top)):
        touch("touchMove", corner)
    touch("touchEnd")
    expect(page.get_by_role("heading", name="20 of 20 texts within the line")).to_be_visible()
    expect(button).to_have_attribute("aria-pressed", "false")
    context.close()


def test_the_button_for_fingers_is_for_screens_that_have_touch(open_view: OpenView) -> None:
    page = open_view("map")
    page.locator("figure canvas").wait_for()
    expect(page.get_by_text("Draw a line around texts", exact=True)).to_be_hidden()


@pytest.mark.parametrize(
    ("columns", "rows", "chosen", "offered"),
    [
        ("id,text", [f"a{i},text {i}" for i in range(12)], "", [""]),
        ("id,text", [f"{i},text {i}" for i in range(12)], "", ["", "id"]),
        ("id,kind,text", [f"a{i},k{i % 2},text {i}" for i in range(12)], "kind", ["", "kind"]),
        ("title,text", [f"t{i // 2 * 2},text {i}" for i in range(24)], "title", ["", "title"]),
        ("title,text", [f"t{max(i, 2)},text {i}" for i in range(24)], "", [""]),
    ],
)
def test_points_are_colored_by_a_column_of_groups(
    open_view: OpenView, columns: str, rows: list[str], chosen: str, offered: list[str]
) -> None:
    page = open_view("map")
    page.locator("figure canvas").wait_for()
    drop(page, "texts.csv", "\n".join([columns, *rows]))
    expect(page.locator("figcaption")).to_contain_text(f"{len(rows)} texts")
    choice = page.get_by_role("combobox", name="Colour by")
    expect(choice).to_have_value(chosen)
    names = choice.get_by_role("option").evaluate_all("options => options.map(it => it.value)")
    assert names == offered


def test_groups_differ_by_their_shapes_too(open_view: OpenView) -> None:
    page = open_view("map")
    legend = page.locator(".legend li")
    expect(legend).to_have_text(["animal", "food", "money", "travel"])
    outlines = [item.locator("svg").evaluate("svg => svg.innerHTML") for item in legend.all()]
    assert len(set(outlines)) == 4


def test_a_map_of_earlier_texts_is_dimmed_until_it_is_drawn_again(open_view: OpenView) -> None:
    page = open_view("map")
    page.locator("figure canvas").wait_for()
    expect(page.locator(".stale")).to_have_count(0)
    page.get_by_role("textbox", name="Texts").fill("one\ntwo\nthree\nfour")
    expect(page.locator(".stale").filter(has=page.locator("canvas"))).to_be_visible()
    expect(page.locator(".stale")).to_have_css("opacity", re.compile(r"0\.[1-6]"))
    page.get_by_role("button", name="Embed and draw").click()
    expect(page.locator("figcaption")).to_contain_text("4 texts")
    expect(page.locator(".copy").last).to_contain_text("The link does not contain your texts.")
    expect(page.locator(".stale")).to_have_count(0)


PASTED: list[tuple[str, list[str], str | None]] = [
    ("kind;name\na;one fox\na;two cats\nb;three", ["one fox", "two cats", "three"], "ab"),
    ("kind\tname\na\tone\na\ttwo\nb\tthree", ["one", "two", "three"], "ab"),
    ("kind,name\na,one\na,two\nb,three", ["one", "two", "three"], "ab"),
    ('{"name": "one"}\n{"name": "two"}\n{"name": "three"}', ["one", "two", "three"], None),
    ("{one\n{two\n{three", ["{one", "{two", "{three"], None),
    ("Hello, world\nBye, moon\nYes, sun", ["Hello, world", "Bye, moon", "Yes, sun"], None),
    ("a;b and c\nonly one\nhere; no table", ["a;b and c", "only one", "here; no table"], None),
    (
        "grade,text\n10,one\n9,two\n10,three\n9.5,four\n100,five",
        ["one", "two", "three", "four", "five"],
        "99.510100",
    ),
]


def test_a_pasted_table_is_recognised(open_view: OpenView) -> None:
    page = open_view("map")
    page.locator("figure canvas").wait_for()
    for pasted, texts, legend in PASTED:
        page.get_by_role("textbox", name="Texts").fill(pasted)
        expect(page.locator(".stale")).not_to_have_count(0)
        page.get_by_role("button", name="Embed and draw").click()
        expect(page.locator(".stale")).to_have_count(0)
        expect(page.locator("figcaption")).to_contain_text(f"{len(texts)} texts")
        rows = saved_map(page)
        assert [row.get("name", row.get("text")) for row in rows] == texts
        if legend:
            expect(page.locator(".legend")).to_have_text(legend)


def test_a_map_can_be_cancelled_and_drawn_again(open_view: OpenView) -> None:
    page = open_view("map")
    page.locator("figure canvas").wait_for()
    drop(page, "many.txt", "\n".join(f"text number {i} {'word ' * 60}" for i in range(3000)))
    expect(page.get_by_role("status").first).to_contain_text("Embedded")
    page.get_by_role("button", name="Cancel").click()
    expect(page.get_by_role("status").first).to_have_text("Cancelled. ")
    expect(page.locator("figcaption")).to_contain_text("20 texts")  # the earlier map is still there
    drop(page, "few.txt", "one\ntwo\nthree")
    expect(page.locator("figcaption")).to_contain_text("3 texts")


def test_a_file_that_cannot_be_mapped_says_why(open_view: OpenView) -> None:
    page = open_view("map")
    page.locator("figure canvas").wait_for()
    for name, content, message in (
        ("two.txt", "one\ntwo", "A map needs at least three texts."),
        ("bad.jsonl", '"one"\n{', "line 2 of bad.jsonl is not JSON"),
        ("empty.csv", "", "A map needs at least three texts."),
    ):
        drop(page, name, content)
        expect(page.get_by_role("status").first).to_contain_text(message)


def test_the_server_view_counts_what_is_embedded(server: Server, open_view: OpenView) -> None:
    page = open_view("server")
    tokens = page.locator(".tile").nth(2)
    expect(tokens).to_contain_text("tokens per second")
    expect(page.locator("dl.facts").first).to_contain_text("all-MiniLM-L6-v2")
    for _ in range(50):
        server.post("/embed", {"inputs": "a text of some words"})
        if not (tokens.text_content() or "").startswith("0"):
            break
        page.wait_for_timeout(100)
    expect(tokens).not_to_have_text(re.compile("^0"))
    ends = page.locator(".chart").first.locator("svg text").all_text_contents()
    assert [text for text in ends if "s ago" in text or text == "now"] == ["60 s ago", "now"]
    expect(page.locator(".tile").nth(4)).to_have_text(re.compile(r"^\S+ msmedian"))


def test_the_copied_program_reads_the_metrics(open_view: OpenView) -> None:
    page = open_view("server")
    page.get_by_role("button", name="Copy as Python").click()
    page.get_by_text("Copied as Python").wait_for()
    program = page.evaluate("navigator.clipboard.readText()")
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    assert b"embedwell_requests_total" in done.stdout


@pytest.mark.parametrize("view", ["tokens", "positions", "similarity", "document", "map"])
def test_a_copied_command_and_program_give_what_the_page_shows(
    open_view: OpenView, context: BrowserContext, view: str
) -> None:
    page = open_view(view)
    by_curl, by_python = copied_results(page)
    assert by_curl == by_python


def test_the_link_to_a_view_restores_it(open_view: OpenView) -> None:
    page = open_view("similarity")
    page.get_by_label("Queries, one per line", exact=True).fill("süß & 50 % off?\n#2")
    page.get_by_role("combobox", name="Metric").select_option("dot")
    page.get_by_role("button", name="Copy link").click()
    page.get_by_text("Copied the link").wait_for()
    page.get_by_role("combobox", name="Metric").select_option("cosine")
    expect(page.get_by_text("Copied the link")).to_have_count(0)
    link = page.evaluate("navigator.clipboard.readText()")
    again = open_view(link.partition("#")[2])
    assert (
        again.get_by_label("Queries, one per line", exact=True).input_value()
        == "süß & 50 % off?\n#2"
    )
    expect(again.get_by_role("combobox", name="Metric")).to_have_value("dot")


def test_a_key_is_typed_in_and_kept_from_links_and_commands(
    minilm_folder: Path, context: BrowserContext
) -> None:
    with local_server(minilm_folder, api_key="sesame") as server:
        page = context.new_page()
        page.goto(f"{server.url}/playground#tokens")
        status = page.get_by_role("status").first
        expect(status).to_contain_text("This server needs an API key: enter it at the top")
        expect(page.locator("header .model")).to_have_text("needs an API key")
        page.get_by_label("API key").fill("simsim")
        page.get_by_label("API key").press("Enter")
        expect(status).to_contain_text("Invalid API key: correct it at the top")
        page.get_by_label("API key").fill("sesame")
        page.get_by_label("API key").press("Enter")
        chip(page, "river", 0).wait_for()
        page.get_by_role("button", name="Copy as curl").click()
        page.get_by_text("Copied as curl").wait_for()
        command = page.evaluate("navigator.clipboard.readText()")
        assert "sesame" not in command + page.url
        env = {**os.environ, "EMBEDWELL_API_KEY": "sesame"}
        done = subprocess.run(["bash", "-c", command], capture_output=True, check=True, env=env)
        assert len(json.loads(done.stdout)["results"]) == 2
        page.close()


def test_a_key_that_is_being_typed_stays_when_the_page_is_drawn_again(
    minilm_folder: Path, context: BrowserContext
) -> None:
    with local_server(minilm_folder, api_key="sesame") as server:
        page = context.new_page()
        page.goto(f"{server.url}/playground")
        page.get_by_label("API key").fill("sesame")
        page.evaluate("location.hash = '#tokens'")
        page.get_by_role("heading", name="Tokens", level=1).wait_for()
        expect(page.get_by_label("API key")).to_have_value("sesame")
        page.close()


def test_the_page_works_under_a_prefix(minilm_folder: Path, context: BrowserContext) -> None:
    with local_server(minilm_folder, root_path="/vectors") as server:
        page = context.new_page()
        page.goto(f"{server.url}/vectors/playground")
        page.get_by_role("list", name="Nearest texts").wait_for()
        page.close()


def test_an_error_of_the_server_is_shown(minilm_folder: Path, context: BrowserContext) -> None:
    with local_server(minilm_folder, max_values=1000) as server:
        page = context.new_page()
        page.goto(f"{server.url}/playground#positions")
        expect(page.get_by_role("status").first).to_contain_text("1000")
        page.close()
