"""Inputs and the options of their reading, the rows that they become, and windows of rows.

Among the inputs are images, whose pixels a reader of their own prepares.
"""

import pkgutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import accumulate
from typing import Literal, Protocol, get_args

import numpy as np
import numpy.typing as npt

from embedwell_models import vision
from embedwell_models.description.model_description import ModelDescription
from embedwell_models.errors import InputError, TooManyTokensError
from embedwell_models.read.prompts import Role
from embedwell_models.tokenizer.steps import Steps
from embedwell_models.tokenizer.tokens import Side
from embedwell_models.vectors import Floats
from embedwell_models.vision import Pixels


class ImageFile(Protocol):
    """An encoded image. encoded_size: number of bytes or characters to decode."""

    @property
    def encoded_size(self) -> int: ...

    def file_bytes(self) -> bytes:
        """Return the file; raises ImageError."""


class ImageContent(Protocol):
    """An image, or texts and images that are read together.

    parts: in the order in which the model reads them. `len` counts the characters of the texts.
    """

    @property
    def parts(self) -> Sequence[str | ImageFile]: ...

    def __len__(self) -> int: ...


TokenIds = npt.NDArray[np.int32]
TextOrIds = str | list[int]
"""An input: a text, or token ids."""
Input = TextOrIds | ImageContent
"""An input of a model that may also embed images, or texts with images."""


Overflow = Literal["error", "start", "end", "mean"]
"""Handling of a text that is too long; `mean` averages the vectors of its windows."""

SIDES: Mapping[str, Side] = {"start": "left", "end": "right"}
"""The side at which an overflow cuts tokens off."""


@dataclass(slots=True)
class InputOptions:
    """Prompt and truncation of the inputs of one request.

    truncate: None for the server's setting.
    side: which end to cut off; None for the side in the model's files.
    role, task: select a prompt, unless there is one. A task implies a role.
    max_length: maximum tokens of an input, or of the second text of a pair; None for the model's.
    max_pair: maximum tokens of a pair, or of each of its texts for a model that embeds.
    windows: split an input that is too long into windows instead of truncating it.
    count_dropped: count all tokens that are cut off, which requires tokenizing long texts
        completely.
    instruction: instruction to a reranker that is a language model; None for the model's.
    any_count: whether the request may have any number of inputs; their tokens are limited.
    """

    truncate: bool | None = None
    side: Side | None = None
    prompt: str | None = None
    prompt_name: str | None = None
    role: Role | None = None
    task: str | None = None
    windows: bool = False
    count_dropped: bool = False
    instruction: str | None = None
    max_length: int | None = None
    any_count: bool = False
    max_pair: int | None = None

    @classmethod
    def of_overflow(
        cls,
        overflow: Overflow | None,
        *,
        prompt: str | None = None,
        prompt_name: str | None = None,
        role: Role | None = None,
    ) -> "InputOptions":
        """Build options by the handling of texts that are too long; None for the default.

        Raises InputError for an unknown one.
        """
        if overflow is not None and overflow not in get_args(Overflow):
            names = ", ".join(get_args(Overflow))
            raise InputError(
                f"on_overflow is {overflow!r}, but must be one of {names}", param="on_overflow"
            )
        side = SIDES.get(overflow or "")
        return cls(
            truncate=None if overflow is None else side is not None,
            side=side,
            prompt=prompt,
            prompt_name=prompt_name,
            role=role,
            windows=overflow == "mean",
        )

    def check_no_windows(self) -> None:
        """Raise InputError for a mean of windows."""
        if self.windows:
            raise InputError(
                "on_overflow must be error, start or end here: mean needs a dense vector of a text",
                param="on_overflow",
            )

    def with_max_length(self, max_length: int | None) -> "InputOptions":
        """Return the same options with another maximum length; unchanged for None."""
        return self if max_length is None else replace(self, max_length=max_length)


@dataclass(frozen=True, slots=True)
class TextPair:
    """Two texts that are read together, or a single text; `len` counts their characters."""

    first: str
    second: str | None = None

    def __len__(self) -> int:
        return len(self.first) + len(self.second or "")


def first_indices(texts: Iterable[str]) -> dict[str, int]:
    """Map each text to the index at which it comes first."""
    indices: dict[str, int] = {}
    for index, text in enumerate(texts):
        indices.setdefault(text, index)
    return indices


