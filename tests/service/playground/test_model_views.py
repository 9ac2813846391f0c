"""The views of rerankers, classifiers, sparse, multi-vector and image models."""

import base64
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import BrowserContext, Locator, Page, expect

from tests.models.cross_encoder import write_cross_encoder
from tests.models.image_models import encoded, picture
from tests.service.local_server import local_server
from tests.service.playground.conftest import OpenView
from tests.service.playground.copied import copied_results
from tests.service.server import SeveralModels

pytestmark = pytest.mark.full

PNG = encoded(picture(40, 40))
DOCUMENTS = ["the work is licensed", "a copy of it", "not by you"]


def bars(page: Page, label: str) -> list[tuple[str, float, str]]:
    """The name, number and note of each bar of a list."""
    items = page.get_by_role("list", name=label).get_by_role("listitem")
    items.first.wait_for()
    return [
        (
            text_of(item, ".name"),
            float(text_of(item, ":scope > b")),
            text_of(item, ":scope > small"),
        )
        for item in items.all()
    ]


def text_of(item: Locator, selector: str) -> str:
    """The text of a part; "" if there is none."""
    return " ".join("".join(item.locator(selector).all_text_contents()).split())


def width(item: Locator) -> float:
    """The length of a bar, as a share of the longest that there may be."""
    share: float = item.evaluate(
        "item => item.querySelector('.bar').getBoundingClientRect().width"
        " / item.querySelector('.track').getBoundingClientRect().width"
    )
    return share


@pytest.mark.parametrize(
    ("model", "options"),
    [
        ("reranker", {}),
        ("reranker", {"raw_scores": True}),
        ("colbert", {}),
        ("org/m3", {}),
        ("clip", {}),
    ],
)
def test_documents_are_ranked_as_the_server_does(
    several: SeveralModels, open_view: OpenView, model: str, options: dict[str, bool]
) -> None:
    page = open_view(f"rerank?model={model}{'&scores=logit' if options else ''}", several.url)
    page.get_by_label("Query", exact=True).fill("the license")
    page.get_by_label("Documents, one per line", exact=True).fill(
        "\n".join([*DOCUMENTS, "", "of " * 100])
    )
    expect(page.get_by_text("4 documents, ")).to_be_visible()
    body = {"query": "the license", "documents": [*DOCUMENTS, "of " * 100], "model": model}
    expected = several.post("/rerank", {**body, **options}).json()["results"]
    shown = bars(page, "Documents by relevance")
    assert [name[:5] for name, *_ in shown] == [
        f"{place}. {body['documents'][item['index']][:2]}"
        for place, item in enumerate(expected, start=1)
    ]
    scores = [item["relevance_score"] for item in expected]
    np.testing.assert_allclose([score for _, score, _ in shown], scores, atol=6e-4)
    expect(page.get_by_role("note")).to_have_text(
        "✂ The model reads only the start of one document: the rest is not ranked."
    )
    [cut] = [note for name, _, note in shown if "of of" in name]
    assert re.fullmatch(r"line 4, \d+ tokens read, ✂ \d+ left out", cut)
    first = page.locator(".bars li").first
    if model == "reranker" and not options:
        assert width(first) == pytest.approx(scores[0], abs=0.01)


def test_a_negative_logit_has_a_bar_that_ends_at_zero(
    several: SeveralModels, open_view: OpenView
) -> None:
    page = open_view("rerank?model=reranker&scores=logit", several.url)
    page.locator(".bars li").first.wait_for()
    ends = page.evaluate(
        "[...document.querySelectorAll('.bars li')].map(item => {"
        "const [bar, track] = ['.bar', '.track'].map(name =>"
        " item.querySelector(name).getBoundingClientRect());"
        "const at = x => (x - track.left) / track.width;"
        "const number = Number(item.querySelector(':scope > b').textContent);"
        "return [number, at(bar.left), at(bar.right)];"
        "})"
    )
    scores = np.array([score for score, *_ in ends])
    low, high = min(0, scores.min()), max(0, scores.max())
    assert low < 0
    for score, left, right in ends:
        zero = -low / (high - low)
        expected = sorted([zero, (score - low) / (high - low)])
        np.testing.assert_allclose([left, right], expected, atol=0.01)


