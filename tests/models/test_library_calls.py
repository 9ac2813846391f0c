"""Arguments of the library's methods: one text or several, and everything that is neither."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from embedwell_models.embedder import Embedder
from embedwell_models.errors import DimensionsError, UnsplittableTextError
from embedwell_models.vectors import truncate_and_normalize
from tests.conftest import Folder
from tests.models.colbert import write_colbert
from tests.models.cross_encoder import write_cross_encoder
from tests.models.sparse_encoder import write_splade

CARD = {"config_sentence_transformers.json": {"prompts": {"query": "for the ", "other": "a "}}}


@pytest.fixture(scope="module")
def dense(tiny_bert: Folder) -> Embedder:
    return Embedder.load(tiny_bert(CARD), device="cpu", dtype="float32")


@pytest.fixture(scope="module")
def models(dense: Embedder, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Embedder]:
    folder = tmp_path_factory.mktemp("models")
    write_splade(folder / "sparse")
    write_colbert(folder)
    (folder / "model").rename(folder / "tokens")
    write_cross_encoder(folder / "reranker")
    write_cross_encoder(folder / "classifier", labels=3)
    names = ("sparse", "tokens", "reranker", "classifier")
    loaded = {name: Embedder.load(folder / name, device="cpu", dtype="float32") for name in names}
    return {"dense": dense, **loaded}


def test_one_text_has_one_vector(dense: Embedder) -> None:
    [vector] = dense.embed(["the work"])
    assert dense.embed("the work").shape == (dense.dim,)
    np.testing.assert_array_equal(dense.embed("the work"), vector)
    [chunk] = dense.embed(["the work"], late_chunking=True)
    np.testing.assert_array_equal(dense.embed("the work", late_chunking=True), chunk)
    assert dense.tokenize("the work") == dense.tokenize(["the work"])[0]


def test_one_text_or_pair_has_one_result_of_every_kind(models: dict[str, Embedder]) -> None:
    [states] = models["tokens"].embed_tokens(["the work"], "query")
    np.testing.assert_array_equal(models["tokens"].embed_tokens("the work", "query"), states)
    [logits] = models["classifier"].score([("the", "work")])
    np.testing.assert_array_equal(models["classifier"].score(("the", "work")), logits)
    assert models["classifier"].score(("the", None)).shape == (3,)


@pytest.mark.parametrize(
    ("texts", "error", "message"),
    [
        (None, TypeError, "not None"),
        (3, TypeError, "not of the type int"),
        (b"text", TypeError, "not of the type bytes"),
        (["a", None], TypeError, "text 1 is None, not a str"),
        (["a", "b", 3], TypeError, "text 2 is of the type int, not a str"),
        (["a", b"b"], TypeError, "text 1 is of the type bytes, not a str"),
        ([["a"]], TypeError, "text 0 is of the type list, not a str"),
        (["a", "b\ud800"], ValueError, "text 1 has a lone surrogate.* at character 1"),
        ("\udfff", ValueError, "text 0 has a lone surrogate.* at character 0"),
    ],
    ids=ascii,
)
def test_everything_but_texts_is_refused_with_its_index(
    models: dict[str, Embedder], texts: Any, error: type[Exception], message: str
) -> None:
    calls: list[Callable[[Any], Any]] = [
        *(models["dense"].embed, models["dense"].tokenize, models["tokens"].embed_tokens)
    ]
    for call in calls:
        with pytest.raises(error, match=message):
            call(texts)


@pytest.mark.parametrize(
    ("pairs", "error", "message"),
    [
        ("ab", TypeError, "not of the type str"),
        (None, TypeError, "not None"),
        (["ab"], TypeError, "pair 0 is of the type str"),
        ([("a", "b"), ("a",)], TypeError, "pair 1 is of the type tuple, not a tuple of two texts"),
        ([("a", "b"), (None, "b")], TypeError, "the first text of pair 1 is None"),
        ([("a", 3)], TypeError, "the second text of pair 0 is of the type int"),
        ([("a", "\ud800")], ValueError, "the second text of pair 0 has a lone surrogate"),
    ],
    ids=ascii,
)
def test_everything_but_pairs_is_refused_with_its_index(
    models: dict[str, Embedder], pairs: Any, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        models["reranker"].score(pairs)


RIGHT = {
    "dense": "embed(texts)",
    "sparse": "outputs(tokenize(texts), ['sparse'])",
    "tokens": "embed_tokens(texts)",
    "reranker": "score([(query, document)])",
    "classifier": "score([(text, None)])",
}


@pytest.mark.parametrize("kind", RIGHT)
def test_a_call_for_another_kind_of_model_names_the_right_one(
    models: dict[str, Embedder], kind: str
) -> None:
    model = models[kind]
    calls: dict[str, Callable[[], object]] = {
        "embed(": lambda: model.embed(["the"]),
        "embed_tokens(": lambda: model.embed_tokens(["the"]),
        "score(": lambda: model.score([("the", "work")]),
        "images": lambda: model.embed_images([b""]),
    }
    for name, call in calls.items():
        if RIGHT[kind].startswith(name):
            assert call() is not None
            continue
        with pytest.raises(ValueError, match="use ") as raised:
            call()
        assert f"use {RIGHT[kind]}" in str(raised.value)


def test_a_prompt_may_be_chosen_by_name(dense: Embedder) -> None:
    expected = dense.embed(["work"], prompt="for the ")
    np.testing.assert_array_equal(dense.embed(["work"], prompt_name="query"), expected)
    assert dense.tokenize("work", prompt_name="other") == dense.tokenize("work", prompt="a ")
    with pytest.raises(ValueError, match="no prompt 'none'; the model has 'other', 'query'"):
        dense.embed(["work"], prompt_name="none")
    with pytest.raises(ValueError, match="either prompt or prompt_name"):
        dense.embed(["work"], prompt="", prompt_name="query")
    with pytest.raises(ValueError, match="the prompt has a lone surrogate"):
        dense.embed(["work"], prompt="\ud800")


def test_fewer_dimensions_are_the_first_of_all(minilm_folder: Path, tiny_bert: Folder) -> None:
    texts = ["a cat", "a longer text about cats", "x"]
    embedder = Embedder.load(minilm_folder, device="cpu", dtype="float32", dimensions="any")
    raw = embedder.encode(embedder.tokenize(texts), normalized=False)
    expected = truncate_and_normalize(raw, 64, normalized=True)
    np.testing.assert_allclose(embedder.embed(texts, dimensions=64), expected, atol=1e-6)
    assert embedder.embed("a cat", dimensions=64).shape == (64,)
    folder = tiny_bert(matryoshka_dimensions=[32, 7])
    declared = Embedder.load(folder, device="cpu", dtype="float32")
    assert declared.allowed_dimensions.allowed == [7, 32]
    np.testing.assert_array_equal(
        declared.embed(["the work"], dimensions=7), declared.embed(["the work"])[:, :7]
    )


def test_dimensions_for_which_the_model_was_not_trained_are_refused(dense: Embedder) -> None:
    remedy = re.escape('Embedder.load(..., dimensions="any") allows more')
    message = (
        f"vectors with 7 dimensions are not offered: this model has .* no shorter ones; {remedy}"
    )
    with pytest.raises(DimensionsError, match=message):
        dense.embed(["the"], dimensions=7)
    assert dense.embed("the", dimensions=dense.dim).shape == (dense.dim,)
    for count in (0, -1, dense.dim + 1):
        with pytest.raises(DimensionsError, match=f"dimensions is {count}, but"):
            dense.embed(["the"], dimensions=count)


def test_a_long_text_without_a_place_to_split_it_is_refused(dense: Embedder) -> None:
    with pytest.raises(
        UnsplittableTextError, match="input 1: more than 262144 characters in a row"
    ):
        dense.embed(["the", "x" * 300_000, "work"])


def test_a_progress_bar_is_shown_if_it_is_wanted(
    dense: Embedder, capsys: pytest.CaptureFixture[str]
) -> None:
    dense.embed(["the", "work"])
    assert not capsys.readouterr().err
    dense.embed(["the", "work"], show_progress_bar=True)
    assert "2/2" in capsys.readouterr().err


def test_texts_may_come_from_a_generator_or_an_array(dense: Embedder, tmp_path: Path) -> None:
    texts = ["the", "work"]
    expected = dense.embed(texts)
    for given in ((text for text in texts), np.array(texts), tuple(texts)):
        np.testing.assert_array_equal(dense.embed(given), expected)  # type: ignore[arg-type]
