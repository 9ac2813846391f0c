"""Whose a folder's tokenizer is: the class that its small files name."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from models.errors import ModelError
from models.raw import Raw
from models.vocabulary.recipes import Recipe, recipe

_GENERIC = ("PreTrainedTokenizer", "PreTrainedTokenizerFast", "TokenizersBackend")


@dataclass(frozen=True)
class Origin:
    """named: the class, empty for none. model_type: of the model, whose class it is then.

    custom: whether the class is the repository's own code.
    """

    named: str
    model_type: str
    custom: bool

    @classmethod
    def read(cls, folder: Path) -> "Origin":
        """Raises ModelError for code that goes by the name of no class that is known."""
        card = Raw.optional(folder / "config.json")
        options = Raw.optional(folder / "tokenizer_config.json")
        custom = _custom(options.get("auto_map"))
        if custom and recipe(custom) is None:
            raise ModelError(
                f"{folder}: its tokenizer {custom} is code of the model, which is not run"
            )
        named = custom or options.get("tokenizer_class", "") or card.get("tokenizer_class", "")
        return cls(named, card.get("model_type", ""), bool(custom))

    @property
    def family(self) -> str:
        """What tells how to make the tokenizer: the class, or the model_type if it says nothing."""
        return self.model_type if self.named in ("", *_GENERIC) else self.named

    @property
    def saved(self) -> Recipe | None:
        """The recipe of the class that reads tokenizer.json, where it does more than that."""
        return recipe(self.named or self.model_type)


def _custom(auto_map: Any) -> str:
    # Older files list the slow and the fast class without a key.
    classes = auto_map.get("AutoTokenizer") if isinstance(auto_map, dict) else auto_map
    return next((name.rpartition(".")[2] for name in classes or () if name), "")
