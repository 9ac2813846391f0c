"""A file with a text in each line, which is read repeatedly and never held in memory."""

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
