"""Names of the poolings, in a module without imports of models for the starting process."""

from typing import Literal, get_args

Mode = Literal["cls", "max", "mean", "mean_sqrt_len_tokens", "weightedmean", "lasttoken"]
MODES: tuple[str, ...] = get_args(Mode)
