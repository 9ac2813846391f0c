"""The names that the served model goes by."""

from collections.abc import Sequence

from service.errors import UnknownModel
from service.inputs.prompts import Role

_SUFFIXES: dict[str, Role] = {"-query": "query", "-passage": "document"}  # NVIDIA NIM's
_LATEST = ":latest"
_PLACEHOLDERS = ("tei", "text-embeddings-inference", "default/not-specified")
"""What clients of TEI and of Infinity send where they name no model."""


class ServedNames:
    """The names that clients may ask for; `first` is the one in answers."""

    def __init__(self, listed: Sequence[str], any_name: bool = False) -> None:
        """listed: at least one. any_name: accept every other, too."""
        self.listed, self.first, self._any_name = list(listed), listed[0], any_name
        self._accepted = {*listed, *_PLACEHOLDERS}
        self._untagged = {untagged(name) for name in self._accepted}

    def check(self, asked: str) -> None:
        """Raises UnknownModel: a vector of another model than asked for helps nobody."""
        if not (asked in self._accepted or self._any_name):
            raise self._unknown(asked)

    def check_tagged(self, asked: str) -> None:
        """The same of Ollama's names, where one without a tag is that with the tag latest."""
        if not (untagged(asked) in self._untagged or self._any_name):
            raise self._unknown(asked)

    def role_of(self, asked: str) -> Role | None:
        """The role that a suffix of the model's name says; raises UnknownModel."""
        if asked in self._accepted:
            return None
        for suffix, role in _SUFFIXES.items():
            base = asked.removesuffix(suffix)
            if base != asked and (base in self._accepted or self._any_name):
                return role
        self.check(asked)
        return None

    def _unknown(self, asked: str) -> UnknownModel:
        names = ", ".join(map(repr, self.listed))
        return UnknownModel(f"no model {asked!r}; this server has {names}", param="model")


def tagged(name: str) -> str:
    """A name as Ollama lists it: with the tag latest where it has none."""
    return name if ":" in name else name + _LATEST


def untagged(name: str) -> str:
    """An Ollama name without the tag latest."""
    return name.removesuffix(_LATEST)
