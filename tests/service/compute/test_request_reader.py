"""Tests of the reader of requests, with the default model's tokenizer, counting its calls."""

import asyncio
import base64
import threading
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from embedwell.compute.request_limits import RequestCosts
from embedwell.compute.request_reader import RequestReader
from embedwell.engine.wire.messages import Job, Result
from embedwell.errors import BadRequest, TooLarge
from embedwell.http.request_context import RequestContext
from embedwell.routes.common.request_inputs import ContentInput, ImageInput, Input
from embedwell.routes.tokens import TokensRequest, TokenVectorService
from embedwell.settings.settings import Settings
from embedwell_models import families
from embedwell_models.description.model_description import ModelDescription
from embedwell_models.model_files.vector_recipe import VectorRecipe
from embedwell_models.read.inputs import InputOptions, InputRow, split_windows
from embedwell_models.tokenizer.tokenizer import Tokenizer
from embedwell_models.tokenizer.tokens import Side
from embedwell_models.vision import Pixels
from embedwell_vision.images.preprocessing import Preprocessing
from embedwell_vision.reader import ImageReader
from tests.conftest import Folder
from tests.models.image_models import SIDE, encoded, picture, write_clip
from tests.models.qwen3_vl import PROCESSOR, save, write_qwen3_vl
from tests.models.tiny import VOCABULARY, with_token
from tests.service.pipelines import LONG, CountingTokenizer, pipeline_of, reader_with

TABLE = len(VOCABULARY)


class Zeros:
    """An engine whose vectors are zeros."""

    description = None

    async def submit(self, job: Job, timeout: float) -> Result:
        length = sum(len(row) for row in job.texts_ids)
        return Result(np.zeros((length, 384), dtype=np.float32), 0, 0, 1.0)


def test_token_vectors_tokenize_each_text_once(
    reader: RequestReader, counting: CountingTokenizer, minilm_folder: Path
) -> None:
    pipeline = pipeline_of(Zeros())
    model: Any = SimpleNamespace(
        pipeline=pipeline,
        reader=reader,
        config=families.read(minilm_folder).config,
        settings=Settings(),
    )
    tokens = TokenVectorService(model)
    body = TokensRequest(inputs=["Hello, world", "a second text"])
    content: Any = asyncio.run(tokens.tokens(RequestContext("a"), body))
    assert [len(result["tokens"]) for result in content["results"]] == [5, 5]
    assert counting.read == 2


@pytest.mark.parametrize("side", ["left", "right"])
def test_read_with_tokens_returns_the_rows_of_read(reader: RequestReader, side: Side) -> None:
    reading, texts = InputOptions(side=side, prompt="query: "), ["short", LONG, ""]
    plain, described_context = RequestCosts(), RequestCosts()
    rows = asyncio.run(reader.read(plain, texts, reading))
    described_rows, described = asyncio.run(
        reader.read_with_tokens(described_context, texts, reading)
    )
    for row, described_row, tokens in zip(rows, described_rows, described, strict=True):
        assert row.ids.tolist() == described_row.ids.tolist() == [token.id for token in tokens]
        assert row.dropped == described_row.dropped
    assert (plain.texts, plain.tokens, plain.truncated) == (3, 265, 1)
    assert (described_context.texts, described_context.tokens, described_context.truncated) == (
        3,
        265,
        1,
    )


def test_describe_refuses_long_texts_that_may_not_be_cut(reader: RequestReader) -> None:
    with pytest.raises(BadRequest, match="602 tokens in input 1"):
        asyncio.run(
            reader.read_with_tokens(RequestCosts(), ["a", LONG], InputOptions(truncate=False))
        )


VERY_LONG = "many words " * 3000


def test_the_error_of_a_very_long_text_has_its_length(reader: RequestReader) -> None:
    refused = InputOptions(truncate=False)
    for work in (reader.read, reader.read_with_tokens):
        with pytest.raises(BadRequest, match="6002 tokens in input 0"):
            asyncio.run(work(RequestCosts(), [VERY_LONG], refused))


def test_tokens_that_are_cut_off_are_counted_on_request(reader: RequestReader) -> None:
    (row,) = asyncio.run(reader.read(RequestCosts(), [VERY_LONG], InputOptions(count_dropped=True)))
    assert row.dropped == 6002 - 256
    (row,) = asyncio.run(reader.read(RequestCosts(), [VERY_LONG], InputOptions()))
    assert 0 < row.dropped < 6002 - 256


def test_the_error_of_a_text_beyond_all_limits_does_not_count_its_tokens(
    reader: RequestReader,
) -> None:
    for work in (reader.read, reader.read_with_tokens):
        with pytest.raises(BadRequest, match="more than 10000 tokens in input 0"):
            asyncio.run(work(RequestCosts(), [VERY_LONG * 9], InputOptions(truncate=False)))


