"""Base addresses of single models: /m/NAME/embed is /embed of the model NAME."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar

PREFIX = "/m/"

_model: ContextVar[int | None] = ContextVar("model", default=None)


def model_in_path() -> int | None:
    """Return the index of the model in the path of the current request; None without one."""
    return _model.get()


class ModelPaths:
    """Finds the model in a path."""

    def __init__(self, indices: Mapping[str, int]) -> None:
        """indices: the index of the model of each name."""
        # A longer name may begin with a shorter one and a slash.
        self._indices = sorted(indices.items(), key=lambda item: -len(item[0]))

    def split(self, path: str) -> tuple[int, str] | None:
        """Return the index of the model and the rest of a path.

        Return None without a known model, and for the rest of a path whose model is chosen.
        """
        rest = path.removeprefix(PREFIX)
        if rest == path or _model.get() is not None:
            return None
        for name, index in self._indices:
            if rest == name or rest.startswith(f"{name}/"):
                return index, rest.removeprefix(name) or "/"
        return None

    @contextmanager
    def chosen(self, index: int) -> Iterator[None]:
        """Let `model_in_path` return the index of a model."""
        token = _model.set(index)
        try:
            yield
        finally:
            _model.reset(token)
