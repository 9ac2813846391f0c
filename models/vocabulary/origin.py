"""Whose a folder's tokenizer is: the class that its small files name."""

from dataclasses import dataclass
from pathlib import Path

from models.blueprint import Raw
from models.vocabulary.recipes import Recipe, recipe

_GENERIC = ("PreTrainedTokenizer", "PreTrainedTokenizerFast", "TokenizersBackend")


@dataclass(frozen=True)
class Origin:
    """named: the class, empty for none. model_type: of the model, whose class it is then."""

    named: str
    model_type: str

    @classmethod
    def read(cls, folder: Path) -> "Origin":
        """Raises ModelError for files that cannot be read."""
        card = Raw.optional(folder / "config.json")
        options = Raw.optional(folder / "tokenizer_config.json")
        named = options.get("tokenizer_class", "") or card.get("tokenizer_class", "")
        return cls(named, card.get("model_type", ""))

    @property
    def family(self) -> str:
        """What tells how to make the tokenizer: the class, or the model_type if it says nothing."""
        return self.model_type if self.named in ("", *_GENERIC) else self.named

    @property
    def saved(self) -> Recipe | None:
        """The recipe of the class that reads tokenizer.json, where it does more than that."""
        return recipe(self.named or self.model_type)
