"""Pairs whose document an encoder reads, and whose query a decoder reads."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from embedwell_models.errors import InstructionTooLongError, ModelError, UnpairedTextError
from embedwell_models.tokenizer.formats import DecoderFormat, PromptSlot
from embedwell_models.tokenizer.steps import run_to_completion
from embedwell_models.tokenizer.tokenizer import Tokenizer
from embedwell_models.tokenizer.tokens import Side, TruncatedIds, common_length
from embedwell_prompts.decoder_pairs import DecoderPairTokenizer
from tests.models import kinds

FORMAT = DecoderFormat(
    document="Document: ",
    prompt=("<s>Judge ", PromptSlot.INSTRUCTION, "\n", PromptSlot.QUERY, "</s>"),
    instruction="the work",
    max_query=9,
    max_document=40,
)
SIZE = 1 << 16  # of the vocabulary
WORDS = " ".join(f"{word:02}" for word in range(60))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = kinds.write("llama", tmp_path_factory.mktemp("tokenizer"))
    config = {"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "<s>"}
    (folder / "tokenizer_config.json").write_text(json.dumps(config), encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def tokenizer(folder: Path) -> Tokenizer:
    return Tokenizer(folder, 2048, special_tokens=False)


@pytest.fixture(scope="module")
def pairs(tokenizer: Tokenizer) -> DecoderPairTokenizer:
    return DecoderPairTokenizer(tokenizer, FORMAT, SIZE)


def encode(pairs: DecoderPairTokenizer, query: str, document: str, **options: Any) -> TruncatedIds:
    (row,) = run_to_completion(pairs.encode([(query, document)], **options))
    return row


def parts(row: Sequence[int]) -> tuple[list[int], list[int]]:
    """The ids of the encoder, and of the decoder."""
    count = sum(id < SIZE for id in row)
    return [*row[:count]], [id - SIZE for id in row[count:]]


def ids(tokenizer: Tokenizer, text: str) -> list[int]:
    return [*tokenizer.encode([text])[0].ids]


@given(query=st.text(max_size=4), document=st.text(max_size=9))
def test_a_short_pair_is_read_as_a_whole(
    tokenizer: Tokenizer, pairs: DecoderPairTokenizer, query: str, document: str
) -> None:
    row = encode(pairs, query, document)
    (decoded,) = tokenizer.decode([ids(tokenizer, query)[:9]], skip_special=False)
    first, second = parts(row.ids)
    assert first == ids(tokenizer, f"Document: {document}")[:40]
    assert second == ids(tokenizer, f"<s>Judge the work\n{decoded}</s>")


def test_a_query_and_a_document_are_cut_to_the_published_limits(
    tokenizer: Tokenizer, pairs: DecoderPairTokenizer
) -> None:
    row = encode(pairs, WORDS, WORDS)
    (query,) = tokenizer.decode([ids(tokenizer, WORDS)[:9]])
    document = ids(tokenizer, f"Document: {WORDS}")
    assert parts(row.ids) == (document[:40], ids(tokenizer, f"<s>Judge the work\n{query}</s>"))
    assert row.dropped == len(document) - 40 + len(ids(tokenizer, WORDS)) - 9


def test_the_left_side_keeps_the_ends_of_both_texts(
    tokenizer: Tokenizer, pairs: DecoderPairTokenizer
) -> None:
    for words in (WORDS, WORDS * 40):  # the second is longer than the tokenizer reads
        first, second = parts(encode(pairs, WORDS, words, side="left").ids)
        document, query = tokenizer.decode([first, second])
        assert len(first) == 40 and document.startswith("Document:") and document.endswith("59")
        assert query.endswith(WORDS[-5:]) and "Judge the work" in query


@pytest.mark.parametrize("length", [25, 40, 53])
def test_a_shorter_pair_cuts_the_document_first(
    tokenizer: Tokenizer, pairs: DecoderPairTokenizer, length: int
) -> None:
    shorter = pairs.with_max_length(length)
    row = encode(shorter, "the work", WORDS)
    assert len(row.ids) == length
    assert parts(row.ids)[1] == parts(encode(pairs, "the work", "x").ids)[1]


def test_the_shortest_pair_has_a_token_of_each_text(
    tokenizer: Tokenizer, pairs: DecoderPairTokenizer
) -> None:
    row = encode(pairs.with_max_length(pairs.min_length), WORDS, WORDS)
    first, second = parts(row.ids)
    assert len(first) > len(ids(tokenizer, "Document: "))
    assert len(second) <= len(ids(tokenizer, "<s>Judge the work\n</s>")) + 1


@given(
    query=st.text("😀🇧漢字é ab", max_size=14),
    side=st.sampled_from(["left", "right"]),
    more=st.integers(0, 20),
)
def test_a_query_that_is_cut_inside_a_character_exceeds_no_length(
    tokenizer: Tokenizer, pairs: DecoderPairTokenizer, query: str, side: Side, more: int
) -> None:
    length = pairs.min_length + more
    row = encode(pairs.with_max_length(length), query, WORDS, side=side)
    assert len(row.ids) <= length
    assert len(parts(row.ids)[0]) > len(ids(tokenizer, "Document: "))


def test_a_query_that_is_cut_inside_a_character_keeps_its_start(
    tokenizer: Tokenizer, pairs: DecoderPairTokenizer
) -> None:
    row = encode(pairs.with_max_length(pairs.min_length + 14), "ab 😀😀😀", WORDS)
    (prompt,) = tokenizer.decode([parts(row.ids)[1]])
    assert prompt.endswith("ab 😀")


def test_a_request_may_limit_the_tokens_of_a_document(pairs: DecoderPairTokenizer) -> None:
    whole, shorter = encode(pairs, "x", WORDS), encode(pairs, "x", WORDS, max_second=3)
    assert shorter.ids[:3] == whole.ids[:3] and len(shorter.ids) < len(whole.ids)
    assert shorter.dropped - whole.dropped == len(whole.ids) - len(shorter.ids)


def test_windows_have_every_token_of_the_document_once(
    tokenizer: Tokenizer, pairs: DecoderPairTokenizer
) -> None:
    windows = run_to_completion(pairs.windows("who?", WORDS, 1000))
    before = ids(tokenizer, "Document: ")
    rows = [parts(window) for window in windows]
    assert len(rows) > 2 and all(len(first) <= 40 for first, _ in rows)
    assert len({tuple(second) for _, second in rows}) == 1
    start = common_length(before, rows[0][0])
    joined = [*rows[0][0][:start], *(id for first, _ in rows for id in first[start:])]
    assert joined == ids(tokenizer, f"Document: {WORDS}")


def test_an_instruction_replaces_the_default(
    tokenizer: Tokenizer, pairs: DecoderPairTokenizer
) -> None:
    told = pairs.with_instruction("it")
    assert parts(encode(told, "x", "y").ids)[1] == ids(tokenizer, "<s>Judge it\nx</s>")
    assert told.characters == pairs.characters - len("the work") + len("it")
    with pytest.raises(InstructionTooLongError):
        pairs.with_instruction(WORDS * 60)


def test_a_text_alone_and_a_length_without_room_are_refused(
    folder: Path, pairs: DecoderPairTokenizer
) -> None:
    with pytest.raises(UnpairedTextError):
        run_to_completion(pairs.encode([("a", "b"), ("a", None)]))
    with pytest.raises(ModelError, match="leaves no room"):
        DecoderPairTokenizer(Tokenizer(folder, 12, special_tokens=False), FORMAT, SIZE)


def test_an_id_that_the_table_lacks_is_in_neither_segment(
    tokenizer: Tokenizer, pairs: DecoderPairTokenizer
) -> None:
    row = encode(pairs, "x", "y")
    size = max(parts(row.ids)[0])
    smaller = encode(DecoderPairTokenizer(tokenizer, FORMAT, size), "x", "y")
    lacking = [id for id in (*parts(row.ids)[0], *parts(row.ids)[1]) if id >= size]
    assert lacking and [id - size for id in smaller.ids if id >= 2 * size] == lacking
