"""On which side a text that is too long is cut."""

from typing import Literal, get_args

from models.config.json_config import JsonConfig

Side = Literal["right", "left"]


def stated(options: JsonConfig) -> Side | None:
    """The side that options say, None where they do not; raises ModelError for any other."""
    side: Side | None = options.require("truncation_side", None, *get_args(Side))
    return side
