"""Records of image encoders, and of the texts around pages."""

from dataclasses import dataclass

from embedwell_models.config.model_spec import ModelSpec, Projection


@dataclass(frozen=True, kw_only=True)
class ImageSpec:
    """The image encoder of a checkpoint: a transformer over the patches of an image (ViT).

    Dosovitskiy et al. 2020 (arXiv 2010.11929).

    encoder: configuration and tensors; the token table holds only the class token, or no row if
    there is no class token. image_size, patch_size: pixels of a side. projection: the projection of
    the class token's state. class_token: whether this state itself is the vector. With neither, a
    head pools all patches by attention, with the encoder's `num_heads`. adds_class_token: whether
    that head adds its network's output to the state of the class token, and not to the pooled
    state. positions: side of a table of positions that is stretched to the proportions of each
    image, which then has at most as many patches as the square; 0 for square images. merge: patches
    of a side of the block that becomes one token of a text, in place of the token `token_id`; 0 for
    an image that has a vector of its own.
    """

    encoder: ModelSpec
    image_size: int
    patch_size: int
    projection: Projection | None = None
    class_token: bool = False
    adds_class_token: bool = False
    positions: int = 0
    merge: int = 0
    token_id: int = -1

    @property
    def grid(self) -> int:
        """Number of patches along a side; pixels after the last whole patch are not read."""
        return self.image_size // self.patch_size

    @property
    def tokens(self) -> int:
        """Greatest number of tokens of an image: the patches and the class token, or the blocks."""
        if self.merge:
            return (self.grid // self.merge) ** 2
        return self.grid**2 + self.encoder.config.vocab_size

    @property
    def width(self) -> int:
        """Number of dimensions of an image's vector."""
        return self.projection.width if self.projection else self.encoder.config.hidden_size


@dataclass(frozen=True, kw_only=True)
class ImageTokenSpec:
    """The image encoder of a checkpoint whose vectors are tokens of a text.

    encoder: configuration and tensors. patch_size: pixels of a side. frames: frames of a patch.
    merge: patches of a side of the block that becomes one token. grid: side of the table of
    positions, or rows of those of Gemma 4; 0 without one. window: blocks of a side of a window of
    attention, and whole_layers: layers without windows; 0 and none if all layers are. deepstack:
    layers whose states are added to the text encoder's first states, after as many of its layers.
    id: the token id that stands for one vector. placeholder: its text. around: texts that the
    processor puts around these. sections: numbers of pairs of a head that the time, row and column
    of a token rotate; None if tokens of an image have the positions of tokens of a text. in_turns:
    whether the three take pairs in turns, not one part of the head each. pooled: ids of the first
    and the last of the tokens that are pooled to the vector of an image; None for all. of_gemma:
    whether the encoder and the sizes are those of Gemma 4, see `families.gemma4_vision`.
    pixels: least and most pixels of a resized image in the code of the model's authors, which
    replace those of its processor; None without such code, or for a bound of the processor's file.
    earlier_pixels: the same, for a resizing before that one; None if there is none.
    """

    encoder: ModelSpec
    patch_size: int
    frames: int
    merge: int
    grid: int
    deepstack: tuple[int, ...]
    id: int
    sections: tuple[int, int, int] | None
    in_turns: bool = True
    pooled: tuple[int, int] | None = None
    pixels: tuple[int | None, int | None] | None = None
    earlier_pixels: tuple[int, int] | None = None
    placeholder: str = "<|image_pad|>"
    window: int = 0
    whole_layers: tuple[int, ...] = ()
    around: tuple[str, str] = ("", "")
    of_gemma: bool = False

    def sees_whole(self, layer: int) -> bool:
        """Whether a layer attends to the whole image."""
        return not self.window or layer in self.whole_layers


@dataclass(frozen=True, kw_only=True)
class PageFormat:
    """Texts around images of pages and around queries.

    A page is `page` between the two texts of around_page, which together have one placeholder, for
    the image. A query follows query_start, query_prefix and, unless this prefix is empty,
    query_prefix_end; after it come the augmentation and query_end. The processor's file may replace
    `page`, the text after it, query_prefix and query_length.

    placeholder: text of a token of an image. tiles: whether a page of the encoder `images` is cut
    to tiles; otherwise it becomes one square. passage_prefix: the only value of this option of the
    file. query_length: maximum number of tokens of a query; None for the model's. augmentation:
    token that is repeated `augmentations` times; None for the token of padding. formats_documents:
    whether texts that are documents have the format of queries. special_tokens: whether texts
    have the special tokens of the tokenizer, too.
    """

    placeholder: str
    page: str
    around_page: tuple[str, str] = ("", "")
    passage_prefix: str = ""
    tiles: bool = False
    query_start: str = ""
    query_prefix: str
    query_prefix_end: str = ""
    query_length: int | None = None
    augmentation: str | None
    augmentations: int = 10
    query_end: str = ""
    formats_documents: bool = False
    special_tokens: bool = True
