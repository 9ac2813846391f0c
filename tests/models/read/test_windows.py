"""Tests of splitting long inputs into windows."""

from pathlib import Path

import numpy as np
import pytest
from tokenizers import Tokenizer as Rust
from tokenizers import models

from embedwell_models.errors import PromptTooLongError, TooManyTokensError
from embedwell_models.read.inputs import (
    InputRow,
    merge_by_average,
    merge_by_maximum,
    split_windows,
    window_input_indices,
)
from embedwell_models.read.windows import WindowSplitter
from embedwell_models.tokenizer.steps import run_to_completion
from embedwell_models.tokenizer.tokenizer import Tokenizer
from tests.models import kinds


def test_windows_are_counted_before_they_are_built(minilm_folder: Path) -> None:
    tokenizer = Tokenizer(minilm_folder, 256)
    windows = WindowSplitter(tokenizer, max_tokens=10_000)
    assert len(run_to_completion(windows.split_text("a " * 2540, "", 0)).windows) == 10
    with pytest.raises(
        TooManyTokensError, match="input 3 has 128000 tokens or more in windows"
    ) as refused:
        run_to_completion(windows.split_text("a " * 1000, "b " * 252, 3))
    assert refused.value.index == 3
    with pytest.raises(PromptTooLongError):
        run_to_completion(windows.split_text("a " * 1000, "b " * 254, 0))


def test_a_text_without_tokens_has_no_windows_whose_mean_would_be_of_none(
    minilm_folder: Path,
) -> None:
    windows = WindowSplitter(Tokenizer(minilm_folder, 256), max_tokens=10_000)
    row = run_to_completion(windows.split_text("", "a prompt", 0))
    assert not row.windows and not row.weights and len(row.ids) == 4


def test_no_more_of_a_text_is_tokenized_than_its_windows_may_have(minilm_folder: Path) -> None:
    windows = WindowSplitter(Tokenizer(minilm_folder, 256, chunk_size=1000), max_tokens=10_000)
    steps = windows.split_text("a " * 50_000, "", 0)
    for _ in range(19):
        next(steps)
    with pytest.raises(TooManyTokensError, match=r"input 0 has 10[0-9]{3} tokens or more"):
        run_to_completion(steps)


def test_windows_of_ids_have_special_tokens_in_a_vocabulary_without_letters(tmp_path: Path) -> None:
    digits = {str(digit): digit for digit in range(10)}
    rust = Rust(models.BPE({**digits, "<": 10, ">": 11}, []))
    rust.add_special_tokens(["<", ">"])
    kinds.frame(rust, "< $A >")
    rust.save(str(tmp_path / "tokenizer.json"))
    windows = WindowSplitter(Tokenizer(tmp_path, 4), max_tokens=100)
    text = run_to_completion(windows.split_text("12345", "", 0))
    for row in (text, windows.split_ids([10, 1, 2, 3, 4, 5, 11], 0)):
        assert [window.tolist() for window in row.windows] == [
            *([10, 1, 2, 11], [10, 3, 4, 11], [10, 5, 11])
        ]


def test_the_prompt_of_every_window_is_not_pooled() -> None:
    ids = np.arange(6, dtype=np.int32)
    row = InputRow(ids, 0, prompt_token_count=2, windows=[ids[:3], ids[3:]], weights=[1, 1])
    assert [
        window.prompt_token_count
        for window in split_windows([row, InputRow(ids, 0, prompt_token_count=1)])
    ] == [
        2,
        2,
        1,
    ]


def test_the_windows_of_an_input_have_its_best_score_or_the_weighted_mean_of_their_vectors() -> (
    None
):
    ids = np.arange(6, dtype=np.int32)
    rows = [InputRow(ids, 0), InputRow(ids, 0, windows=[ids[:3], ids[3:]], weights=[3, 1])]
    of_windows = np.array([[5, 0], [1, 4], [9, 0]], dtype=np.float32)
    assert window_input_indices(rows) == [0, 1, 1]
    assert merge_by_maximum(rows, of_windows).tolist() == [[5, 0], [9, 4]]
    assert merge_by_average(rows, of_windows).tolist() == [[5, 0], [3, 3]]


def test_the_tokens_of_an_image_are_its_own_and_not_those_of_a_text() -> None:
    ids = np.arange(6, dtype=np.int32)
    assert InputRow(ids, 0).tokens == 6 and InputRow(ids, 0, image_tokens=50).tokens == 50
