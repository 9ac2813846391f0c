"""Format of the texts and pages of a model with a vector for each token."""

from dataclasses import dataclass


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
