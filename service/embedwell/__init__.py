"""An embedding server and its commands; the library and the client under one name."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from embedwell_client import AsyncClient, Client, RequestFailed
    from embedwell_models import Embedder

__all__ = ["AsyncClient", "Client", "Embedder", "RequestFailed", "__version__"]

__version__ = "0.3.0"


def __getattr__(name: str) -> Any:
    # On first use: the client needs no more than httpx and numpy, and a command none of the three.
    if name == "Embedder":
        from embedwell_models import Embedder

        return Embedder
    if name in ("AsyncClient", "Client", "RequestFailed"):
        import embedwell_client

        return getattr(embedwell_client, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
