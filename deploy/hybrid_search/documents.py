"""Documents that every machine with Python has: the docstrings of its standard library."""

import ast
import sysconfig
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_DOCUMENTED = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


@dataclass(frozen=True, slots=True)
class Document:
    """A docstring in two parts: its first line, used as a query, and what follows, the text."""

    query: str
    text: str


def read_documents(limit: int) -> list[Document]:
    """Return the first so many documents, in the order of module names."""
    folder = Path(sysconfig.get_path("stdlib"))
    docstrings = (text for path in sorted(folder.glob("*.py")) for text in _docstrings(path))
    documents = [document for text in docstrings if (document := _split(text))]
    return documents[:limit]


def _docstrings(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, _DOCUMENTED) and (text := ast.get_docstring(node)):
            yield text


def _split(docstring: str) -> Document | None:
    """Split after the first line; None for a short text, and where the line is not a sentence."""
    query, _, text = docstring.partition("\n\n")
    is_sentence = 20 <= len(query) <= 120 and query.endswith(".") and "\n" not in query
    return Document(query, text) if is_sentence and len(text) >= 200 else None
