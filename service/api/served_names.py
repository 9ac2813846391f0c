"""Names of the served model that clients may use."""

from collections.abc import Sequence

from service.errors import UnknownModel
from service.inputs.prompts import Role

_ROLE_SUFFIXES: dict[str, Role] = {"-query": "query", "-passage": "document"}  # NVIDIA NIM's
_LATEST = ":latest"
_PLACEHOLDERS = ("tei", "text-embeddings-inference", "default/not-specified")
"""Names that clients of TEI and Infinity send by default."""


class ServedNames:
    """The names that clients may use; responses have the `primary` one."""

    def __init__(self, names: Sequence[str], any_name: bool = False) -> None:
        """names: at least one, the primary first. any_name: accept every other, too."""
        self.names, self.primary, self._any_name = list(names), names[0], any_name
        self._accepted = {*names, *_PLACEHOLDERS}
        self._untagged = {untagged(name) for name in self._accepted}

    def check(self, name: str) -> None:
        """Raise UnknownModel unless the name is accepted.

        Vectors of another model than the requested one would be wrong without notice.
        """
        if not (name in self._accepted or self._any_name):
            raise self._unknown(name)

    def check_tagged(self, name: str) -> None:
        """Raise UnknownModel for an Ollama name; the tag latest may be left out."""
        if not (untagged(name) in self._untagged or self._any_name):
            raise self._unknown(name)

    def role_of(self, name: str) -> Role | None:
        """Return the role that the name's suffix selects, if any; raises UnknownModel."""
        if name in self._accepted:
            return None
        for suffix, role in _ROLE_SUFFIXES.items():
            base = name.removesuffix(suffix)
            if base != name and (base in self._accepted or self._any_name):
                return role
        self.check(name)
        return None

    def _unknown(self, name: str) -> UnknownModel:
        names = ", ".join(map(repr, self.names))
        return UnknownModel(f"no model {name!r}; this server has {names}", param="model")


def tagged(name: str) -> str:
    """Return an Ollama name with its tag; the default is latest."""
    return name if ":" in name else name + _LATEST


def untagged(name: str) -> str:
    """Return an Ollama name without the tag latest."""
    return name.removesuffix(_LATEST)