@pytest.mark.parametrize(("most", "length"), [(6002, "6002"), (6001, "more than 6001")])
def test_the_error_of_a_long_text_has_its_tokens_up_to_those_of_a_request(
    counting: CountingTokenizer, most: int, length: str
) -> None:
    limited, whole = reader_with(counting, max_tokens=most), InputOptions(truncate=False)
    for work in (limited.read, limited.read_with_tokens):
        with pytest.raises(BadRequest, match=f"requested {length} tokens in input 0"):
            asyncio.run(work(RequestCosts(), [VERY_LONG], whole))


def test_no_more_texts_are_tokenized_than_the_tokens_of_a_request_allow(
    minilm_folder: Path,
) -> None:
    tokenizer = CountingTokenizer(minilm_folder, 256)
    small = reader_with(tokenizer, max_tokens=600)
    for work in (small.read, small.read_partial):
        tokenizer.read = 0
        with pytest.raises(TooLarge, match="has 768 tokens or more, but the limit is 600"):
            asyncio.run(work(RequestCosts(), [VERY_LONG * 9] * 10, InputOptions()))
        assert tokenizer.read == 3


def test_long_texts_and_prompts_are_tokenized_in_threads(
    reader: RequestReader, counting: CountingTokenizer
) -> None:
    asyncio.run(reader.read(RequestCosts(), ["short"] * 3, InputOptions(prompt="of all ")))
    assert counting.threads == {threading.current_thread().name}
    counting.threads = frozenset()
    for inputs, prompt in (
        (["short"], VERY_LONG),
        (["short"] * 9, LONG),
        ([VERY_LONG], ""),
        (["many words " * 400], ""),
    ):
        asyncio.run(reader.read(RequestCosts(), inputs, InputOptions(prompt=prompt)))
    assert counting.threads and threading.current_thread().name not in counting.threads


def test_many_short_texts_are_tokenized_in_threads_and_in_several_steps(
    minilm_folder: Path,
) -> None:
    tokenizer = CountingTokenizer(minilm_folder, 256)
    large = reader_with(tokenizer, max_texts=10_000, max_tokens=100_000)
    asyncio.run(large.read(RequestCosts(), ["a"] * 500, InputOptions()))
    assert threading.current_thread().name not in tokenizer.threads and tokenizer.read == 500
    tokenizer.calls = 0
    asyncio.run(large.read(RequestCosts(), ["a"] * 9000, InputOptions()))
    assert tokenizer.calls == 4, "a cancelled request stops between two steps"


def test_a_text_that_cannot_be_split_is_refused_with_its_index(
    reader: RequestReader,
) -> None:
    texts, context, plain = ["short", "x" * 200_000], RequestCosts(), InputOptions()
    for call in (
        reader.read(context, texts, plain),
        reader.read_with_tokens(context, texts, plain),
        reader.read_chunks(context, texts, plain, 200_000),
        reader.read_chunks(context, texts[::-1], plain, 200_000),
    ):
        with pytest.raises(BadRequest, match="more than 150000 characters in a row") as refused:
            asyncio.run(call)
        assert refused.value.code == "unbroken_text"
    assert refused.value.index == 0
    good, bad = asyncio.run(reader.read_partial(context, texts, plain))
    assert isinstance(good, InputRow) and isinstance(bad, BadRequest) and bad.index == 1


def test_a_prompt_that_cannot_be_split_is_an_error_of_each_text(ends: RequestReader) -> None:
    prompted, ids = InputOptions(prompt="x" * 300_000), [2, 9, 3]
    good, *bad = asyncio.run(ends.read_partial(RequestCosts(), [ids, "a", "b"], prompted))
    assert isinstance(good, InputRow) and good.ids.tolist() == ids
    assert [error.index for error in bad if isinstance(error, BadRequest)] == [1, 2]


@pytest.fixture
def left(tiny_bert: Folder) -> ModelDescription:
    """A model that reads the ends of long texts."""
    return ModelDescription.read(
        tiny_bert({"sentence_bert_config.json": {"tokenizer_args": {"truncation_side": "left"}}})
    )


@pytest.fixture
def ends(left: ModelDescription) -> RequestReader:
    """A reader for that model."""
    recipe = replace(left.recipe, include_prompt=False)
    return reader_with(left.tokenizer(), recipe, vocabulary_rows=TABLE, max_texts=1000)