@pytest.mark.parametrize("second", ["", "the copyright"])
def test_labels_are_those_of_a_text_or_a_pair(
    several: SeveralModels, open_view: OpenView, second: str
) -> None:
    page = open_view("classify", several.url)
    page.get_by_label("Texts, one per line", exact=True).fill("the work\nnot by you")
    page.get_by_label("Second texts, for pairs (optional)", exact=True).fill(second)
    names = [f"{text} / {second}" if second else text for text in ("the work", "not by you")]
    inputs = [name.split(" / ") for name in names]
    expected = several.post("/predict", {"inputs": inputs, "model": "classifier"}).json()
    for name, labels in zip(names, expected, strict=True):
        shown = bars(page, f"Labels of {name}")
        assert [label for label, *_ in shown] == [item["label"] for item in labels]
        scores = [item["score"] for item in labels]
        np.testing.assert_allclose([score for _, score, _ in shown], scores, atol=6e-4)
    assert width(page.locator(".bars li").first) == pytest.approx(expected[0][0]["score"], abs=0.01)


def test_fewer_labels_are_shown_and_the_rest_is_counted(
    several: SeveralModels, open_view: OpenView
) -> None:
    page = open_view("classify?best=1&texts=the+work", several.url)
    expect(page.locator(".bars li")).to_have_count(1)
    expect(page.get_by_text("2 more labels")).to_be_visible()


def words(several: SeveralModels, ids: Iterable[int], model: str = "splade") -> list[str]:
    """The texts of token ids."""
    body = {"ids": [[id] for id in ids], "model": model, "skip_special_tokens": False}
    texts: list[str] = several.post("/decode", body).json()
    return texts


def sparse(several: SeveralModels, text: str, **options: Any) -> dict[int, float]:
    """The weights of a text by their ids, the largest first."""
    [entries] = several.post("/embed_sparse", {"inputs": text, **options}).json()
    entries.sort(key=lambda entry: -entry["value"])
    return {entry["index"]: entry["value"] for entry in entries}


def test_words_have_their_weights_and_those_of_the_text_stand_apart(
    several: SeveralModels, open_view: OpenView
) -> None:
    text = "the work of a license"
    page = open_view("sparse", several.url)
    page.get_by_label("Text", exact=True).fill(text)
    page.get_by_label("Another text (optional)", exact=True).fill("")
    weights = sparse(several, text, model="splade")
    largest = page.get_by_role("list", name="Text: largest weights")  # of the new text, in a while
    expect(largest.get_by_role("listitem").first).to_contain_text(words(several, weights)[0])
    shown = bars(page, "Text: largest weights")
    assert [word for word, *_ in shown] == words(several, weights)[:20]
    expected = [*weights.values()][:20]
    np.testing.assert_allclose([weight for _, weight, _ in shown], expected, atol=6e-4)
    body = {"inputs": text, "add_special_tokens": False, "model": "splade"}
    own = {token["id"] for token in several.post("/tokenize", body).json()[0]}
    added = words(several, [id for id in [*weights][:20] if id not in own])
    assert added and len(added) < 20
    assert page.locator(".bars .added").all_text_contents() == added
    assert page.locator(".sentence.added").all_text_contents() == added
    in_text = page.locator(".reading").first.locator(".sentence").all_text_contents()
    tokens = several.post("/tokenize", body).json()[0]
    assert in_text == [token["text"] for token in tokens if token["id"] in weights]
    expect(page.locator(".reading").first).to_have_text(text)


