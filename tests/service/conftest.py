"""Fixtures of the service's tests."""

from pathlib import Path

import pytest

from embedwell.inputs.reader import InputReader
from tests.service.inputs.readers import CountingTokenizer, reader_with


@pytest.fixture
def reader(minilm_folder: Path) -> InputReader:
    """A reader of the default model that counts the tokenized texts."""
    return reader_with(CountingTokenizer(minilm_folder, 256, max_chunk_size=150_000))