@dataclass(slots=True)
class InputRow:
    """Token ids of one input, an image, or a text with images.

    ids: none of an image that has an encoder of its own.
    dropped: number of tokens that were cut off; a lower bound unless all were counted.
    prompt_token_count: number of leading ids (of each window) that are not pooled.
    windows: ids of each window, whose concatenation is `ids`; () if the input is not split.
    weights: for each window, the number of ids that are not prompt or special tokens.
    image_tokens: number of tokens of an image, or of a text with images; 0 for a text.
    text_tokens: number of tokens of the text that is read with images.
    images: the pixels of an image, or those among the text.
    tokens: number of tokens that the model computes.
    """

    ids: TokenIds
    dropped: int
    prompt_token_count: int = 0
    windows: Sequence[TokenIds] = ()
    weights: Sequence[int] = ()
    image_tokens: int = 0
    text_tokens: int = 0
    images: Sequence[Pixels] = ()
    tokens: int = field(init=False)

    def __post_init__(self) -> None:
        self.tokens = self.image_tokens or len(self.ids)

    @property
    def content(self) -> bool:
        """Whether it is a text with images, or a page."""
        return bool(self.images and len(self.ids))

    @property
    def image_pixels(self) -> int:
        """Number of pixels that the model reads."""
        return sum(pixels.size // 3 for pixels in self.images)


def check_tokens(tokens: int, limit: int) -> None:
    """Raise TooManyTokensError for too many tokens of all inputs."""
    if tokens > limit:
        raise TooManyTokensError(
            f"the request has {tokens} tokens or more, but the limit is {limit}; split it"
        )


def check_window_tokens(tokens: int, limit: int, index: int) -> None:
    """Raise TooManyTokensError if the windows of one input have too many tokens together."""
    if tokens > limit:
        raise TooManyTokensError(
            f"input {index} has {tokens} tokens or more in windows, but the limit is {limit}; "
            "shorten it",
            index,
        )


class PreparedInput(Protocol):
    """An image, or a text with images, whose pixels are prepared; `len` counts its characters.

    text: the text to tokenize; None for an image that has an encoder of its own. takes_prompt:
    whether the request's prompt precedes the text. new_bytes: of pixels, unless they were known
    before the preparation.
    """

    @property
    def text(self) -> str | None: ...

    @property
    def takes_prompt(self) -> bool: ...

    @property
    def new_bytes(self) -> int: ...

    def __len__(self) -> int: ...

    def row(self, text: InputRow | None, index: int) -> InputRow:
        """Return the tokenized input; raises InputError, also for images that cannot be read.

        text: the tokenized text. index: of the input.
        """
        ...


class ImageReader(Protocol):
    """Replaces the images among inputs with their pixels."""

    def prepare(
        self, contents: Mapping[int, ImageContent], tokens: int
    ) -> tuple[Steps[dict[int, PreparedInput]], int]:
        """Return the steps that prepare images by their indices, and the known bytes of the pixels.

        The bytes are 0 if they depend on the images. An image that cannot be read raises its error
        when its row is requested. tokens: those that the request has already.

        Raises InputError for a model without images, and TooManyTokensError, as do the steps.
        """
        ...


def image_reader(
    model: ModelDescription, *, name: str, max_pixels: int, max_tokens: int
) -> Callable[[], ImageReader]:
    """Return a function that returns the reader of a model's images, which the first call imports.

    name: the model's, for errors. max_pixels: limit of one image. max_tokens: limit of all inputs.
    """

    @cache
    def load() -> ImageReader:
        build: Callable[..., ImageReader] = pkgutil.resolve_name(vision.READER)
        preparations = model.images, model.preprocessing, model.patches, model.pages
        return build(*preparations, name=name, max_pixels=max_pixels, max_tokens=max_tokens)

    return load


def find_images(inputs: Sequence[Input]) -> tuple[list[TextOrIds], dict[int, ImageContent]]:
    """Return the texts and token ids, and by their indices the inputs that have images.

    Each input with images is an empty text among the texts. A content of a single text is a text.
    """
    texts, contents = list[TextOrIds](), dict[int, ImageContent]()
    for index, item in enumerate(inputs):
        if isinstance(item, str | list):
            texts.append(item)
            continue
        match item.parts:
            case [str(text)]:
                texts.append(text)
            case _:
                texts.append("")
                contents[index] = item
    return texts, contents


def encoded_size(contents: Mapping[int, ImageContent]) -> int:
    """Return the total size of the encoded images."""
    parts = (part for item in contents.values() for part in item.parts)
    return sum(part.encoded_size for part in parts if not isinstance(part, str))


def split_windows(rows: Sequence[InputRow]) -> list[InputRow]:
    """Replace rows with their windows; rows without windows are kept."""
    return [part for row in rows for part in _windows_of(row)]


def window_input_indices(rows: Sequence[InputRow]) -> list[int]:
    """Return the index of the input that each window belongs to."""
    return [index for index, row in enumerate(rows) for _ in _windows_of(row)]


def merge_by_maximum(rows: Sequence[InputRow], scores: Floats) -> Floats:
    """Take the maximum of the windows of each row: (windows, D) -> (B, D)."""
    best: Floats = np.maximum.reduceat(scores, _window_starts(rows), axis=0)
    return best


def merge_by_average(rows: Sequence[InputRow], vectors: Floats) -> Floats:
    """Average the windows of each row, weighted by `weights`: (windows, D) -> (B, D)."""
    weights = np.array([w for row in rows for w in (row.weights or [1])], dtype=np.float64)
    starts = _window_starts(rows)
    sums = np.add.reduceat(vectors * weights[:, None], starts, axis=0)
    means: Floats = (sums / np.add.reduceat(weights, starts)[:, None]).astype(np.float32)
    return means


def _window_starts(rows: Sequence[InputRow]) -> list[int]:
    return [*accumulate((len(row.windows) or 1 for row in rows[:-1]), initial=0)]


def _windows_of(row: InputRow) -> list[InputRow]:
    return [InputRow(ids, 0, row.prompt_token_count) for ids in row.windows] or [row]