def test_words_of_both_texts_have_the_product_of_their_weights(
    several: SeveralModels, open_view: OpenView
) -> None:
    texts = ["the work of a license", "copy the license"]
    page = open_view("sparse", several.url)
    page.get_by_label("Text", exact=True).fill(texts[0])
    page.get_by_label("Another text (optional)", exact=True).fill(texts[1])
    page.get_by_role("heading", name="Words of both texts").wait_for()
    first, second = (sparse(several, text, model="splade") for text in texts)
    products = {id: first[id] * second[id] for id in first if id in second}
    ordered = dict(sorted(products.items(), key=lambda item: -item[1]))
    finding = page.locator(".finding")
    expect(finding).to_contain_text(f"from {len(products)} words of both texts")
    body = {"a": texts[:1], "b": texts[1:], "metric": "dot", "model": "splade"}
    [[score]] = several.post("/similarity", body).json()["scores"]
    assert float(finding.locator("b").text_content() or "") == pytest.approx(score, abs=2e-3)
    shown = bars(page, "Products of the weights of shared words")
    assert [word for word, *_ in shown] == words(several, ordered)[:20]
    expected = [*ordered.values()][:20]
    np.testing.assert_allclose([product for _, product, _ in shown], expected, atol=6e-4)
    best = next(iter(ordered))
    assert shown[0][2] == f"{first[best]:.3f} × {second[best]:.3f}"


def test_a_query_without_an_encoder_has_the_weights_of_its_table(
    several: SeveralModels, open_view: OpenView
) -> None:
    page = open_view("sparse?model=inference-free", several.url)
    page.get_by_label("Query", exact=True).fill("the license")
    page.get_by_label("Document (optional)").fill("the license")
    page.get_by_role("heading", name="Words of both texts").wait_for()
    for label, role in (("Query", "query"), ("Document", "document")):
        expected = sparse(several, "the license", model="inference-free", input_type=role)
        shown = [weight for _, weight, _ in bars(page, f"{label}: largest weights")]
        np.testing.assert_allclose(shown, [*expected.values()][:20], atol=6e-4)
    assert len(bars(page, "Query: largest weights")) == 2


SIDES = "rows", "columns"


def framed(page: Page) -> list[list[int]]:
    """The row and the column of each frame, by the names next to it."""
    centers = """elements => elements.map(it => it.getBoundingClientRect())
        .map(box => [box.top + box.height / 2, box.left + box.width / 2])"""
    frames = page.locator(".frame").evaluate_all(centers)
    rows, columns = (page.locator(f".{axis}-axis span").evaluate_all(centers) for axis in SIDES)
    return [
        [
            min(range(len(rows)), key=lambda i: abs(rows[i][0] - top)),
            min(range(len(columns)), key=lambda j: abs(columns[j][1] - left)),
        ]
        for top, left in frames
    ]


@pytest.mark.parametrize("model", ["colbert", "org/m3"])
def test_each_query_token_has_its_best_match_and_their_sum_is_the_score(
    several: SeveralModels, open_view: OpenView, model: str
) -> None:
    query, document = "the license", "the work, is not by you."
    page = open_view(f"multi_vector?model={model}", several.url)
    page.get_by_label("Query", exact=True).fill(query)
    page.get_by_label("Document", exact=True).fill(document)
    body = {"outputs": ["multi"], "model": model}
    read = [
        several.post("/embed", {**body, "inputs": text, "input_type": role}).json()
        for text, role in ((query, "query"), (document, "document"))
    ]
    (queries, documents) = (np.array(response["multi"][0]) for response in read)
    names = [words(several, response["token_ids"][0], model) for response in read]
    cosines = queries @ documents.T
    sum_of_best = f"{cosines.max(axis=1).sum():.3f}"
    expect(page.locator(".finding b")).to_have_text(sum_of_best)
    shown = bars(page, "Best match of each query token")
    pairs = zip(names[0], cosines.argmax(axis=1), strict=True)
    assert [name for name, *_ in shown] == [f"{token} → {names[1][j]}" for token, j in pairs]
    np.testing.assert_allclose([score for _, score, _ in shown], cosines.max(axis=1), atol=6e-4)
    canvas = page.locator("canvas")
    size = [canvas.evaluate("canvas => canvas.height"), canvas.evaluate("canvas => canvas.width")]
    assert size == list(cosines.shape)
    assert [page.locator(f".{axis}-axis span").all_text_contents() for axis in SIDES] == names
    assert framed(page) == [[i, j] for i, j in enumerate(cosines.argmax(axis=1))]
    canvas.focus()
    page.keyboard.press("ArrowRight")
    expect(page.locator("figure .readout")).to_contain_text(
        f"query token “{names[0][0]}”, document token “{names[1][1]}”: "
    )
    if model == "colbert":
        assert "," not in names[1] and names[0][-1] == "[MASK]"
        compared = {"a": [query], "b": [document], "model": model}
        [[score]] = several.post("/similarity", compared).json()["scores"]
        assert float(sum_of_best) == pytest.approx(score, abs=2e-3)


