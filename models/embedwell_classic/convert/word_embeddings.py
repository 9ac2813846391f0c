"""Conversion of word vectors to a WordEmbeddings folder, which sentence-transformers reads too."""

import gzip
import json
import logging
import shutil
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np

from embedwell_classic.convert.module_files import SENTENCE_TRANSFORMERS, modules, write_json
from embedwell_classic.convert.word_files import (
    WordVectors,
    is_fasttext,
    read_binary,
    read_fasttext,
    read_text,
)
from embedwell_classic.convert.word_weighting import (
    Weighting,
    WordCounts,
    lines,
    remove_common_component,
    weight_function,
)
from embedwell_classic.families.word_vectors import TABLE
from embedwell_classic.tokenizers.vocabulary import Vocabulary, WordOptions
from embedwell_classic.tokenizers.words import WordTokenizer
from embedwell_models.checkpoint import safetensors_files
from embedwell_models.checkpoint.new_folder import new_folder
from embedwell_models.config.json_config import WORD_VECTORS
from embedwell_models.errors import ModelError
from embedwell_models.tokenizer.loading.tokenizer_kind import LISTED, MAPPED
from embedwell_models.vectors import Floats

SUFFIXES = (".bin", ".txt", ".vec")
"""Suffixes of files of word vectors; each may be followed by .gz."""
_BLOCK = 1024  # rows that are written at once
_HEADER = 248  # bytes; the table then begins at a multiple of 64

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Choices:
    """Options of `convert_words`.

    limit: number of words to keep, from the start of the file; None for all. exact: see
    WordOptions.
    weights: weighting of the words in the mean of a text; None for equal weights. corpus: file with
    a text in each line, in which words are counted.
    """

    limit: int | None = None
    exact: bool = False
    weights: Weighting | None = None
    corpus: Path | None = None


def convert_words(source: Path, target: Path, choices: Choices | None = None) -> None:
    """Write a folder for the server and sentence-transformers; after an error, no folder is left.

    Raises ModelError for a file that cannot be read, and if `target` exists.
    """
    choices = choices or Choices()
    try:
        with new_folder(target) as scratch:
            write_words(_reader(_unpacked(source, scratch.parent), choices.limit), scratch, choices)
    except (OSError, EOFError, zlib.error) as error:
        raise ModelError(f"{source} cannot be converted to {target}: {error}") from None


def _unpacked(source: Path, scratch: Path) -> Path:
    if source.suffix != ".gz":
        return source
    unpacked = scratch / source.stem
    with gzip.open(source) as packed, unpacked.open("wb") as file:
        shutil.copyfileobj(packed, file, 1 << 20)
    return unpacked


def _reader(path: Path, limit: int | None) -> WordVectors:
    if path.suffix not in SUFFIXES:
        raise ModelError(
            f"{path}: the name of a file of word vectors must end in "
            f"{', '.join(SUFFIXES)}, with or without .gz"
        )
    if path.suffix != ".bin":
        return read_text(path, limit)
    return read_fasttext(path, limit) if is_fasttext(path) else read_binary(path, limit)


def write_words(vectors: WordVectors, folder: Path, choices: Choices) -> None:
    """Write the files of word vectors to an empty folder; raises ModelError."""
    with _TableWriter(folder / "model.safetensors", TABLE, vectors.width) as table:
        words = _write_words(vectors, table)
        for block in vectors.buckets:
            table.write(block)
    if not words:
        raise ModelError("the file has no words")
    options = WordOptions(exact=choices.exact, subwords=vectors.subwords)
    vocabulary = Vocabulary.of(words)
    safetensors_files.write_arrays(folder / MAPPED, vocabulary.arrays, options.as_metadata())
    _write_options(folder, words, vectors.width)
    if not choices.weights:
        return
    tokenizer = WordTokenizer(vocabulary, options)
    texts = lines(choices.corpus) if choices.corpus else []
    counts = WordCounts.of(texts, lambda text: [*_words(tokenizer, text)]) if texts else None
    weigh = weight_function(choices.weights, counts, vectors.counts)
    _write_weights(folder, words, table.rows, weigh)
    if choices.weights == "sif" and texts:
        remove_common_component(folder, texts, tokenizer)
        kinds = ("WordEmbeddings", "WordWeights", "Pooling", "Dense")
        write_json(folder / "modules.json", modules(*kinds))


