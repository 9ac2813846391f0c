"""Library that turns texts into vectors, independent of HTTP and of processes."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from embedwell_models.embedder import Embedder

__all__ = ["Embedder"]


def __getattr__(name: str) -> Any:
    # Imported on first use: the first process of a server needs only small modules of this package.
    if name == "Embedder":
        from embedwell_models.embedder import Embedder

        return Embedder
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
