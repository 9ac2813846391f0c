"""A row, which is the token ids or the pixels of one input, and a collector of token ids."""

from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import takewhile

from embedwell.engine.wire.messages import TokenIds, unpack_content


@dataclass(slots=True)
class InputRow:
    """Token ids of one input, an image, or a text with images.

    ids: an image is packed by embedwell.engine.wire.messages.pack_pixels, a text with images by
    pack_content.

    dropped: number of tokens that were cut off; a lower bound unless all were counted.
    prompt_token_count: number of leading ids (of each window) that are not pooled.
    windows: ids of each window, whose concatenation is `ids`; () if the input is not split.
    weights: for each window, the number of ids that are not prompt or special tokens.
    image_tokens: number of tokens of an image, or of a text with images; 0 for a text.
    text_tokens: number of those that are of the text beside images.
    image_pixels: number of pixels that the model reads.
    content: whether it is a text with images, or a page.
    """

    ids: TokenIds
    dropped: int
    prompt_token_count: int = 0
    windows: Sequence[TokenIds] = ()
    weights: Sequence[int] = ()
    image_tokens: int = 0
    text_tokens: int = 0
    image_pixels: int = 0
    content: bool = False

    @property
    def tokens(self) -> int:
        """Number of tokens that the model computes."""
        return self.image_tokens or len(self.ids)

    @property
    def token_ids(self) -> TokenIds:
        """Token ids of a text, of a text with images, or of a page."""
        return unpack_content(self.ids)[0] if self.content else self.ids


class TokenCollector:
    """Collects the ids of a prompt and a text, with special tokens."""

    def __init__(self) -> None:
        self.ids = array("i")
        self._outside = bytearray()  # for each id, whether it is a prompt or special token

    def add(self, batch: Sequence[tuple[int, bool]]) -> None:
        """Add ids, each with a flag for a prompt or special token."""
        self.ids.extend(id for id, _ in batch)
        self._outside.extend(outside for _, outside in batch)

    @property
    def tokens_before_text(self) -> int:
        """Number of tokens before the first one of the text."""
        return _leading(self._outside)

    @property
    def tokens_after_text(self) -> int:
        """Number of tokens after the last one of the text."""
        return _leading(reversed(self._outside))


def _leading(outside: Iterable[int]) -> int:
    return sum(1 for _ in takewhile(bool, outside))
