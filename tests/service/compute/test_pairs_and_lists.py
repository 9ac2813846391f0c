"""Limits, errors and counts of pairs, and of lists of documents, that are tokenized."""

import asyncio
import threading

import pytest

from embedwell.compute.pairs_and_lists import ListReader, PairReader
from embedwell.compute.request_limits import RequestCosts
from embedwell.errors import BadRequest, TooLarge
from embedwell_models.description.model_description import ModelDescription
from embedwell_models.read.inputs import InputOptions, TextPair
from embedwell_models.read.pairs_and_lists import DocumentList
from embedwell_models.tokenizer.formats import DecoderFormat, PromptSlot
from embedwell_models.tokenizer.tokenizer import Tokenizer
from embedwell_prompts.decoder_pairs import DecoderPairTokenizer
from tests.conftest import Folder
from tests.models.listwise_reranker import write_listwise_reranker
from tests.models.tiny import VOCABULARY, with_token
from tests.service.pipelines import CountingTokenizer, reader_with

TABLE = len(VOCABULARY)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> ModelDescription:
    return ModelDescription.read(write_listwise_reranker(tmp_path_factory.mktemp("lists")))


@pytest.fixture
def tokenizer(model: ModelDescription) -> CountingTokenizer:
    return CountingTokenizer(model.path, 2048, max_chunk_size=1 << 16)


@pytest.fixture
def reader(model: ModelDescription, tokenizer: CountingTokenizer) -> ListReader:
    assert model.listwise
    lists = model.listwise.tokenizer(tokenizer)
    return ListReader(reader_with(tokenizer, model.recipe, max_texts=2000), lists)


def list_of(*documents: str) -> DocumentList:
    return DocumentList("a query", documents, range(len(documents)))


def test_a_list_of_too_many_tokens_is_not_read_to_its_end(
    reader: ListReader, tokenizer: CountingTokenizer
) -> None:
    documents = list_of(*["a copy of the work"] * 2000)
    with pytest.raises(TooLarge):
        asyncio.run(reader.read(RequestCosts(), [documents], InputOptions()))
    assert tokenizer.read < 1000


def test_an_error_has_the_index_of_its_document(reader: ListReader) -> None:
    documents = list_of("a", "a work", "b" * 200_000)
    with pytest.raises(BadRequest) as raised:
        asyncio.run(reader.read(RequestCosts(), [documents], InputOptions()))
    assert (raised.value.code, raised.value.index) == ("unbroken_text", 2)


def test_documents_count_as_texts_and_blocks_as_tokens(reader: ListReader) -> None:
    context, lists = RequestCosts(), [list_of(*["a"] * 130), list_of("a", "a work")]
    rows = asyncio.run(reader.read(context, lists, InputOptions()))
    assert [each.sizes for each in rows] == [[125, 5], [2]]
    assert context.texts == 132
    assert context.tokens == sum(block.tokens for each in rows for block in each.blocks)


@pytest.mark.parametrize(
    "lists",
    [
        [DocumentList(f"{number}", ["a"], [number]) for number in range(20)],
        [list_of(*["a"] * 100)],
    ],
    ids=["of one document", "of many"],
)
def test_many_short_texts_are_tokenized_in_threads(
    reader: ListReader, tokenizer: CountingTokenizer, lists: list[DocumentList]
) -> None:
    asyncio.run(reader.read(RequestCosts(), lists, InputOptions()))
    assert threading.current_thread().name not in tokenizer.threads


def test_a_short_list_is_tokenized_at_once(
    reader: ListReader, tokenizer: CountingTokenizer
) -> None:
    asyncio.run(reader.read(RequestCosts(), [list_of("a", "a work")], InputOptions()))
    assert tokenizer.threads == {threading.current_thread().name}


@pytest.mark.parametrize("pair", [("work", "a <new> work"), ("a <new>", "work")])
def test_a_token_that_is_not_in_the_table_is_refused_in_both_segments_of_a_pair(
    tiny_bert: Folder, pair: tuple[str, str]
) -> None:
    folder = with_token(tiny_bert(), "<new>")
    tokenizer = Tokenizer(folder, 256, special_tokens=False)
    prompt = ("who? ", PromptSlot.INSTRUCTION, " ", PromptSlot.QUERY)
    pair_format = DecoderFormat("", prompt, "any", max_query=9, max_document=9)
    pairs = DecoderPairTokenizer(tokenizer, pair_format, TABLE)
    reader = reader_with(tokenizer, vocabulary_rows=TABLE)
    pair_reader = PairReader(reader, pairs, segment_offset=TABLE)
    context = RequestCosts()
    (row,) = asyncio.run(pair_reader.read(context, [TextPair("of", "the work")], InputOptions()))
    assert row.ids.max() >= TABLE
    with pytest.raises(BadRequest, match="the token '<new>' has id"):
        asyncio.run(pair_reader.read(context, [TextPair(*pair)], InputOptions()))
    with pytest.raises(BadRequest, match="the token '<new>' has id"):  # also in a text alone
        asyncio.run(reader.read(context, ["a <new>"], InputOptions()))
