"""Tests of the rows and borders of chunks."""

from pathlib import Path

import pytest

from embedwell_models.errors import InputError
from embedwell_models.read.chunks import ChunkReader
from embedwell_models.tokenizer.steps import run_to_completion
from embedwell_models.tokenizer.tokenizer import Tokenizer


def test_chunks_that_just_fit_are_not_cut(minilm_folder: Path) -> None:
    chunks = ChunkReader(Tokenizer(minilm_folder, 8))
    document = run_to_completion(chunks.read(["one two three", "four five six"], "", None))
    assert document.ranges == [(1, 4), (4, 7)] and document.dropped == [0, 0]
    assert document.row.dropped == 0
    cut = run_to_completion(chunks.read(["one two three", "four five six seven"], "", "right"))
    assert cut.dropped == [0, 1] and cut.row.dropped == 1
    with pytest.raises(InputError, match="the text has 7 tokens, but the model reads 6 "):
        run_to_completion(chunks.read(["one two three", "four five six seven"], "", None))


def test_a_prompt_that_leaves_exactly_no_room_is_refused(minilm_folder: Path) -> None:
    chunks = ChunkReader(Tokenizer(minilm_folder, 8))
    assert run_to_completion(chunks.read(["one"], "long " * 5, None)).ranges == [(6, 7)]
    with pytest.raises(InputError, match="the prompt takes all of the 8 tokens"):
        run_to_completion(chunks.read(["one"], "long " * 6, "right"))
