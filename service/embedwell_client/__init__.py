"""Clients in Python, blocking and asynchronous: many texts in, numpy out, in order.

They need httpx and numpy alone.
"""

from embedwell_client.asynchronous import AsyncClient
from embedwell_client.blocking import Client
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
