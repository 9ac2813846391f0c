"""The reader on the default model's tokenizer, with an eye on how often it is asked."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tokenizers import Tokenizer as Rust

import models.folder
from models import families
from models.sentence import SentenceConfig
from models.tokenizer import Ids, Side, Token, Tokenizer
from service.admission import Admission
from service.api.tokens import Tokens, TokensRequest, operations
from service.board import Board
from service.call import Call
from service.engine.messages import Job, Result
from service.errors import BadRequest, TooLarge
from service.overflow import spread
from service.pipeline import Pipeline
from service.reader import Reader, Reading
from service.row import Row
from tests.conftest import Folder
from tests.models.tiny import VOCABULARY

LONG = "many words " * 300
TABLE = len(VOCABULARY)


class Counting(Tokenizer):
    """Counts the texts that it reads."""

    read = 0

    def encode(self, texts: Sequence[str], side: Side | None = None, count: float = 0) -> list[Ids]:
        self.read += len(texts)
        return super().encode(texts, side, count)

    def describe(
        self, text: str, prompt: str = "", side: Side | None = None, count: float = 0
    ) -> tuple[Ids, list[Token]]:
        self.read += 1
        return super().describe(text, prompt, side, count)


class Zeros:
    """An engine whose vectors are zeros."""

    async def submit(self, job: Job, timeout: float) -> Result:
        length = sum(len(row) for row in job.rows)
        return Result(np.zeros((length, 384), dtype=np.float32), 0, 0, 1.0)


@pytest.fixture
def reader(minilm_folder: Path) -> Reader:
    return Reader(
        Counting(minilm_folder, 256),
        SentenceConfig(max_length=256),
        table=30522,
        max_texts=10,
        max_tokens=10_000,
        auto_truncate=True,
    )


def test_token_vectors_read_each_text_once(reader: Reader, minilm_folder: Path) -> None:
    pipeline = Pipeline(reader, Admission(1, lambda: 0.0, Board.alone()), Zeros(), 1)
    operation, _ = operations(Tokens(pipeline, families.read(minilm_folder).config, 10**9))
    body = TokensRequest(inputs=["Hello, world", "a second text"])
    found: Any = asyncio.run(operation.work(Call("a"), body))
    assert [len(result["tokens"]) for result in found["results"]] == [5, 5]
    assert isinstance(reader.tokenizer, Counting) and reader.tokenizer.read == 2


@pytest.mark.parametrize("side", ["left", "right"])
def test_described_texts_are_the_rows_that_are_read(reader: Reader, side: Side) -> None:
    reading, texts = Reading(side=side, prompt="query: "), ["short", LONG, ""]
    plain, told = Call("a"), Call("b")
    rows = asyncio.run(reader.read(plain, texts, reading))
    again, described = asyncio.run(reader.describe(told, texts, reading))
    for row, other, found in zip(rows, again, described, strict=True):
        assert row.ids.tolist() == other.ids.tolist() == [token.id for token in found]
        assert row.dropped == other.dropped
    assert (plain.texts, plain.tokens, plain.truncated) == (3, 265, 1)
    assert (told.texts, told.tokens, told.truncated) == (3, 265, 1)


def test_a_long_text_that_may_not_be_cut_is_refused_when_described_too(reader: Reader) -> None:
    with pytest.raises(BadRequest, match="input 1 has 602 tokens"):
        asyncio.run(reader.describe(Call("a"), ["a", LONG], Reading(truncate=False)))


VERY_LONG = "many words " * 3000


def test_a_refusal_of_a_very_long_text_tells_its_whole_length(reader: Reader) -> None:
    refused = Reading(truncate=False)
    for work in (reader.read, reader.describe):
        with pytest.raises(BadRequest, match="input 0 has 6002 tokens"):
            asyncio.run(work(Call("a"), [VERY_LONG], refused))


def test_tokens_that_are_cut_off_are_counted_on_request(reader: Reader) -> None:
    (row,) = asyncio.run(reader.read(Call("a"), [VERY_LONG], Reading(count=True)))
    assert row.dropped == 6002 - 256
    (row,) = asyncio.run(reader.read(Call("a"), [VERY_LONG], Reading()))
    assert 0 < row.dropped < 6002 - 256


@pytest.fixture
def ends(tiny_bert: Folder) -> Reader:
    """Of a model that reads the ends of long texts."""
    folder = models.folder.Folder.read(
        tiny_bert({"sentence_bert_config.json": {"tokenizer_args": {"truncation_side": "left"}}})
    )
    return Reader(
        folder.tokenizer(),
        replace(folder.sentence, include_prompt=False),
        table=TABLE,
        max_texts=1000,
        max_tokens=10_000,
        auto_truncate=True,
    )


def test_a_long_input_is_cut_where_the_model_says_unless_the_request_does(ends: Reader) -> None:
    text, ids = "the of " * 99, [2, *range(9, 90), 3]

    def read(side: Side | None) -> list[list[int]]:
        found = Reading(side=side, prompt="any license ")
        rows = asyncio.run(ends.read(Call("a"), [text, ids], found))
        described, _ = asyncio.run(ends.describe(Call("a"), [text], found))
        late = asyncio.run(ends.document(Call("a"), ["the ", "of " * 99], found, 300))
        assert described[0].ids.tolist() == rows[0].ids.tolist()
        kept = [len(row.ids) for row in late.rows()]
        return [*([*row.ids.tolist(), row.skip] for row in rows), kept]

    assert read(None) == read("left") != read("right")


@pytest.fixture
def short(tiny_bert: Folder) -> Reader:
    """Of a model whose tokenizer has one token more than its table, <new>."""
    path = tiny_bert()
    file = str(path / "tokenizer.json")
    tokenizer = Rust.from_file(file)
    tokenizer.add_tokens(["<new>"])
    tokenizer.save(file)
    folder = models.folder.Folder.read(path)
    return Reader(
        folder.tokenizer(),
        folder.sentence,
        table=folder.blueprint.config.vocab_size,
        max_texts=10,
        max_tokens=10_000,
        auto_truncate=True,
    )


MISSING = rf"the token '<new>' has id {TABLE}, the model's table ends at {TABLE - 1}"


def test_a_text_with_a_token_that_the_table_lacks_is_refused_however_it_is_read(
    short: Reader,
) -> None:
    texts, call = ["the work", "a <new> work"], Call("a")
    plain, windows = Reading(), Reading(windows=True)
    long = [texts[0], "the work " * 99 + texts[1]]
    for asked in (
        short.read(call, texts, plain),
        short.read(call, long, windows),
        short.describe(call, texts, plain),
        short.document(call, texts, plain, 99),
    ):
        with pytest.raises(BadRequest, match=MISSING) as refused:
            asyncio.run(asked)
        assert (refused.value.code, refused.value.index) == ("unknown_token", 1)
    good, bad = asyncio.run(short.attempt(call, texts, plain))
    assert isinstance(good, Row) and isinstance(bad, BadRequest)


def test_token_ids_are_those_that_the_table_and_the_tokenizer_have(short: Reader) -> None:
    with pytest.raises(BadRequest, match=rf"id {TABLE} is not in .* \(0 to {TABLE - 1}\)"):
        asyncio.run(short.read(Call("a"), [[2, 3], [TABLE]], Reading()))


def test_documents_count_together_against_the_limit_of_texts(reader: Reader) -> None:
    call, chunks = Call("a"), ["a", "b", "c", "d", "e"]
    for _ in range(2):
        asyncio.run(reader.document(call, chunks, Reading(), 5))
    with pytest.raises(TooLarge, match="has 11 texts, the limit is 10"):
        asyncio.run(reader.document(call, ["f"], Reading(), 1))


def test_the_prompt_of_every_window_is_left_out_of_its_pooling(minilm_folder: Path) -> None:
    reader = Reader(
        Tokenizer(minilm_folder, 256),
        SentenceConfig(max_length=256, include_prompt=False),
        table=30522,
        max_texts=10,
        max_tokens=10_000,
        auto_truncate=True,
    )
    reading = Reading(windows=True, prompt="text for: ")
    (row,) = asyncio.run(reader.read(Call("a"), [LONG], reading))
    prompt = reader.tokenizer.encode(["text for:"])[0].ids[:-1]
    parts = spread([row])
    assert len(parts) == 3
    for part in parts:
        assert part.skip == len(prompt) and part.ids[: part.skip].tolist() == prompt
