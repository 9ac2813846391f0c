"""Write each part while the next one is embedded."""

from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol, TypeVar

from embedwell.bulk.text_encoder import Encoded


class Embedding(Protocol):
    """A part that is being embedded."""

    def done(self) -> bool:
        """Whether `encoded` would not wait."""

    def encoded(self) -> Encoded:
        """Wait for the vectors."""


E = TypeVar("E", bound=Embedding)


def write_behind(embeddings: Iterable[E], write: Callable[[E, Encoded], None]) -> None:
    """Write parts in order, in a thread; at most two are begun and not written.

    embeddings: each is begun when it is requested.
    """
    begun: deque[E] = deque()
    with ThreadPoolExecutor(1) as thread:
        written = thread.submit(lambda: None)

        def write_first() -> None:
            nonlocal written
            encoded = begun[0].encoded()
            written.result()
            written = thread.submit(write, begun.popleft(), encoded)

        for embedding in embeddings:
            begun.append(embedding)
            while len(begun) == 2 or (begun and begun[0].done()):
                write_first()
            if begun:
                written.result()
        while begun:
            write_first()
        written.result()
