"""Documents on every machine with Python: the docstrings of its standard library."""

import ast
import sysconfig
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

_DOCUMENTED = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


@dataclass(frozen=True, slots=True)
class Document:
    """A docstring in two parts: the first line (the query) and the rest (the text)."""

    query: str
    text: str

    def texts(self) -> tuple[str, str]:
        """Return both parts."""
        return self.query, self.text


def read_documents(limit: int) -> list[Document]:
    """Return the first `limit` documents in the order of module names."""
    modules = Path(sysconfig.get_path("stdlib")).glob("*.py")
    return [*islice(_documents(modules), limit)]


def training_documents() -> Iterator[Document]:
    """Yield the documents of all packages that are installed besides the standard library."""
    return _documents(Path(sysconfig.get_path("purelib")).rglob("*.py"))


def _documents(modules: Iterable[Path]) -> Iterator[Document]:
    docstrings = (text for path in sorted(modules) for text in _docstrings(path))
    return (document for text in docstrings if (document := _split(text)))


def _docstrings(path: Path) -> Iterator[str]:
    try:
        module = ast.parse(path.read_bytes())
    except (SyntaxError, ValueError):  # of another version of Python, or a template
        return
    for node in ast.walk(module):
        if isinstance(node, _DOCUMENTED) and (text := ast.get_docstring(node)):
            yield text


def _split(docstring: str) -> Document | None:
    """Split after the first line; None for a short text or a line that is not a sentence."""
    query, _, text = docstring.partition("\n\n")
    is_sentence = 20 <= len(query) <= 120 and query.endswith(".") and "\n" not in query
    return Document(query, text) if is_sentence and len(text) >= 200 else None
