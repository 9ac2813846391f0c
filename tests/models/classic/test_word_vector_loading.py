"""Tables that processes share: mapped files, and neither copied nor converted."""

import re
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from embedwell_models.classic.word_vectors.encoder import WordVectorEncoder
from embedwell_models.compress.model import Compression, compress_folder
from embedwell_models.convert.words.word_embeddings import Choices, convert_words
from embedwell_models.embedder import Embedder
from embedwell_models.errors import ModelError
from embedwell_models.loading.word_table import WordTable
from embedwell_models.model_description import ModelDescription
from embedwell_models.tables.compressed import CodedTable
from embedwell_models.tables.table import Array, PlainTable, ScaledTable, Table
from tests.models.word_files import WIDTH, vectors, write_fasttext, write_text

WORDS = [f"w{number}" for number in range(2000)]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = write_text(tmp_path / "a.txt", vectors(len(WORDS)), WORDS)
    convert_words(path, tmp_path / "words")
    return tmp_path / "words"


def loaded_table(folder: ModelDescription) -> Table:
    return WordVectorEncoder.load(folder, "cpu", frozenset()).table


def mapped_file(address: int) -> str:
    """The file that is mapped at an address of this process; empty if none is."""
    for line in Path("/proc/self/maps").read_text(encoding="utf-8").splitlines():
        start, stop, path = re.findall(r"^(\w+)-(\w+) \S+ \S+ \S+ \S+\s*(.*)", line)[0]
        if int(start, 16) <= address < int(stop, 16):
            return str(path)
    return ""


def stored_rows(table: Table) -> Array:
    """The largest array of a table."""
    if isinstance(table, ScaledTable):
        return stored_rows(table.table)
    if isinstance(table, CodedTable):
        return table.codes
    assert isinstance(table, PlainTable)
    return table.values


@pytest.mark.parametrize(
    ("compression", "bytes_of_a_row"),
    [(None, 4 * WIDTH), (Compression(int8=True), WIDTH), (Compression(codes=3), 3)],
    ids=["float32", "int8", "codes"],
)
def test_a_table_stays_in_its_file(
    folder: Path, tmp_path: Path, compression: Compression | None, bytes_of_a_row: int
) -> None:
    if compression is not None:
        compress_folder(folder, tmp_path / "small", compression)
        folder = tmp_path / "small"
    read = ModelDescription.read(folder)
    words_table = WordTable.of(read)
    assert words_table is not None
    for table in (loaded_table(read), words_table.table):
        array = stored_rows(table)
        assert array.nbytes == bytes_of_a_row * len(WORDS)
        assert mapped_file(array.ctypes.data) == str(folder / "model.safetensors")
    words = read.tokenizer().words
    assert words is not None
    keys = words.vocabulary.arrays["keys"]
    assert mapped_file(keys.ctypes.data) == str(folder / "vocabulary.safetensors")


def test_a_table_of_another_type_is_read_as_float32(folder: Path) -> None:
    path = folder / "model.safetensors"
    table = load_file(path)["emb_layer.weight"]
    save_file({"emb_layer.weight": table.astype(np.float16)}, path)
    rows = loaded_table(ModelDescription.read(folder))[:]
    assert rows.dtype == np.float32
    np.testing.assert_array_equal(rows, table.astype(np.float16).astype(np.float32))


def test_a_table_that_is_not_finite_is_refused(folder: Path) -> None:
    path = folder / "model.safetensors"
    table = load_file(path)["emb_layer.weight"]
    table[7] = np.nan
    save_file({"emb_layer.weight": table}, path)
    with pytest.raises(ModelError, match=r"emb_layer\.weight has NaN or infinity"):
        loaded_table(ModelDescription.read(folder))


def test_a_dense_output_is_the_vector_of_the_text(tmp_path: Path) -> None:
    choices = Choices(weights="sif")
    convert_words(write_fasttext(tmp_path / "a.bin"), tmp_path / "words", choices)
    embedder = Embedder.load(tmp_path / "words", device="cpu")
    ids = embedder.tokenize(["the king unknownword", "queen", ""])
    outputs = [output.dense for output in embedder.outputs(ids, ["dense"])]
    np.testing.assert_array_equal(outputs, embedder.encode(ids, normalized=False))
