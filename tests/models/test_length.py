"""Number of tokens that are read of a text, against sentence-transformers."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from sentence_transformers import SentenceTransformer

from embedwell_models import Embedder
from tests.conftest import WORDS
from tests.models.families.checkpoint import Case
from tests.models.families.every import EVERY, write_model
from tests.models.families.exact import assert_near, expected
from tests.models.families.files import edit
from tests.models.model_files.options import TRANSFORMER

TEXT = [" ".join(WORDS)]
STATED = {"max_seq_length": 600}
CASES: Mapping[str, Case] = {case.model_type: case for case in EVERY}
DYNAMIC = {"rope_type": "dynamic", "factor": 4.0, "rope_theta": 500.0}
SHORT = {"max_position_embeddings": 16}


@pytest.mark.parametrize(
    ("model_type", "config", "options", "length"),
    [
        ("t5", {"n_positions": 512}, STATED, 600),
        ("xlnet", {}, STATED, 600),
        ("bloom", {"seq_length": 16}, STATED, 600),
        ("llama", SHORT, {}, 16),
        ("llama", SHORT, STATED, 600),
        ("llama", {**SHORT, "rope_parameters": DYNAMIC}, {}, 16),
        ("llama", {**SHORT, "rope_parameters": DYNAMIC}, {"max_seq_length": 40}, 40),
        ("nomic_bert", {**SHORT, "rope_parameters": DYNAMIC}, {}, 16),
        ("gte", {**SHORT, "rope_parameters": DYNAMIC}, {}, 16),
    ],
    ids=str,
)
@pytest.mark.full(after=3)
def test_a_text_is_read_as_far_as_by_sentence_transformers(
    tmp_path: Path,
    model_type: str,
    config: dict[str, Any],
    options: dict[str, Any],
    length: int,
) -> None:
    write_model(CASES[model_type], tmp_path)
    edit(tmp_path, **config)
    files = {"modules.json": [TRANSFORMER], "sentence_bert_config.json": options}
    for name, content in files.items():
        (tmp_path / name).write_text(json.dumps(content), encoding="utf-8")
    ours = Embedder.load(tmp_path, device="cpu", dtype="float32", pooling="mean")
    theirs = SentenceTransformer(str(tmp_path), device="cpu")
    assert ours.max_length == theirs.max_seq_length == length
    exact = expected(theirs, lambda each: each.encode(TEXT, output_value="token_embeddings")[0])
    (actual,) = ours.hidden(ours.tokenize(TEXT))
    assert_near(actual, exact)
