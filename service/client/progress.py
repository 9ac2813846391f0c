"""A bar that shows how many texts are done."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def bar(shown: bool, total: int) -> Iterator[Callable[[int], object]]:
    """Gives what is called with the number of texts that are done."""
    if not shown:
        yield lambda _: None
        return
    try:
        from tqdm import tqdm  # type: ignore[import-untyped]
    except ImportError:
        raise ImportError("the progress bar needs tqdm: pip install tqdm") from None
    with tqdm(total=total, unit=" texts") as found:
        yield found.update
