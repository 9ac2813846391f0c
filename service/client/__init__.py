"""Clients in Python, blocking and asynchronous: many texts in, numpy out, in order.

They need httpx, numpy and orjson, and nothing of the server but the modules imported here.
"""

from service.client.asynchronous import AsyncClient
from service.client.blocking import Client
from service.client.errors import RequestFailed
from service.client.responses import Neighbor, SparseWeights, TokenVectors

__all__ = [
    "AsyncClient",
    "Client",
    "Neighbor",
    "RequestFailed",
    "SparseWeights",
    "TokenVectors",
]
