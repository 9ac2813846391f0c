"""Format in which a language model reads a text that it embeds, with an optional instruction."""

from dataclasses import dataclass


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
