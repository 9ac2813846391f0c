"""Resolve the prompt of a request: by name, by text, or by role."""

from dataclasses import dataclass
from typing import Literal

from models.sentence_transformers.sentence import SentenceConfig
from service.errors import BadRequest

Role = Literal["query", "document", "classification", "clustering"]

# Prompt names of each role, in the order in which sentence-transformers looks for them.
_NAMES = {
    "query": ("query", "search_query"),
    "document": ("document", "passage", "corpus", "search_document"),
    "classification": ("classification",),
    "clustering": ("clustering",),
}


@dataclass(frozen=True, slots=True)
class Prompt:
    """A prompt. name: None for a text of the client, or if there is no prompt."""

    name: str | None
    text: str

    def as_json(self) -> dict[str, str | None]:
        """Describe the prompt for a response."""
        return {"name": self.name, "text": self.text}


class Prompts:
    """Prompts of a model."""

    def __init__(self, sentence: SentenceConfig) -> None:
        self._texts = sentence.prompts
        names = (name for name, text in self._texts.items() if text == sentence.default_prompt)
        self._default = Prompt(next(names, None), sentence.default_prompt)

    def resolve(self, text: str | None, name: str | None, role: Role | None) -> Prompt:
        """Return the requested prompt, or the model's default.

        For a role without a prompt, that is the default, too, as in sentence-transformers.
        Raises BadRequest for an unknown name, and for more than one of the three arguments.
        """
        if text is name is role is None:
            return self._default
        if (text is not None) + (name is not None) + (role is not None) > 1:
            raise BadRequest("give one of prompt, prompt_name and input_type", param="prompt")
        if text is not None:
            return Prompt(None, text)
        if role is not None:
            names = (name for name in _NAMES[role] if name in self._texts)
            name = next(names, None)
            return self._default if name is None else Prompt(name, self._texts[name])
        return self._named(name)

    def _named(self, name: str | None) -> Prompt:
        if name not in self._texts:
            raise BadRequest(
                f"no prompt {name!r}; the model has {sorted(self._texts)}",
                code="unknown_prompt",
                param="prompt_name",
            )
        return Prompt(name, self._texts[name])
