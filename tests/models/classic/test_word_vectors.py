"""Vectors of words and of their n-grams, and tables that processes share."""

import re
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from embedwell_classic.compress.model import Compression, compress_folder
from embedwell_classic.compressed_tables import CodedTable
from embedwell_classic.convert.word_embeddings import Choices, convert_words
from embedwell_classic.encoders.word_vectors import WEIGHT_SUM_POWERS, WordVectorEncoder
from embedwell_classic.tokenizers.words import WordTokenizer
from embedwell_classic.words.table import WordTable
from embedwell_models.checkpoint.tables import Array, PlainTable, ScaledTable, Table
from embedwell_models.config.encoder_config import EncoderConfig
from embedwell_models.config.model_options import MODES
from embedwell_models.description.model_description import ModelDescription
from embedwell_models.embedder import Embedder
from embedwell_models.encoder.batch import Batch
from embedwell_models.errors import ModelError
from embedwell_models.model_files.pooling import MODES_WITHOUT_WORD_WEIGHTS
from tests.models.word_files import WIDTH, vectors, write_fasttext, write_text

ROWS = 20
TABLE = vectors(ROWS)
SIZE, UNKNOWN = ROWS + 1, ROWS
CONFIG = EncoderConfig(
    family="word_vectors",
    vocab_size=SIZE,
    unknown_id=UNKNOWN,
    hidden_size=WIDTH,
    layers=(),
    max_positions=100,
    norm_eps=0.0,
    subwords=True,
)
WEIGHTS = np.random.default_rng(4).uniform(0, 2, ROWS).astype(np.float32)
WORDS = [f"w{number}" for number in range(2000)]


def encoder(weights: bool = False) -> WordVectorEncoder:
    return WordVectorEncoder(CONFIG, PlainTable(TABLE), WEIGHTS if weights else None)


def more(id: int) -> int:
    """The id of one more n-gram of a word."""
    return id + SIZE


def test_a_word_of_several_ids_is_their_mean_and_counts_once() -> None:
    batch = Batch.of([[3, 15, more(16), more(17), UNKNOWN, 4], [], [UNKNOWN], [15]])
    word = TABLE[15:18].mean(axis=0)
    np.testing.assert_allclose(
        encoder().vectors(batch, ["mean", "max"]),
        [
            np.concatenate(
                [(TABLE[3] + word + TABLE[4]) / 3, np.max([TABLE[3], word, TABLE[4]], 0)]
            ),
            np.zeros(2 * WIDTH),
            np.zeros(2 * WIDTH),
            np.tile(TABLE[15], 2),
        ],
        atol=1e-6,
    )
    states = encoder().states(batch, 0)
    expected = [TABLE[3], word, word, word, np.zeros(WIDTH), TABLE[4], np.zeros(WIDTH), TABLE[15]]
    np.testing.assert_allclose(states, expected, atol=1e-6)


def test_a_text_that_was_cut_inside_of_a_word_begins_with_what_is_left_of_it() -> None:
    batch = Batch.of([[1], [more(16), more(17), 2]])
    (_, second) = encoder().vectors(batch, ["mean"])
    np.testing.assert_allclose(second, (TABLE[16:18].mean(axis=0) + TABLE[2]) / 2, atol=1e-6)


def test_the_ids_of_a_prompt_are_left_out() -> None:
    batch = Batch.of([[1, 15, more(16), 2, 3], [1, 2], [4]], [3, 2, 0])
    np.testing.assert_allclose(
        encoder().vectors(batch, ["mean"]),
        [TABLE[2:4].mean(axis=0), np.zeros(WIDTH), TABLE[4]],
        atol=1e-6,
    )


@pytest.mark.parametrize(("mode", "power"), [("mean", 1.0), ("mean_sqrt_len_tokens", 0.5)])
def test_weights_of_words_count_in_the_mean_and_in_the_states_alone(
    mode: str, power: float
) -> None:
    batch = Batch.of([[1, 15, more(16), UNKNOWN], [UNKNOWN], [3]])
    word, ours = TABLE[15:17].mean(axis=0), encoder(weights=True)
    weighted = WEIGHTS[1] * TABLE[1] + WEIGHTS[15] * word
    np.testing.assert_allclose(
        ours.vectors(batch, [mode]),
        [
            weighted / (WEIGHTS[1] + WEIGHTS[15]) ** power,
            np.zeros(WIDTH),
            TABLE[3] * WEIGHTS[3] ** (1 - power),
        ],
        atol=1e-6,
    )
    np.testing.assert_allclose(
        ours.states(batch, 0)[:2], [WEIGHTS[1] * TABLE[1], WEIGHTS[15] * word]
    )
    np.testing.assert_allclose(ours.part("token", batch)[:2], [TABLE[1], word])


def test_every_pooling_mode_takes_weights_of_words_or_is_refused_with_them() -> None:
    assert sorted([*WEIGHT_SUM_POWERS, *MODES_WITHOUT_WORD_WEIGHTS]) == sorted(MODES)


def test_a_row_is_the_same_bits_in_every_batch() -> None:
    noise = np.random.default_rng(5)
    rows = [noise.integers(0, 2 * SIZE, noise.integers(0, 30)) for _ in range(50)]
    for ours in (encoder(), encoder(weights=True)):
        alone = [ours.vectors(Batch.of([row]), ["mean", "max"]) for row in rows]
        together = ours.vectors(Batch.of(rows), ["mean", "max"])
        assert together.tobytes() == np.concatenate(alone).tobytes()


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
    keys = WordTokenizer.read(read.encoder).vocabulary.arrays["keys"]
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