def _write_words(vectors: WordVectors, table: "_TableWriter") -> list[str]:
    words: dict[str, None] = {}  # an ordered set
    repeated = 0
    block: dict[str, Floats] = {}
    for word, vector in vectors.rows:
        if word in words:  # the first occurrence is kept, as in gensim
            repeated += 1
            continue
        words[word] = None
        block[word] = vector
        if len(block) == _BLOCK:
            table.write(np.stack([*block.values()]), [*block])
            block.clear()
    if block:
        table.write(np.stack([*block.values()]), [*block])
    if repeated:
        log.warning("%s repeated words are left out", repeated)
    return [*words]


def _write_options(folder: Path, words: Sequence[str], width: int) -> None:
    write_json(folder / LISTED, {"vocab": words, "stop_words": [], "do_lower_case": False})
    tokenizer_class = f"{SENTENCE_TRANSFORMERS}tokenizer.WhitespaceTokenizer"
    options = {"tokenizer_class": tokenizer_class, "update_embeddings": False}
    write_json(folder / WORD_VECTORS, options)
    write_json(folder / "modules.json", modules("WordEmbeddings", "Pooling"))
    pooling = {"word_embedding_dimension": width, "pooling_mode_mean_tokens": True}
    write_json(folder / "1_Pooling" / "config.json", pooling)


def _write_weights(
    folder: Path, words: Sequence[str], rows: int, weigh: Callable[[str], float]
) -> None:
    """Put weights between the table and the pooling. rows: number of rows of the table."""
    weights = {word: weigh(word) for word in words}
    unknown = weigh("")  # also the weight of n-grams
    table = np.full((rows, 1), unknown, dtype=np.float32)
    table[: len(words), 0] = [*weights.values()]
    (folder / "1_Pooling").rename(folder / "2_Pooling")
    config = {"vocab": words, "word_weights": weights, "unknown_word_weight": unknown}
    write_json(folder / "1_WordWeights" / "config.json", config)
    path = folder / "1_WordWeights" / "model.safetensors"
    safetensors_files.write_arrays(path, {TABLE: table})
    write_json(folder / "modules.json", modules("WordEmbeddings", "WordWeights", "Pooling"))


def _words(tokenizer: WordTokenizer, text: str) -> Iterator[str]:
    size = len(tokenizer.vocabulary)
    return (tokenizer.vocabulary.word(id) for id in tokenizer.encode(text).ids if id < size)


class _TableWriter:
    """Writer of a safetensors file with one float32 table, which may exceed the memory."""

    def __init__(self, path: Path, name: str, width: int) -> None:
        """name: name of the tensor. width: number of columns."""
        self._file, self._name, self._width = path.open("wb"), name, width
        self.rows = 0
        self._file.write(bytes(8 + _HEADER))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        size = 4 * self.rows * self._width
        part = {"dtype": "F32", "shape": [self.rows, self._width], "data_offsets": [0, size]}
        header = json.dumps({self._name: part}).encode().ljust(_HEADER)
        self._file.seek(0)
        self._file.write(_HEADER.to_bytes(8, "little") + header)
        self._file.close()

    def write(self, rows: Floats, words: Sequence[str] = ()) -> None:
        """Append rows (N, D); raises ModelError for NaN or infinity. words: a word for each row."""
        if not np.isfinite(rows).all():
            index = int(np.flatnonzero(~np.isfinite(rows).all(axis=1))[0])
            row = self.rows + index
            name = f"word {row + 1} ({words[index]!r})" if words else f"row {row}"
            raise ModelError(f"the vector of {name} has NaN or infinity")
        self._file.write(np.ascontiguousarray(rows, dtype="<f4").data)
        self.rows += len(rows)
