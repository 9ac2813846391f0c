"""The text in which a language model reads a text that it embeds, with an instruction or none."""

from dataclasses import dataclass


@dataclass(frozen=True)
class TextFormat:
    """A text around another one.

    plain: before a text without an instruction. instructed: before an instruction, and between it
    and the text. after: after the text.
    """

    plain: str
    instructed: tuple[str, str]
    after: str

    def before(self, instruction: str) -> str:
        """Return what is before a text. instruction: "" for none."""
        return instruction.join(self.instructed) if instruction else self.plain
