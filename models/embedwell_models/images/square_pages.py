"""Pages that are read as one square image, as PaliGemma's processor prepares them."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from embedwell_models.config.checkpoint_layout import ImageSpec
from embedwell_models.config.page_format import PageFormat
from embedwell_models.images.pages import check_tokens, page_prompt
from embedwell_models.images.patches import Row
from embedwell_models.images.preprocessing import Pixels, Preprocessing
from embedwell_models.vectors import Floats


@dataclass(frozen=True, kw_only=True)
class SquarePages:
    """Pages of one square each; for the methods see Pages and PagePreprocessing.

    tokens_of_page: number of tokens of an image. id, placeholder: of each of them. prompt: text
    around a page, with a placeholder for it.
    """

    preprocessing: Preprocessing
    tokens_of_page: int
    id: int
    placeholder: str
    prompt: str

    @classmethod
    def read(cls, folder: Path, spec: ImageSpec, page_format: PageFormat) -> "SquarePages | None":
        """Read the options of a folder; return None if it has no such file.

        Raises ModelError for an unknown option, and for an option that does not fit the encoder.
        """
        preprocessing = Preprocessing.read(folder, spec)
        if preprocessing is None:
            return None
        return cls(
            preprocessing=preprocessing,
            tokens_of_page=spec.tokens,
            id=spec.token_id,
            placeholder=page_format.placeholder,
            prompt=page_prompt(folder, page_format),
        )

    def table(self) -> Floats:
        return self.preprocessing.table()

    def images(self, data: bytes, max_pixels: int) -> list[Pixels]:
        return [self.preprocessing.pixels(data, max_pixels)]

    def tiles(self, images: Sequence[Pixels]) -> list[Pixels]:
        return [*images]

    def tokens(self, image: Pixels) -> int:
        return self.tokens_of_page

    def text(self, images: Sequence[Pixels]) -> str:
        return self.prompt.replace(self.placeholder, self.placeholder * self.tokens_of_page)

    def check_tokens(self, ids: Row, images: Sequence[Pixels]) -> None:
        check_tokens(ids, self.id, self.tokens_of_page)
