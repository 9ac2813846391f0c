"""Names by which clients can request the served models."""

from collections.abc import Sequence

from embedwell.errors import UnknownModel
from embedwell.inputs.prompts import Role

_ROLE_SUFFIXES: dict[str, Role] = {
    "-query": "query",
    "-passage": "document",
}  # NVIDIA NIM's suffixes
_LATEST = ":latest"
_PLACEHOLDERS = ("tei", "text-embeddings-inference", "default/not-specified")
"""Names that clients of TEI and Infinity send by default."""


class ServedNames:
    """The names of all models, each of which has a primary name for responses."""

    def __init__(self, *models: Sequence[str], any_name: bool = False) -> None:
        """models: the names of each model, at least one; the first is the primary name.

        any_name: accept every other name, too.
        """
        self.names = [name for names in models for name in names]
        self._any_name = any_name
        self._models: dict[str, int | None] = dict.fromkeys(_PLACEHOLDERS)
        self._models |= {name: index for index, names in enumerate(models) for name in names}
        self._untagged = {untagged(name): index for name, index in self._models.items()}

    def find(self, name: str) -> int | None:
        """Return the index of the model; None for the default model. Raises UnknownModel.

        An unknown name is an error because vectors of another model would be wrong without notice.
        """
        if name not in self._models:
            self._check_any(name)
        return self._models.get(name)

    def find_tagged(self, name: str) -> int | None:
        """Like `find` for an Ollama name, whose tag `latest` is optional."""
        if untagged(name) not in self._untagged:
            self._check_any(name)
        return self._untagged.get(untagged(name))

    def find_with_role(self, name: str) -> tuple[int | None, Role | None]:
        """Like `find`; returns the role that a suffix of the name selects, too."""
        if name in self._models:
            return self._models[name], None
        for suffix, role in _ROLE_SUFFIXES.items():
            base = name.removesuffix(suffix)
            if base != name and (base in self._models or self._any_name):
                return self._models.get(base), role
        self._check_any(name)
        return None, None

    def _check_any(self, name: str) -> None:
        if not self._any_name:
            names = ", ".join(map(repr, self.names))
            raise UnknownModel(f"no model {name!r}; this server has {names}", param="model")


def tagged(name: str) -> str:
    """Return an Ollama name with its tag, by default `latest`."""
    return name if ":" in name else name + _LATEST


def untagged(name: str) -> str:
    """Return an Ollama name without the tag `latest`."""
    return name.removesuffix(_LATEST)
