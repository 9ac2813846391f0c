"""Tests of a padding token inside of a text, which has no place among the others' positions.

It is there where a text has its name, or where a client sends its id.
"""

from pathlib import Path

import pytest
import torch

from embedwell_models import Embedder
from tests.models.families.checkpoint import (
    Case,
    assert_close,
    encoder,
    exact_states,
    states,
    write,
)
from tests.models.tiny import VOCABULARY, write_tokenizer

SIZES = {
    "vocab_size": len(VOCABULARY),
    "hidden_size": 64,
    "num_hidden_layers": 3,
    "num_attention_heads": 2,
    "intermediate_size": 128,
}
PADDING = {"roberta": 0, "xlm-roberta": 4, "camembert": 0, "mpnet": 1, "bert": 0}
TEXTS = ["a [PAD] copyright of [PAD] [PAD] this work", "[PAD] x", "the license [PAD]", "you"]


@pytest.mark.parametrize("family", PADDING)
def test_padding_inside_of_a_text_is_as_in_transformers(family: str, tmp_path: Path) -> None:
    padding = PADDING[family]
    model = write(Case(family, {"pad_token_id": padding}, SIZES), tmp_path)
    write_tokenizer(tmp_path)
    ours = Embedder.load(tmp_path, device="cpu", dtype="float32")
    ids = [
        torch.tensor([padding if id == VOCABULARY["[PAD]"] else id for id in row])
        for row in ours.tokenize(TEXTS)
    ]
    assert [int((row == padding).sum()) for row in ids] == [3, 1, 1, 0]
    expected = [exact_states(model, row) for row in ids]
    compiled = map(torch.from_numpy, ours.hidden([row.numpy() for row in ids]))
    on_torch = states(encoder(tmp_path), ids, 3)
    for found, other, right in zip(compiled, on_torch, expected, strict=True):
        assert_close(found, right)
        assert_close(other, right)
