"""Numbers of the kernels' pooling modes."""

from embedwell_models.encoder.pooling import POOLINGS


def pooling_index(mode: str) -> int:
    """Return the kernels' number of a pooling mode; raises ValueError for an unknown one."""
    modes = [*POOLINGS]  # the order of Pooling in kernels/pool.h
    if mode not in modes:
        raise ValueError(f"the kernels have no pooling mode {mode!r}; they have {modes}")
    return modes.index(mode)
