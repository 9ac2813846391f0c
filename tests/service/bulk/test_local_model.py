"""A model of this process: its description, and texts without tokens."""

from pathlib import Path

import numpy as np
import pytest

from embedwell.bulk import BulkError
from embedwell.bulk.local_model import LocalModel, load_local_model
from embedwell.settings.settings import Settings
from embedwell_models.embedder import Embedder
from tests.conftest import Folder
from tests.models.colmodernvbert import write_colmodernvbert
from tests.models.qwen3_vl import write_qwen3_vl
from tests.models.tiny import unframed


def test_texts_without_tokens_are_rejected_and_the_others_embedded(tiny_bert: Folder) -> None:
    embedder = Embedder.load(unframed(tiny_bert()), device="cpu", dtype="float32")
    counts: list[int] = []
    vectors, rejected = LocalModel(embedder, "m").embed(["", " ", "work", "license"], counts.append)
    reason = "the text has no tokens, but the model needs at least one"
    assert rejected == dict.fromkeys([0, 1], reason)
    np.testing.assert_array_equal(vectors[2:], embedder.embed(["work", "license"]))
    assert sum(counts) == 4


def test_a_prompt_is_put_before_each_text_and_described(small: LocalModel) -> None:
    prompted = LocalModel(small.embedder, "m", "a copy of ")
    vectors, _ = prompted.embed(["work"], lambda _: None)
    np.testing.assert_array_equal(vectors, small.embedder.embed(["a copy of work"]))
    assert prompted.description["prompt"] == "a copy of " and small.description["prompt"] == ""


def test_the_description_names_the_fingerprint_precision_and_dimension(small: LocalModel) -> None:
    assert small.description["fingerprint"] == small.embedder.fingerprint
    assert small.description["precision"] == "float32" and small.description["dimension"] == 48


def test_an_instruction_that_leaves_no_room_ends_the_run(tmp_path: Path) -> None:
    write_qwen3_vl(tmp_path)
    embedder, prompt = Embedder.load(tmp_path, device="cpu", dtype="float32"), "any work " * 60
    with pytest.raises(BulkError, match="takes the 128 tokens that the model reads; shorten it"):
        LocalModel(embedder, "m", prompt).embed(["a"], lambda _: None)


def test_texts_of_a_model_with_vectors_of_tokens_are_refused(tmp_path: Path) -> None:
    write_colmodernvbert(tmp_path)
    settings = Settings(model=str(tmp_path), device="cpu", dtype="float32")
    with pytest.raises(BulkError, match="no dense vectors of texts, but vectors of tokens"):
        load_local_model(settings, None)
