"""Keeps the garbage collector from walking over what lives as long as the process."""

import gc


def freeze() -> None:
    """Call once everything is loaded: a collection then looks at the objects of requests alone."""
    gc.collect()
    gc.freeze()
    # A request makes no cycles that matter, so young objects can be looked at less often.
    gc.set_threshold(10_000, 20, 20)
