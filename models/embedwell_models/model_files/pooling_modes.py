"""Names of the poolings, in a module without imports of models for the starting process."""

from typing import Literal, get_args

Mode = Literal["cls", "max", "mean", "mean_sqrt_len_tokens", "weightedmean", "lasttoken"]
AUTO = "auto"
"""Choice of the pooling of the model's files, in place of a name."""
MODES: tuple[str, ...] = get_args(Mode)