def test_a_document_that_is_cut_says_so(several: SeveralModels, open_view: OpenView) -> None:
    page = open_view("multi_vector?model=colbert", several.url)
    page.get_by_label("Query", exact=True).fill("work")
    page.get_by_label("Document", exact=True).fill("of " * 100)
    expect(page.get_by_role("note")).to_have_text(
        "✂ The model reads only the start of one text: the rest is not read."
    )


def matrix(page: Page, columns: int) -> Any:
    """The table of scores, once it has as many columns."""
    expect(page.locator("table.matrix thead th")).to_have_count(columns)
    rows = page.locator("table.matrix tbody tr").all()
    return np.array([row.locator("td").all_text_contents() for row in rows], dtype=float)


def expected_scores(several: SeveralModels, page: Page, texts: list[str]) -> Any:
    urls = page.locator(".thumbs img").evaluate_all("images => images.map(image => image.src)")
    body = {"a": texts, "b": [{"image": url} for url in urls], "model": "clip"}
    return np.array(several.post("/similarity", body).json()["scores"])


PASTE = """([base64]) => {
  const bytes = Uint8Array.from(atob(base64), (character) => character.charCodeAt(0));
  const clipboardData = new DataTransfer();
  clipboardData.items.add(new File([bytes], "pasted.png", { type: "image/png" }));
  const paste = new ClipboardEvent("paste", { clipboardData, bubbles: true });
  document.activeElement.dispatchEvent(paste);
}"""


def test_images_are_compared_with_texts(
    several: SeveralModels, open_view: OpenView, tmp_path: Path
) -> None:
    page = open_view("images", several.url)
    texts = ["a red circle", "a blue square", "a green triangle", "a photo of a cat"]
    np.testing.assert_allclose(matrix(page, 3), expected_scores(several, page, texts), atol=6e-4)
    photo = tmp_path / "photo.jpg"
    photo.write_bytes(encoded(picture(90, 60), "JPEG"))
    page.get_by_label("choose files").set_input_files(photo)
    page.get_by_label("Texts, one per line", exact=True).fill("a work\na license")
    expect(page.locator("table.matrix tbody")).to_contain_text("a license")
    shown = matrix(page, 4)
    np.testing.assert_allclose(
        shown, expected_scores(several, page, ["a work", "a license"]), atol=6e-4
    )
    expect(page.locator(".thumbs .name").last).to_have_text("photo.jpg")
    page.get_by_role("button", name="Remove red circle").click()
    np.testing.assert_allclose(matrix(page, 3), shown[:, 1:], atol=1e-9)


