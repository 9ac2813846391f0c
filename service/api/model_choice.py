"""The choice of a model by the name in a request."""

from collections.abc import Sequence
from typing import Generic, TypeVar

from service.api.served_names import ServedNames
from service.inputs.prompts import Role

S = TypeVar("S")


class ModelChoice(Generic[S]):
    """The service of each model, of which a request's field `model` chooses one."""

    def __init__(self, names: ServedNames, services: Sequence[S], default: int = 0) -> None:
        """services: in the order of the models. default: index of the one for no name."""
        self.services = list(services)
        self._names, self._default = names, self.services[default]

    def choose(self, name: str | None = None) -> S:
        """Return the service of a model; raises UnknownModel."""
        return self._default if name is None else self._service(self._names.find(name))

    def choose_tagged(self, name: str) -> S:
        """Like `choose` for an Ollama name, whose tag latest may be left out."""
        return self._service(self._names.find_tagged(name))

    def choose_with_role(self, name: str | None) -> tuple[S, Role | None]:
        """Like `choose`, with the role that the name's suffix selects, if any."""
        if name is None:
            return self._default, None
        index, role = self._names.find_with_role(name)
        return self._service(index), role

    def _service(self, index: int | None) -> S:
        return self._default if index is None else self.services[index]
