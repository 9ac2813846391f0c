"""A model of this process: its description, and texts without tokens."""

import numpy as np

from models.embedder import Embedder
from service.bulk.local_model import LocalModel
from tests.conftest import Folder
from tests.models.tiny import unframed


def test_texts_without_tokens_are_rejected_and_the_others_embedded(tiny_bert: Folder) -> None:
    embedder = Embedder.load(unframed(tiny_bert()), device="cpu", dtype="float32")
    counts: list[int] = []
    vectors, rejected = LocalModel(embedder, "m").embed(["", " ", "work", "license"], counts.append)
    assert rejected == dict.fromkeys([0, 1], "the text has no tokens, and the model needs one")
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
