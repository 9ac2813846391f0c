"""Tokenizer of a query and a list of documents, which a model reads as one sequence.

A long list is read in several sequences, the blocks, each of which has the query. Before and after
a document and the query stand texts of a format; a marker follows each document, and another one
the query at the end.
"""

import pkgutil
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from embedwell_models.tokenizer.steps import Steps
from embedwell_models.tokenizer.tokenizer import Tokenizer
from embedwell_models.tokenizer.tokens import Side, TruncatedIds

_TOKENIZER = "embedwell_prompts.listwise:ListwiseTokenizer"


@dataclass(frozen=True, kw_only=True)
class ListwiseFormat:
    """The texts around a query and its documents, and how many tokens of them are read.

    start: text before the documents, with {count} of documents and {query}. instruction: text after
    that one with {instruction}; left out for a list without one. document: text of a document, with
    {index} from 0 and {document}, which the marker of documents follows. end: text after the
    documents, with {query}. markers: tokens after each document and after the query, which are
    removed from texts. max_query, max_document: tokens that are read of a text. max_documents:
    documents of a block.
    """

    start: str
    instruction: str
    document: str
    end: str
    markers: tuple[str, str]
    max_query: int
    max_document: int
    max_documents: int

    @property
    def added_characters(self) -> tuple[int, int]:
        """Characters of a block besides its texts: once, and with each document."""
        return len(self.start) + len(self.end), len(self.document)

    def text(self, query: str, documents: Sequence[str], instruction: str | None) -> str:
        """Return the text of a block."""
        query = self._without_markers(query)
        parts = [self.start.format(count=len(documents), query=query)]
        if instruction:
            parts.append(self.instruction.format(instruction=self._without_markers(instruction)))
        texts = map(self._without_markers, documents)
        parts += [self.document.format(index=i, document=text) for i, text in enumerate(texts)]
        return "".join([*parts, self.end.format(query=query)])

    def _without_markers(self, text: str) -> str:
        # Again, because what is left around a marker may be one.
        while any(marker in text for marker in self.markers):
            for marker in self.markers:
                text = text.replace(marker, "")
        return text


class ListBlocks(Protocol):
    """The blocks of a list, to which documents are added one after another.

    ids: ids of each finished block. sizes: number of documents of each. query_dropped: number of
    tokens of the query that are not read.
    """

    ids: list[Sequence[int]]
    sizes: list[int]
    query_dropped: int

    def add(self, document: str, count_limit: float = 0) -> Steps[TruncatedIds]:
        """Add a document, and return its ids; the block ends if another might not fit.

        count_limit: see Tokenizer.encode. Raises UnsplittableTextError.
        """

    def finish(self) -> Steps[None]:
        """End the last block."""


class ListEncoder(Protocol):
    """Tokenizer of lists for a model that reads them in a format."""

    format: ListwiseFormat

    def begin(
        self,
        query: str,
        instruction: str | None = None,
        max_document: int | None = None,
        side: Side | None = None,
    ) -> Steps[ListBlocks]:
        """Return the blocks of a query, without documents.

        max_document: tokens that are read of a document, at most the format's. side: on which long
        texts are truncated; None for the side of the tokenizer's files. Raises
        UnsplittableTextError.
        """


def list_encoder(
    tokenizer: Tokenizer, listwise_format: ListwiseFormat, max_length: int
) -> ListEncoder:
    """Return the tokenizer of lists in a format.

    max_length: tokens of the texts of a block, with the query twice.
    """
    encoder: ListEncoder = pkgutil.resolve_name(_TOKENIZER)(tokenizer, listwise_format, max_length)
    return encoder
