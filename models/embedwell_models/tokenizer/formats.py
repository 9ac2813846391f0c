"""Formats in which a language model reads a text, or a query and a document."""

from dataclasses import dataclass
from enum import Enum


class PromptSlot(Enum):
    """Placeholder in a text for a part of a request."""

    QUERY = "query"
    DOCUMENT = "document"
    INSTRUCTION = "instruction"


_MAX_PROMPT = 512  # tokens of an instruction, and of the text around it and the query
Segments = tuple[str | PromptSlot, ...]
"""Literal texts and slots in order; the query and the document have one slot each."""


@dataclass(frozen=True)
class PairFormat:
    """The text around a query and a document.

    default: segments for a request without an instruction. instructed: segments with a slot for an
    instruction; None if the model takes none. strips: whether white space around queries, documents
    and instructions is removed.
    """

    default: Segments
    instructed: Segments | None = None
    strips: bool = False

    def segments(self, instruction: str | None) -> Segments:
        """Return the segments with slots for the query and the document only.

        Raises ValueError for an instruction to a model that takes none.
        """
        if instruction is None:
            return self.default
        if self.instructed is None:
            raise ValueError("the model takes no instruction")
        text = self.clean(instruction)
        return tuple(
            text if segment is PromptSlot.INSTRUCTION else segment for segment in self.instructed
        )

    def clean(self, text: str) -> str:
        """Return a query, document or instruction in the form for its slot."""
        return text.strip() if self.strips else text


@dataclass(frozen=True)
class SeparateFormat:
    """The parts of a pair that are tokenized one by one, see SeparatePairTokenizer.

    query, document: texts before a query and a document. separator: the text before the document
    and before the instruction. instruction: the default one.
    """

    query: str
    document: str
    separator: str
    instruction: str


@dataclass(frozen=True)
class DecoderFormat:
    """The parts of a pair that an encoder and a decoder read, see `decoder_pairs`.

    document: text before a document, which the encoder reads. prompt: what the decoder reads, with
    slots for an instruction and the query. instruction: the default one. max_query, max_document:
    number of tokens that are read of a query, and of a document with the text before it.
    """

    document: str
    prompt: Segments
    instruction: str
    max_query: int
    max_document: int

    @property
    def max_length(self) -> int:
        """Maximum number of tokens of a pair."""
        return self.max_document + self.max_query + _MAX_PROMPT

    def text(self, query: str, instruction: str) -> str:
        """Return the text that the decoder reads."""
        parts = {PromptSlot.QUERY: query, PromptSlot.INSTRUCTION: instruction}
        return "".join(
            parts[part] if isinstance(part, PromptSlot) else part for part in self.prompt
        )


AnyPairFormat = PairFormat | SeparateFormat | DecoderFormat
"""Format in which a model reads pairs."""


def around(segments: Segments, query: str) -> tuple[str, str]:
    """Return the text before and after the document for a query."""
    texts = [query if segment is PromptSlot.QUERY else segment for segment in segments]
    index = texts.index(PromptSlot.DOCUMENT)
    before, after = ("".join(map(str, part)) for part in (texts[:index], texts[index + 1 :]))
    return before, after


@dataclass(frozen=True)
class TextFormat:
    """The text around a text to embed.

    plain: text before a text without an instruction. instructed: text before an instruction, and
    text between it and the text. after: text after the text. image: text of an image among texts;
    "" for a template without images. instructs_images: whether an instruction also precedes a text
    with images. single_images: whether an image is an input of its own, without texts.
    """

    plain: str
    instructed: tuple[str, str]
    after: str
    image: str = ""
    instructs_images: bool = True
    single_images: bool = False

    def before(self, instruction: str) -> str:
        """Return the text before a text. instruction: "" for none."""
        return instruction.join(self.instructed) if instruction else self.plain
