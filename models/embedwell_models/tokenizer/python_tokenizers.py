"""Base of tokenizers in Python, with the interface of the library tokenizers."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

from tokenizers import models, pre_tokenizers


@dataclass(frozen=True, slots=True)
class WordEncoding:
    """Ids of a text with names and offsets, like an Encoding of the library tokenizers."""

    ids: list[int]
    tokens: list[str]
    offsets: list[tuple[int, int]]

    @property
    def special_tokens_mask(self) -> list[int]:
        """Zeros: there are no special tokens."""
        return [0] * len(self.ids)


class PythonTokenizer(ABC):
    """A tokenizer with the attributes and methods of `tokenizers.Tokenizer` that are used here.

    By default it splits texts at white space and adds no tokens.

    looks_up_words: whether the model looks whole words up in a table, without their context.
    """

    looks_up_words = False

    normalizer = None
    pre_tokenizer: pre_tokenizers.PreTokenizer = pre_tokenizers.WhitespaceSplit()
    post_processor = None
    truncation = None
    decoder = None

    def __init__(self, unknown: str) -> None:
        """unknown: the name of an unknown word."""
        self.model = models.WordLevel({}, unk_token=unknown)

    @abstractmethod
    def get_vocab_size(self) -> int:
        """Return the number of ids."""

    def get_added_tokens_decoder(self) -> dict[int, object]:
        """Return an empty mapping: there are no added tokens."""
        return {}

    @abstractmethod
    def id_to_token(self, id: int) -> str | None:
        """Return the name of an id; None for one that does not exist."""

    @abstractmethod
    def token_to_id(self, token: str) -> int | None:
        """Return the id of a name; None for an unknown name."""

    def in_vocabulary(self, id: int) -> bool:
        """Whether a token is in the vocabulary; unknown words and their n-grams are not."""
        return True

    @abstractmethod
    def encode(self, text: str, add_special_tokens: bool = True) -> WordEncoding:
        """Return the ids of a text with their offsets."""

    def encode_batch(
        self, texts: Sequence[str], add_special_tokens: bool = True
    ) -> list[WordEncoding]:
        """Return the ids of texts with their offsets."""
        return [self.encode(text, add_special_tokens) for text in texts]

    encode_batch_fast = encode_batch

    @abstractmethod
    def decode_batch(
        self, rows: Sequence[Sequence[int]], skip_special_tokens: bool = True
    ) -> list[str]:
        """Return the text of each row of ids."""
