"""A number of threads for a while."""

from collections.abc import Iterator
from contextlib import contextmanager

from embedwell_models.cpu_backend.library import team_sizing
from embedwell_models.encoder.threads import process_thread_count, set_thread_count


@contextmanager
def use_threads(count: int) -> Iterator[None]:
    """Let forward passes use this many threads, and afterwards as many as before."""
    before = process_thread_count()
    team_sizing.cache_clear()  # the team of another test may have shrunk
    set_thread_count(count)
    try:
        yield
    finally:
        set_thread_count(before)
