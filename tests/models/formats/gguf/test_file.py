"""Files whose header is wrong are refused by name, and never end in another error."""

import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from embedwell_formats.gguf.folder import gguf_folder
from embedwell_models.errors import ModelError
from tests.models import gguf_files

TOKENIZER = {
    "tokenizer.ggml.model": "bert",
    "tokenizer.ggml.tokens": ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "▁one"],
    "tokenizer.ggml.token_type": [3, 3, 3, 3, 1],
}
SIZES = {
    "bert.block_count": 1,
    "bert.embedding_length": 32,
    "bert.feed_forward_length": 64,
    "bert.attention.head_count": 2,
    "bert.attention.layer_norm_epsilon": 0.05,
}
METADATA: dict[str, Any] = {"general.architecture": "bert", **SIZES, **TOKENIZER}
TENSORS = {
    name: np.ones((5, 32), np.float32)
    for name in ("token_embd.weight", "position_embd.weight", "token_types.weight")
}


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"general.alignment": 0}, "general.alignment = 0"),
        ({"general.alignment": "x"}, "general.alignment = 'x'"),
        ({"tokenizer.ggml.token_type": [3, 3]}, "token_type has 2 values for 5 tokens"),
        ({"tokenizer.ggml.token_type": ["3"] * 5}, "token_type is not a list of int"),
        ({"tokenizer.ggml.tokens": [1, 2, 3, 4, 5]}, "tokens is not a list of str"),
        ({"tokenizer.ggml.model": "none"}, "tokenizer.ggml.model = 'none' is not supported"),
        ({"bert.block_count": "1"}, "bert.block_count = '1' is not int"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_wrong_value_is_refused_by_its_name(
    tmp_path: Path, wrong: dict[str, Any], message: str
) -> None:
    file = gguf_files.write(tmp_path / "a.gguf", {**METADATA, **wrong}, TENSORS)
    with pytest.raises(ModelError, match=message):
        gguf_folder([file], tmp_path)


def test_lists_within_lists_are_refused_however_deep(tmp_path: Path) -> None:
    file = tmp_path / "deep.gguf"
    deep = struct.pack("<IQ", 9, 1) * 100_000
    counts = struct.pack("<IQQ", 3, 0, 1)
    file.write_bytes(b"GGUF" + counts + struct.pack("<Q1sI", 1, b"k", 9) + deep)
    with pytest.raises(ModelError, match="lists of type 9"):
        gguf_folder([file], tmp_path)


def test_the_same_file_without_the_fault_is_read(tmp_path: Path) -> None:
    file = gguf_files.write(tmp_path / "a.gguf", METADATA, TENSORS)
    assert (gguf_folder([file], tmp_path) / "config.json").is_file()
