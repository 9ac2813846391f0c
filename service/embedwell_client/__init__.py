"""Blocking and asynchronous Python clients that embed many texts into numpy arrays, in order.

They need only httpx and numpy.
"""

from embedwell_client.clients import AsyncClient, Client
from embedwell_client.errors import RequestFailed
from embedwell_client.responses import Neighbor, SparseWeights, TokenVectors

__all__ = [
    "AsyncClient",
    "Client",
    "Neighbor",
    "RequestFailed",
    "SparseWeights",
    "TokenVectors",
]
