"""Tests of the tokenization of pairs whose parts are tokenized one by one."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from embedwell_models.errors import InstructionTooLongError, ModelError, UnpairedTextError
from embedwell_models.tokenizer.formats import SeparateFormat
from embedwell_models.tokenizer.steps import run_to_completion
from embedwell_models.tokenizer.tokenizer import Tokenizer
from embedwell_models.tokenizer.tokens import TruncatedIds
from embedwell_prompts.separate_pairs import SeparatePairTokenizer
from tests.models import kinds

PARTS = SeparateFormat(query="A: ", document="B: ", separator="\n", instruction="Is it any work?")
WORDS = " ".join(f"{word:02}" for word in range(60))


@pytest.fixture(scope="module")
def spaced(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tokenizer that starts each text with a space, as SentencePiece does."""
    spaced = kinds.write("llama", tmp_path_factory.mktemp("tokenizer"))
    config = {"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "<s>"}
    (spaced / "tokenizer_config.json").write_text(json.dumps(config), encoding="utf-8")
    return spaced


def pairs_of(spaced: Path, max_length: int) -> SeparatePairTokenizer:
    return SeparatePairTokenizer(Tokenizer(spaced, max_length, special_tokens=False), PARTS)


def encode_parts(
    pairs: SeparatePairTokenizer, query: str, document: str, **options: Any
) -> TruncatedIds:
    (row,) = run_to_completion(pairs.encode([(query, document)], **options))
    return row


def ids(spaced: Path, *texts: str) -> list[list[int]]:
    tokenizer = Tokenizer(spaced, 9999, special_tokens=False)
    return [[*tokenizer.encode([text])[0].ids] for text in texts]


@given(query=st.text(max_size=20), document=st.text(max_size=20))
def test_no_token_spans_two_parts(spaced: Path, query: str, document: str) -> None:
    row = encode_parts(pairs_of(spaced, 800), query, document)
    start, end = ids(spaced, "<s>", "\n")
    one, other, last = ids(spaced, f"A: {query}", f"B: {document}", PARTS.instruction)
    assert row == TruncatedIds([*start, *one, *end, *other, *end, *last])


@given(query_words=st.integers(0, 60), words=st.integers(0, 60), limit=st.integers(12, 90))
def test_a_query_and_a_document_are_cut_to_the_published_limits(
    spaced: Path, query_words: int, words: int, limit: int
) -> None:
    query, document = WORDS[: 3 * query_words], WORDS[: 3 * words]
    one, other, separator, last = ids(
        spaced, f"A: {query}", f"B: {document}", "\n", PARTS.instruction
    )
    end = [*separator, *last]
    row = encode_parts(pairs_of(spaced, limit + 2 * len(end)), query, document)
    first = one[: limit * 3 // 4]
    both = [*ids(spaced, "<s>")[0], *first, *separator, *other[:limit]][: limit + len(end)]
    assert row.ids == [*both, *end]
    assert row.dropped == 1 + len(one) + len(separator) + len(other) - len(both)


@pytest.mark.parametrize("side", ["right", "left"])
def test_either_side_keeps_the_texts_of_the_format(spaced: Path, side: Any) -> None:
    tokenizer = Tokenizer(spaced, 90, special_tokens=False)
    row = encode_parts(pairs_of(spaced, 90), WORDS, WORDS, side=side)
    (text,) = tokenizer.decode([row.ids])
    query, document, _ = text.split("\n")
    for part, prefix in ((query, "A:"), (document.strip(), "B:")):
        remaining = part.removeprefix(prefix).strip()
        assert part.startswith(prefix) and remaining
        assert WORDS.startswith(remaining) if side == "right" else WORDS.endswith(remaining)


def test_a_document_has_at_most_the_requested_tokens(spaced: Path) -> None:
    pairs = pairs_of(spaced, 300)
    whole, shorter = encode_parts(pairs, "x", WORDS), encode_parts(pairs, "x", WORDS, max_second=5)
    assert shorter.dropped == len(whole.ids) - len(shorter.ids) > 0
    assert encode_parts(pairs, "x", "", max_second=5).dropped == 0


def test_windows_hold_the_whole_document(spaced: Path) -> None:
    pairs = pairs_of(spaced, 80)
    windows = run_to_completion(pairs.windows("the work", WORDS, 9999))
    assert len(windows) > 1 and all(len(window) <= 80 for window in windows)
    tokenizer = Tokenizer(spaced, 9999, special_tokens=False)
    parts = [text.split("\n")[1].strip().removeprefix("B:") for text in tokenizer.decode(windows)]
    assert "".join(parts).replace(" ", "") == WORDS.replace(" ", "")


def test_an_instruction_replaces_that_of_the_format(spaced: Path) -> None:
    pairs = pairs_of(spaced, 200).with_instruction("Find")
    assert (
        encode_parts(pairs, "x", "y").ids[-len(ids(spaced, "Find")[0]) :] == ids(spaced, "Find")[0]
    )
    with pytest.raises(InstructionTooLongError):
        pairs.with_instruction("any work " * 60)


def test_the_minimum_length_leaves_a_token_of_each_text(spaced: Path) -> None:
    pairs = pairs_of(spaced, 200)
    shorter = pairs.with_max_length(pairs.min_length)
    row = encode_parts(shorter, WORDS, WORDS)
    whole = encode_parts(shorter, "", "")
    assert len(row.ids) <= pairs.min_length and len(row.ids) >= len(whole.ids) + 2
    with pytest.raises(ModelError, match="leaves no room"):
        pairs_of(spaced, pairs.min_length - 1)


def test_a_text_alone_is_refused(spaced: Path) -> None:
    with pytest.raises(UnpairedTextError, match="text 1 is alone"):
        run_to_completion(pairs_of(spaced, 200).encode([("a", "b"), ("a", None)]))


def test_a_tokenizer_without_a_start_token_is_refused(tmp_path: Path) -> None:
    kinds.write("llama", tmp_path)
    with pytest.raises(ModelError, match="no bos_token"):
        pairs_of(tmp_path, 200)
