"""A progress bar."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def bar(shown: bool, total: int) -> Iterator[Callable[[int], object]]:
    """Show a bar; yields a function to call with the number of embedded texts."""
    if not shown:
        yield lambda _: None
        return
    try:
        from tqdm import tqdm
    except ImportError:
        raise ImportError("the progress bar needs tqdm: pip install tqdm") from None
    with tqdm(total=total, unit=" texts") as progress_bar:
        yield progress_bar.update
