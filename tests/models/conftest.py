"""Torch's threads in the tests of models."""

import re
import sys

import pytest

from embedwell_models.encoder.threads import process_thread_count

# Claims that the order of sums does not depend on the batch, which each thread takes a part of.
_ABOUT_PARTS = re.compile("batch|bits|bytes|thread|alone_and|depend")


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Let torch compute in one thread: in models as small as these, several wait for each other."""
    if torch := sys.modules.get("torch"):
        name = item.name.partition("[")[0]
        count = process_thread_count() if _ABOUT_PARTS.search(name) else 1
        if torch.get_num_threads() != count:
            torch.set_num_threads(count)
