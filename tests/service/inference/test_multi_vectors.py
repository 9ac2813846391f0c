"""Vectors of the tokens of queries and documents, with an engine that fails on one text."""

import asyncio
from dataclasses import dataclass
from pathlib import Path

import pytest

from embedwell.api.maxsim import maxsim_similarity
from embedwell.api.similarity_request import SimilarityRequest
from embedwell.engine.protocol.messages import Job, Result
from embedwell.errors import EncodingFailed
from embedwell.inference.multi_vectors import MultiVectors
from embedwell.inference.pipeline import Pipeline
from embedwell.inputs.options import InputOptions
from embedwell.inputs.reader import InputReader
from embedwell.inputs.text_pair import TextPair
from embedwell.process.shared_counters import SharedCounters
from embedwell.request.admission import Admission
from embedwell.request.request_context import RequestContext
from embedwell_models.folder import Folder
from embedwell_models.outputs.names import MULTI
from tests.models.colbert import write_stanford


@dataclass
class FailingEngine:
    """Fails on the text of one index."""

    index: int

    async def submit(self, job: Job, timeout: float) -> Result:
        raise EncodingFailed("it fails", index=self.index)

    def tokens_to_compute(self, job: Job) -> int:
        return job.tokens


def failing_at(index: int, reader: InputReader, folder: Path) -> MultiVectors:
    write_stanford(folder)
    model = Folder.read(folder)
    pipeline = Pipeline(
        *(reader, Admission(1, lambda: 0.0, SharedCounters.private()), FailingEngine(index), 1),
        output_names=(MULTI,),
    )
    return MultiVectors(pipeline, model.multi_vector_rules(model.tokenizer()), model.dim)


@pytest.mark.parametrize(("failing", "index"), [(0, 0), (1, 1), (2, 0), (3, 4)])
def test_a_failure_has_the_index_of_the_first_pair_with_its_text(
    reader: InputReader, tmp_path: Path, failing: int, index: int
) -> None:
    """The engine computes the queries q and r, and then the documents b and c."""
    vectors = failing_at(failing, reader, tmp_path)
    texts = [("q", "b"), ("r", "b"), ("q", "b"), ("r", "b"), ("q", "c")]
    pairs = [TextPair(*pair) for pair in texts]
    with pytest.raises(EncodingFailed) as failed:
        asyncio.run(vectors.scores(RequestContext("a"), pairs, InputOptions(truncate=True)))
    assert failed.value.index == index


@pytest.mark.parametrize(("failing", "param", "index"), [(1, "a", 1), (2, "b", 0), (4, "b", 2)])
def test_a_failure_of_similarity_names_the_field_and_the_index_in_it(
    reader: InputReader, tmp_path: Path, failing: int, param: str, index: int
) -> None:
    vectors = failing_at(failing, reader, tmp_path)
    body = SimilarityRequest.model_validate({"a": ["a", "b"], "b": ["c", "d", "e"]})
    with pytest.raises(EncodingFailed) as failed:
        asyncio.run(maxsim_similarity(vectors, RequestContext("a"), body, 100))
    assert (failed.value.param, failed.value.index) == (param, index)


@pytest.mark.parametrize(("failing", "index"), [(0, None), (2, 1)])
def test_a_failure_has_the_index_of_the_sentence(
    reader: InputReader, tmp_path: Path, failing: int, index: int | None
) -> None:
    vectors = failing_at(failing, reader, tmp_path)
    body = SimilarityRequest.model_validate(
        {"inputs": {"source_sentence": "a", "sentences": ["b", "c"]}}
    )
    with pytest.raises(EncodingFailed) as failed:
        asyncio.run(maxsim_similarity(vectors, RequestContext("a"), body, 100))
    assert (failed.value.param, failed.value.index) == ("inputs", index)
