"""The options of the encoder's module, against sentence-transformers."""

import json
from pathlib import Path
from typing import Any

import pytest
from sentence_transformers import SentenceTransformer

from embedwell_models.description import model_fingerprint
from embedwell_models.description.model_description import ModelDescription
from embedwell_models.embedder import Embedder
from embedwell_models.errors import ModelError
from embedwell_models.model_files.transformer import NAMES
from tests.conftest import Folder as Write
from tests.models.families.exact import assert_near, exact_vectors
from tests.models.model_files.options import POOLING, TRANSFORMER

TEXTS = ["any license to the work " * 8 + "that is such", "By THIS Copyright", "you"]
NAME = "sentence_bert_config.json"
ROUNDING = {"model_args": {"torch_dtype": "float32", "attn_implementation": "eager"}}
HUB = {"config_args": {"revision": "main", "trust_remote_code": True}}


def write(tiny_bert: Write, options: object, name: str = NAME) -> Path:
    pooling = {"pooling_mode": "mean", "embedding_dimension": 48}
    files = {"modules.json": [TRANSFORMER, POOLING], "1_Pooling/config.json": pooling}
    return tiny_bert({**files, name: options})


def assert_same(folder: Path) -> None:
    """Vectors equal those of sentence-transformers."""
    expected = exact_vectors(SentenceTransformer(str(folder), device="cpu"), TEXTS)
    found = Embedder.load(folder, device="cpu", dtype="float32").embed(TEXTS)
    assert_near(found, expected)


@pytest.mark.parametrize("name", NAMES)
def test_the_options_are_read_under_every_name(tiny_bert: Write, name: str) -> None:
    folder = write(tiny_bert, {"max_seq_length": 9, "do_lower_case": True}, name)
    assert ModelDescription.read(folder).recipe.max_length == 9
    assert_same(folder)


def test_the_first_name_goes_before_the_others(tiny_bert: Write) -> None:
    folder = write(tiny_bert, {"max_seq_length": 9}, NAMES[-1])
    (folder / NAMES[1]).write_text(json.dumps({"max_seq_length": 7}))
    assert_same(folder)


@pytest.mark.parametrize("key", ["tokenizer_args", "processor_kwargs"])
@pytest.mark.parametrize("length", [None, 20])
def test_the_length_among_the_tokenizers_options_goes_before_all_others(
    tiny_bert: Write, key: str, length: int | None
) -> None:
    folder = write(tiny_bert, {"max_seq_length": length, key: {"model_max_length": 8}})
    assert ModelDescription.read(folder).recipe.max_length == 8
    assert_same(folder)


@pytest.mark.parametrize("file", ["left", "right", None])
@pytest.mark.parametrize("side", ["left", "right"])
def test_the_side_among_the_tokenizers_options_goes_before_its_own_file(
    tiny_bert: Write, side: str, file: str | None
) -> None:
    folder = write(tiny_bert, {"max_seq_length": 9, "tokenizer_args": {"truncation_side": side}})
    path = folder / "tokenizer_config.json"
    own = json.loads(path.read_text()) | ({"truncation_side": file} if file else {})
    path.write_text(json.dumps(own))
    assert_same(folder)


@pytest.mark.parametrize("options", [ROUNDING, HUB, {"model_args": {}, "tokenizer_args": {}}])
def test_what_changes_no_vector_may_stand_there(tiny_bert: Write, options: Any) -> None:
    assert_same(write(tiny_bert, {"max_seq_length": 9, **options}))


@pytest.mark.parametrize("key", ["model_args", "model_kwargs", "config_args", "config_kwargs"])
def test_what_changes_vectors_is_refused_by_its_file_and_key(tiny_bert: Write, key: str) -> None:
    folder = write(tiny_bert, {key: {"is_decoder": True}})
    with pytest.raises(ModelError, match=rf"{NAME}: {key}\.is_decoder = True is not supported"):
        ModelDescription.read(folder)


@pytest.mark.parametrize("key", ["tokenizer_args", "processor_kwargs"])
def test_an_option_of_the_tokenizer_that_is_not_known_is_refused(
    tiny_bert: Write, key: str
) -> None:
    folder = write(tiny_bert, {key: {"do_lower_case": True}})
    with pytest.raises(ModelError, match=rf"{NAME}: {key}\.do_lower_case = True is not"):
        ModelDescription.read(folder)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("processing_kwargs", {"text": {"max_length": 4}}),
        ("tokenizer_name_or_path", "bert-base-uncased"),
        ("query_length", 32),
        ("document_length", 64),
        ("query_expansion", {"strategy": "fixed", "length": 32}),
    ],
)
def test_an_option_of_newer_models_is_refused_unless_it_is_empty(
    tiny_bert: Write, key: str, value: object
) -> None:
    assert ModelDescription.read(write(tiny_bert, {key: None})).recipe.max_length == 64
    with pytest.raises(ModelError, match=rf"{NAME}: {key} = .* is not supported"):
        ModelDescription.read(write(tiny_bert, {key: value}))


def test_the_side_is_part_of_the_fingerprint(tiny_bert: Write) -> None:
    sides = [{"tokenizer_args": {"truncation_side": side}} for side in ("left", "right")]
    left, right = (
        model_fingerprint.fingerprint(ModelDescription.read(write(tiny_bert, side)))
        for side in sides
    )
    assert left != right