def test_a_long_input_is_cut_at_the_side_of_the_model_or_the_request(
    ends: RequestReader,
) -> None:
    text, ids = "the of " * 99, [2, *range(9, 90), 3]

    def read(side: Side | None) -> list[list[int]]:
        options = InputOptions(side=side, prompt="any license ")
        rows = asyncio.run(ends.read(RequestCosts(), [text, ids], options))
        described, _ = asyncio.run(ends.read_with_tokens(RequestCosts(), [text], options))
        late = asyncio.run(ends.read_chunks(RequestCosts(), ["the ", "of " * 99], options, 300))
        assert described[0].ids.tolist() == rows[0].ids.tolist()
        expected = [len(row.ids) for row in late.chunk_inputs()]
        return [*([*row.ids.tolist(), row.prompt_token_count] for row in rows), expected]

    assert read(None) == read("left") != read("right")


@pytest.mark.parametrize("words", [4, 500, 30_000])
def test_a_maximum_length_keeps_special_tokens_and_the_tokens_of_its_side(
    ends: RequestReader,
    left: ModelDescription,
    words: int,
) -> None:
    tokenizer = left.tokenizer()
    text, prompt = "the of " * (words // 2), "any license "
    inner = [id for id in tokenizer.encode([text])[0].ids if id > 4][:2]

    def read(side: Side, length: int) -> InputRow:
        reading = InputOptions(side=side, prompt=prompt, max_length=length)
        (row,) = asyncio.run(ends.read(RequestCosts(), [text], reading))
        return row

    all_ids = [*tokenizer.encode([prompt])[0].ids[:-1], *inner * (words // 2), 3]
    for length in (4, 6, 7, 64):
        row = read("left", length)
        expected = all_ids if len(all_ids) <= length else [2, *all_ids[len(all_ids) - length + 1 :]]
        assert row.ids.tolist() == expected
        cut_off = len(all_ids) - len(expected)
        assert row.prompt_token_count == max(3 - cut_off, 0) and (row.dropped > 0) == (cut_off > 0)
    for length in (5, 6, 64):
        row = read("right", length)
        expected = all_ids if len(all_ids) <= length else [*all_ids[: length - 1], 3]
        assert row.ids.tolist() == expected and row.prompt_token_count == 3
    with pytest.raises(BadRequest, match="the prompt takes all of the 4 tokens"):
        read("right", 4)


def test_a_text_longer_than_the_maximum_length_may_be_refused(reader: RequestReader) -> None:
    reading = InputOptions(truncate=False, max_length=9)
    with pytest.raises(
        BadRequest, match="length is 9 tokens, however you requested 10 tokens in input 1"
    ):
        asyncio.run(reader.read(RequestCosts(), ["many " * 7, "many " * 8], reading))


@pytest.mark.parametrize(("max_length", "lengths"), [(None, (8, 40)), (5, (5, 37))])
def test_the_error_for_a_long_text_with_dropped_unknown_tokens_states_the_maximum_length(
    minilm_folder: Path, max_length: int | None, lengths: tuple[int, int]
) -> None:
    tokenizer = Tokenizer(minilm_folder, 8, file_only=True, keep_unknown=False)
    text = f"the {'x' * 101} " * 20  # every other token is unknown
    options = InputOptions(truncate=False, max_length=max_length)
    message = "length is {} tokens, however you requested {} tokens in input 0".format(*lengths)
    with pytest.raises(BadRequest, match=message):
        asyncio.run(reader_with(tokenizer).read(RequestCosts(), [text], options))


@pytest.fixture
def short(tiny_bert: Folder) -> RequestReader:
    """A reader whose tokenizer has the token <new>, which is not in the model's table."""
    folder = ModelDescription.read(with_token(tiny_bert(), "<new>"))
    vocabulary_rows = folder.spec.config.vocab_size
    return reader_with(folder.tokenizer(), folder.recipe, vocabulary_rows=vocabulary_rows)


MISSING = rf"the token '<new>' has id {TABLE}, but the model's table ends at {TABLE - 1}"


def test_a_token_that_is_not_in_the_table_is_refused_by_every_method(
    short: RequestReader,
) -> None:
    texts, context = ["the work", "a <new> work"], RequestCosts()
    plain, windows = InputOptions(), InputOptions(windows=True)
    long = [texts[0], "the work " * 99 + texts[1]]
    for call in (
        short.read(context, texts, plain),
        short.read(context, long, windows),
        short.read_with_tokens(context, texts, plain),
        short.read_chunks(context, texts, plain, 99),
    ):
        with pytest.raises(BadRequest, match=MISSING) as refused:
            asyncio.run(call)
        assert (refused.value.code, refused.value.index) == ("unknown_token", 1)
    good, bad = asyncio.run(short.read_partial(context, texts, plain))
    assert isinstance(good, InputRow) and isinstance(bad, BadRequest)


def test_token_ids_must_be_in_the_table(short: RequestReader) -> None:
    with pytest.raises(BadRequest, match=rf"id {TABLE} is not in .* \(0 to {TABLE - 1}\)"):
        asyncio.run(short.read(RequestCosts(), [[2, 3], [TABLE]], InputOptions()))


def test_all_documents_count_together_against_the_limit_of_texts(reader: RequestReader) -> None:
    context, chunks = RequestCosts(), ["a", "b", "c", "d", "e"]
    for _ in range(2):
        asyncio.run(reader.read_chunks(context, chunks, InputOptions(), 5))
    with pytest.raises(TooLarge, match="has 11 texts, but the limit is 10"):
        asyncio.run(reader.read_chunks(context, ["f"], InputOptions(), 1))


def test_the_prompt_of_every_window_is_not_pooled(minilm_folder: Path) -> None:
    recipe = VectorRecipe(max_length=256, include_prompt=False)
    tokenizer = Tokenizer(minilm_folder, 256)
    reader = reader_with(tokenizer, recipe)
    reading = InputOptions(windows=True, prompt="text for: ")
    (row,) = asyncio.run(reader.read(RequestCosts(), [LONG], reading))
    prompt = tokenizer.encode(["text for:"])[0].ids[:-1]
    parts = split_windows([row])
    assert len(parts) == 3
    for part in parts:
        assert (
            part.prompt_token_count == len(prompt)
            and part.ids[: part.prompt_token_count].tolist() == prompt
        )


def test_a_maximum_length_is_above_the_special_tokens_and_at_most_the_models(
    reader: RequestReader,
) -> None:
    assert reader.limited_length(None, "length") is None
    assert reader.limited_length(reader.max_length + 1, "length") == reader.max_length
    reader.check_max_length(3, "length")
    with pytest.raises(BadRequest, match="length is 2, but must be above 2"):
        reader.check_max_length(2, "length")


def test_the_times_of_all_readings_of_a_request_add_up(reader: RequestReader) -> None:
    context = RequestCosts(tokenize_start=5.0, tokenize_us=10**9)
    asyncio.run(reader.read(context, ["a"], InputOptions()))
    assert context.tokenize_start == 5.0 and context.tokenize_us >= 10**9


DATA = encoded(picture(70, 90))
IMAGE = ImageInput(image=base64.b64encode(DATA).decode())


class ThreadNames(Preprocessing):
    """Records the threads in which images are prepared."""

    names: frozenset[str] = frozenset()

    def pixels(self, data: bytes, max_pixels: int) -> Pixels:
        ThreadNames.names |= {threading.current_thread().name}
        return super().pixels(data, max_pixels)


@pytest.fixture(scope="module")
def clip_reader(tmp_path_factory: pytest.TempPathFactory, minilm_folder: Path) -> RequestReader:
    path: Path = tmp_path_factory.mktemp("clip")
    write_clip(path)
    clip = ModelDescription.read(path)
    assert clip.preprocessing is not None
    preprocessing = ThreadNames(**vars(clip.preprocessing))
    images = ImageReader(clip.images, preprocessing, max_pixels=10_000, max_tokens=10_000)
    return reader_with(Tokenizer(minilm_folder, 256), images=images)


def test_images_are_read_in_other_threads_and_their_memory_is_reserved(
    clip_reader: RequestReader,
) -> None:
    context = RequestCosts()
    inputs: list[Input] = ["a text", IMAGE, [101, 102]]
    text, image, ids = asyncio.run(clip_reader.read(context, inputs, InputOptions()))
    assert (text.tokens, ids.tokens) == (4, 2) and len(image.images) == 1
    assert threading.current_thread().name not in ThreadNames.names and ThreadNames.names
    assert context.memory.size == 3 * SIDE**2
    assert context.tokenize_us > 0


def test_too_many_images_are_refused(clip_reader: RequestReader) -> None:
    broken = ImageInput(image="?")
    with pytest.raises(TooLarge, match="11 texts, but the limit is 10"):
        asyncio.run(clip_reader.read(RequestCosts(), [broken] * 11, InputOptions()))


def test_the_memory_of_texts_with_images_is_reserved(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    path: Path = tmp_path_factory.mktemp("qwen3_vl")
    write_qwen3_vl(path)
    save(path, "preprocessor_config.json", PROCESSOR)
    qwen = ModelDescription.read(path)
    images = ImageReader(None, None, qwen.patches, max_pixels=10_000, max_tokens=10_000)
    vocabulary_rows = qwen.spec.config.vocab_size
    reader = reader_with(
        qwen.tokenizer(), qwen.recipe, vocabulary_rows=vocabulary_rows, images=images
    )
    context = RequestCosts()
    inputs: list[Input] = [ContentInput.of(["a", IMAGE, "b", IMAGE]), IMAGE]
    rows = asyncio.run(reader.read(context, inputs, InputOptions()))
    assert [len(row.images) for row in rows] == [2, 1]
    assert context.memory.size == 3 * 64 * 96 * 3
