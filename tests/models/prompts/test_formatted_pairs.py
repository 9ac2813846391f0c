"""Pairs of a query and a document in the format of a language model."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from embedwell_models.errors import InstructionTooLongError, ModelError, UnpairedTextError
from embedwell_models.tokenizer.formats import PairFormat, PromptSlot
from embedwell_models.tokenizer.pairs import Pair
from embedwell_models.tokenizer.steps import run_to_completion
from embedwell_models.tokenizer.tokenizer import Tokenizer
from embedwell_models.tokenizer.tokens import Side
from embedwell_prompts.formatted_pairs import FormattedPairTokenizer
from tests.models import kinds
from tests.models.decoder_reranker import write_reranker

DEFAULT = (
    "<|im_start|>find\n<query>: ",
    PromptSlot.QUERY,
    "\n<document>: ",
    PromptSlot.DOCUMENT,
    "\nyes?",
)
FORMAT = PairFormat(DEFAULT, ("<|im_start|>", PromptSlot.INSTRUCTION, *DEFAULT))
REVERSED = PairFormat(("", PromptSlot.DOCUMENT, "\nfor: ", PromptSlot.QUERY, "<|im_end|>"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_reranker(tmp_path_factory.mktemp("tokenizer"))


def tokenizer(folder: Path, max_length: int, **options: Any) -> Tokenizer:
    return Tokenizer(folder, max_length, special_tokens=False, **options)


def encode(
    folder: Path, pair: Pair, max_length: int, pair_format: PairFormat = FORMAT, **options: Any
) -> tuple[str, int, int]:
    """Encode a pair; return its text, its tokens and the number of dropped tokens."""
    texts = tokenizer(folder, max_length)
    pairs = FormattedPairTokenizer(texts, pair_format)
    (row,) = run_to_completion(pairs.encode([pair], count_limit=float("inf"), **options))
    (text,) = texts.decode([row.ids], skip_special=False)
    return text, len(row.ids), row.dropped


@given(query=st.text(max_size=20), document=st.text(max_size=20))
def test_a_pair_is_tokenized_as_one_text(folder: Path, query: str, document: str) -> None:
    texts = tokenizer(folder, 400)
    pairs = FormattedPairTokenizer(texts, FORMAT)
    (row,) = run_to_completion(pairs.encode([(query, document)]))
    text = f"<|im_start|>find\n<query>: {query}\n<document>: {document}\nyes?"
    (whole,) = texts.encode([text])
    assert [*row.ids] == whole.ids and row.dropped == whole.dropped


@given(
    words=st.integers(0, 60),
    max_length=st.integers(60, 120),
    side=st.sampled_from(["right", "left"]),
)
def test_only_the_document_is_cut_where_the_query_fits(
    folder: Path, words: int, max_length: int, side: Side
) -> None:
    document = " ".join(f"{word:02}" for word in range(words))
    text, length, dropped = encode(folder, ("the work?", document), max_length, side=side)
    start, end = "<|im_start|>find\n<query>: the work?\n<document>:", "\nyes?"
    assert text.startswith(start) and text.endswith(end)
    remaining = text[len(start) : -len(end)].strip()
    assert document.startswith(remaining) if side == "right" else document.endswith(remaining)
    total = encode(folder, ("the work?", document), 9999)[1]
    assert length == (total if total <= max_length else max_length)
    assert (dropped == 0) == (total <= max_length)


def test_then_the_query_is_cut(folder: Path) -> None:
    query = "a work " * 50
    text, length, dropped = encode(folder, (query, "any license"), 60)
    assert text.startswith("<|im_start|>find\n<query>: a work a work") and length == 60
    assert text.endswith("\n<document>: \nyes?") and dropped > 50
    text, length, _ = encode(folder, (query, "any license"), 60, side="left")
    assert text.endswith("a work \n<document>: \nyes?") and length == 60


def test_the_query_may_come_after_the_document(folder: Path) -> None:
    text, length, _ = encode(folder, ("the work?", "of a " * 50), 40, REVERSED)
    assert text.startswith("of a of a") and text.endswith("\nfor: the work?<|im_end|>")
    assert length == 40


@pytest.mark.parametrize("kind", ["qwen", "llama", "metallama", "gemma"])
def test_a_cut_pair_begins_and_ends_like_the_whole_text(kind: str, tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").write_text(kinds.text(kind), encoding="utf-8")
    document = "license of any work " * 30
    texts = tokenizer(tmp_path, 999)
    (whole,) = texts.encode([f"<|im_start|>find\n<query>: q\n<document>: {document}\nyes?"])
    pairs = FormattedPairTokenizer(tokenizer(tmp_path, 60), FORMAT)
    (row,) = run_to_completion(pairs.encode([("q", document)], count_limit=float("inf")))
    end = len(texts.encode(["0\nyes?"])[0].ids) - len(texts.encode(["0"])[0].ids)
    assert row.ids == [*whole.ids[: 60 - end], *whole.ids[-end:]]
    assert row.dropped == len(whole.ids) - 60


def test_only_so_many_tokens_of_the_document_are_read(folder: Path) -> None:
    text, _, dropped = encode(folder, ("q", "123456789"), 200, max_second=3)
    assert (text.partition("<document>")[2], dropped) == (": 123\nyes?", 6)


@pytest.mark.parametrize("side", ["right", "left"])
def test_a_shorter_limit_cuts_as_a_shorter_model_does(folder: Path, side: Side) -> None:
    pairs: list[Pair] = [("one two", "three four five " * 30), ("q", "d"), ("one " * 99, "two")]
    shorter = FormattedPairTokenizer(tokenizer(folder, 400), FORMAT).with_max_length(80)
    expected = FormattedPairTokenizer(tokenizer(folder, 80), FORMAT)
    rows = run_to_completion(shorter.encode(pairs, side))
    assert [row.ids for row in rows] == [
        row.ids for row in run_to_completion(expected.encode(pairs, side))
    ]
    assert [bool(row.dropped) for row in rows] == [True, False, True]
    assert shorter.min_length == expected.min_length == 80 - expected._room + 2


def test_spaces_are_removed_where_the_format_does_so(folder: Path) -> None:
    pair = ("  q ", "\n d \n")
    assert "  q \n<document>: \n d \n\nyes?" in encode(folder, pair, 200)[0]
    stripped = encode(folder, pair, 200, PairFormat(DEFAULT, strips=True))[0]
    assert stripped.endswith(": q\n<document>: d\nyes?")


def test_windows_hold_the_whole_document_next_to_the_query(folder: Path) -> None:
    texts = tokenizer(folder, 60)
    pairs = FormattedPairTokenizer(texts, FORMAT)
    document = "".join(f"{word:02}" for word in range(90))
    windows = run_to_completion(pairs.windows("the work?", document, 9999))
    read = texts.decode(windows, skip_special=False)
    assert all(len(ids) == 60 for ids in windows[:-1]) and len(windows) > 3
    start, end = "<|im_start|>find\n<query>: the work?\n<document>: ", "\nyes?"
    assert all(text.startswith(start) and text.endswith(end) for text in read)
    assert "".join(text[len(start) : -len(end)] for text in read) == document
    (row,) = run_to_completion(pairs.encode([("the work?", document)]))
    assert [*row.ids] == windows[0]


def test_the_first_word_of_a_document_is_in_one_window(folder: Path) -> None:
    texts = tokenizer(folder, 60)  # in which it is one token with the space before it
    pairs = FormattedPairTokenizer(texts, FORMAT)
    windows = run_to_completion(pairs.windows("q", "work" + " you" * 60, 9999))
    read = "".join(texts.decode(windows, skip_special=False))
    assert len(windows) > 2 and read.count("work") == 1


def test_a_long_query_has_half_of_the_room_in_each_window(folder: Path) -> None:
    pairs = FormattedPairTokenizer(tokenizer(folder, 80), FORMAT)
    windows = run_to_completion(pairs.windows("a " * 500, "the " * 100, 9999))
    assert all(len(ids) == 80 for ids in windows[:-1]) and 3 < len(windows) < 12


def test_no_more_of_a_document_is_read_for_windows_than_the_limit_needs(folder: Path) -> None:
    texts = tokenizer(folder, 60, chunk_size=32)
    windows = run_to_completion(
        FormattedPairTokenizer(texts, FORMAT).windows("a", "the " * 5000, 40)
    )
    assert 40 < sum(map(len, windows)) < 400


def test_an_instruction_takes_its_place(folder: Path) -> None:
    texts = tokenizer(folder, 200)
    pairs = FormattedPairTokenizer(texts, FORMAT)
    (row,) = run_to_completion(pairs.with_instruction("Say why.").encode([("q", "d")]))
    (text,) = texts.decode([row.ids], skip_special=False)
    assert text.startswith("<|im_start|>Say why.<|im_start|>find")
    assert pairs.with_instruction("x").characters == pairs.characters + 1 + len("<|im_start|>")
    with pytest.raises(InstructionTooLongError):
        pairs.with_instruction("1" * 100)  # of 167 tokens that remain
    assert pairs.with_instruction("1" * 60)
    with pytest.raises(ValueError, match="takes no instruction"):
        FormattedPairTokenizer(texts, REVERSED).with_instruction("x")


def test_a_text_alone_or_a_format_without_room_is_refused(folder: Path) -> None:
    with pytest.raises(UnpairedTextError):
        encode(folder, ("q", None), 200)
    with pytest.raises(ModelError, match="leaves no room"):
        FormattedPairTokenizer(tokenizer(folder, 20), FORMAT)