def test_an_image_can_be_pasted_and_is_kept_for_another_model(
    several: SeveralModels, open_view: OpenView
) -> None:
    page = open_view("images", several.url)
    page.get_by_role("button", name="Remove all").click()
    expect(page.get_by_text("Type a text and choose an image")).to_be_visible()
    page.evaluate(PASTE, [base64.b64encode(PNG).decode()])
    expect(page.locator(".thumbs .name")).to_have_text("pasted.png")
    shown = matrix(page, 1)
    page.get_by_role("navigation").get_by_role("link", name="Sparse").click()
    page.get_by_role("heading", name="Sparse", level=1).wait_for()
    page.get_by_role("navigation").get_by_role("link", name="Images").click()
    np.testing.assert_array_equal(matrix(page, 1), shown)


def test_a_file_that_is_no_image_is_named(several: SeveralModels, context: BrowserContext) -> None:
    page = context.new_page()
    page.goto(f"{several.url}/playground#images")
    page.locator("table.matrix").wait_for()
    page.get_by_label("choose files").set_input_files(
        {"name": "broken.png", "mimeType": "image/png", "buffer": PNG[:60]}
    )
    expect(page.get_by_role("status").first).to_contain_text("broken.png: ")
    page.get_by_role("button", name="Remove broken.png").click()
    expect(page.get_by_role("status").first).to_have_text("")


@pytest.mark.parametrize(
    ("view", "labels", "hint"),
    [
        ("rerank", ["Documents, one per line"], "Type a query and a document to rank it."),
        ("classify", ["Texts, one per line"], "Type a text to see its labels."),
        (
            "sparse",
            ["Text", "Another text (optional)"],
            "Type a text to see the weights of its words.",
        ),
        ("multi_vector", ["Query"], "Type a query and a document to compare them."),
        ("images", ["Texts, one per line"], "Type a text and choose an image to compare them."),
    ],
)
def test_an_empty_input_says_what_to_type(
    several: SeveralModels, open_view: OpenView, view: str, labels: list[str], hint: str
) -> None:
    page = open_view(view, several.url)
    page.locator(".copy").wait_for()
    for label in labels:
        page.get_by_label(label, exact=True).fill(" ")
    expect(page.get_by_text(hint)).to_be_visible()
    expect(page.locator(".copy")).to_have_count(0)


@pytest.mark.parametrize(
    "view",
    ["rerank", "classify", "sparse", "sparse?model=inference-free", "multi_vector", "images"],
)
def test_a_copied_command_and_program_give_the_same(
    several: SeveralModels, open_view: OpenView, view: str
) -> None:
    page = open_view(view, several.url)
    by_curl, by_python = copied_results(page)
    assert result(by_curl) == result(by_python)


def result(response: Any) -> Any:
    """A response without what differs from one to the next."""
    if not isinstance(response, dict):
        return response
    return {name: value for name, value in response.items() if name not in ("id", "timing")}


def test_an_error_of_the_server_is_shown(tmp_path: Path, context: BrowserContext) -> None:
    with local_server(write_cross_encoder(tmp_path), max_texts=4) as server:
        page = context.new_page()
        page.goto(f"{server.url}/playground#rerank")
        expect(page.get_by_role("status").first).to_contain_text("the limit is 4")
        page.get_by_label("Documents, one per line", exact=True).fill("the work")
        expect(page.locator(".bars li")).to_have_count(1)
        expect(page.get_by_role("status").first).to_have_text("")
        page.close()


def test_the_link_to_a_view_restores_its_texts_and_its_model(
    several: SeveralModels, open_view: OpenView
) -> None:
    page = open_view("sparse?model=org/m3", several.url)
    page.get_by_label("Text", exact=True).fill("süß & 50 % off?\n#2")
    page.get_by_role("button", name="Copy link").click()
    page.get_by_text("Copied the link").wait_for()
    link = page.evaluate("navigator.clipboard.readText()")
    again = open_view(link.partition("#")[2], several.url)
    expect(again.get_by_label("Text", exact=True)).to_have_value("süß & 50 % off?\n#2")
    expect(again.get_by_role("combobox", name="Model")).to_have_value("org/m3")
