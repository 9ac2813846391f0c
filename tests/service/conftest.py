"""Fixtures of the service's tests."""

from pathlib import Path

import pytest

from embedwell.compute.request_reader import RequestReader
from tests.certificates import one_certificate
from tests.service.pipelines import CountingTokenizer, reader_with

__all__ = ["one_certificate"]  # a fixture


@pytest.fixture
def counting(minilm_folder: Path) -> CountingTokenizer:
    """The default model's tokenizer, which counts the tokenized texts."""
    return CountingTokenizer(minilm_folder, 256, max_chunk_size=150_000)


@pytest.fixture
def reader(counting: CountingTokenizer) -> RequestReader:
    """A reader of the default model with the counting tokenizer."""
    return reader_with(counting)
