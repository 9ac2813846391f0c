"""A file with a text in each line, or a pair, which is read repeatedly and never held in memory."""

import json
import shutil
import string
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from embedwell_models.errors import ModelError

STDIN = Path("-")
_MAX_WORDS = 10_000  # words of a sequence; gensim ignores further words
_PAIR_COLUMNS = ("anchor", "positive", "negative")
_PAIR_SUFFIXES = (".tsv", ".jsonl")


@dataclass(frozen=True)
class Corpus:
    """Texts of a UTF-8 file. name: name of the file in messages."""

    path: Path
    name: str

    def lines(self) -> Iterator[tuple[int, str]]:
        """Yield number and text of each line that is not empty; raises ModelError."""
        number = 0
        try:
            with self.path.open(encoding="utf-8-sig", newline="\n") as file:
                for number, line in enumerate(file, 1):
                    if text := line.strip():
                        yield number, text
        except UnicodeDecodeError as error:
            raise ModelError(f"{self.name} is not UTF-8 after line {number}: {error}") from None
        except OSError as error:
            raise ModelError(f"{self.name} cannot be read: {error}") from None

    def __iter__(self) -> Iterator[str]:
        """Yield each text; raises ModelError."""
        return (text for _, text in self.lines())


@dataclass(frozen=True)
class WordSequences:
    """Words of each text of a corpus, in the form in which the server looks them up.

    exact: whether words stay as written; otherwise they lose punctuation and are lowercased.
    """

    corpus: Corpus
    exact: bool = False

    def __iter__(self) -> Iterator[list[str]]:
        """Yield the words of each text; a long text is yielded in parts."""
        for text in self.corpus:
            words = text.split()
            if not self.exact:
                forms = (word.strip(string.punctuation).lower() for word in words)
                words = [form for form in forms if form]
            for start in range(0, len(words), _MAX_WORDS):
                yield words[start : start + _MAX_WORDS]


@contextmanager
def open_corpus(path: Path) -> Iterator[Corpus]:
    """Open a corpus from a file, a pipe, or standard input (`-`); raises ModelError without texts.

    A pipe can be read only once, so it is copied to a temporary file.
    """
    with tempfile.TemporaryDirectory(prefix="corpus-") as folder:
        corpus = Corpus(path if path.is_file() else _copied(path, Path(folder)), str(path))
        if next(iter(corpus), None) is None:
            raise ModelError(f"{path} has no texts: write one in each line")
        yield corpus


def _copied(source: Path, folder: Path) -> Path:
    copy = folder / "corpus"
    try:
        with ExitStack() as stack, copy.open("wb") as file:
            is_stdin = source == STDIN
            pipe = sys.stdin.buffer if is_stdin else stack.enter_context(source.open("rb"))
            shutil.copyfileobj(pipe, file, 1 << 20)
    except OSError as error:
        raise ModelError(f"{source} cannot be copied to {folder}: {error}") from None
    return copy


@dataclass(frozen=True)
class Pairs:
    """Rows of an anchor, a positive with the same meaning and optionally a negative without it.

    A .tsv file has them in columns, with or without a header; a .jsonl file has them in fields with
    these names. In other files each text is paired with itself: its two vectors differ by dropout
    (unsupervised SimCSE, Gao et al. 2021, arXiv 2104.08821).
    """

    corpus: Corpus

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns in the first row; raises ModelError."""
        first = next(iter(self), None)
        if first is None:
            raise ModelError(f"{self.corpus.name} has a header but no pairs")
        return _PAIR_COLUMNS[: len(first)]

    def __iter__(self) -> Iterator[tuple[str, ...]]:
        """Yield each row; raises ModelError for a row with other columns than the first row."""
        suffix = next((s for s in _PAIR_SUFFIXES if self.corpus.name.endswith(s)), "")
        width = 0
        for number, line in self.corpus.lines():
            try:
                row = _pair_row(line, suffix)
            except ValueError as error:
                raise ModelError(f"{self.corpus.name}, line {number}: {error}") from None
            if row == _PAIR_COLUMNS[: len(row)]:  # header
                continue
            width = width or len(row)
            if len(row) != width:
                problem = f"{len(row)} texts, where lines before it have {width}"
                raise ModelError(f"{self.corpus.name}, line {number}: {problem}")
            yield row

    def texts(self) -> Iterator[str]:
        """Yield the texts of all rows; each text of a plain file is yielded once."""
        plain = not self.corpus.name.endswith(_PAIR_SUFFIXES)
        for row in self:
            yield from row[:1] if plain else row


def _pair_row(line: str, suffix: str) -> tuple[str, ...]:
    """Return the texts of a line; raises ValueError."""
    if not suffix:
        return line, line
    if suffix == ".tsv":
        row = tuple(line.split("\t"))
    else:
        record = json.loads(line)
        if not isinstance(record, dict):
            raise ValueError("write an object")
        row = tuple(record[name] for name in _PAIR_COLUMNS if name in record)
    texts = all(isinstance(text, str) and text.strip() for text in row)
    if not texts or not 2 <= len(row) <= len(_PAIR_COLUMNS):
        raise ValueError("write an anchor, a positive and, in every line or in none, a negative")
    return row
