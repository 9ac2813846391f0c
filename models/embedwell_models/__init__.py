"""Library that turns texts into vectors, independent of HTTP and of processes."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from embedwell_models.embedder import Embedder

__all__ = ["Embedder"]


def __getattr__(name: str) -> Any:
    # Imported on first use: the HTTP process needs only the torch-free modules of this package.
    if name == "Embedder":
        return _embedder_class()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def _embedder_class() -> Any:
    from embedwell_models.embedder import Embedder

    return Embedder
