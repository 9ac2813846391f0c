"""The token ids of one input, or the pixels of an image."""

from collections.abc import Sequence
from dataclasses import dataclass

from embedwell.engine.wire.messages import TokenIds


@dataclass(slots=True)
class InputRow:
    """Token ids of one input, or an image: see embedwell.engine.wire.messages.pack_pixels.

    dropped: number of tokens that were cut off; a lower bound unless all were counted.
    prompt_token_count: number of leading ids (of each window) that are not pooled.
    windows: ids of each window, whose concatenation is `ids`; () if the input is not split.
    weights: for each window, the number of ids that are not prompt or special tokens.
    image_tokens: number of tokens of an image; 0 for a text.
    """

    ids: TokenIds
    dropped: int
    prompt_token_count: int = 0
    windows: Sequence[TokenIds] = ()
    weights: Sequence[int] = ()
    image_tokens: int = 0

    @property
    def tokens(self) -> int:
        """Number of tokens that the model computes."""
        return self.image_tokens or len(self.ids)
