"""Check the .env file and the environment for mistakes that would be silently ignored."""

import os
from collections.abc import Mapping

from dotenv import dotenv_values
from dotenv.parser import parse_stream

from embedwell.settings.settings import FILE, PREFIX, Settings


def malformed_line(file: str = FILE) -> int | None:
    """Number of the first line of a .env file that neither sets a variable nor is a comment.

    Silently ignored, a line with an unclosed quote would leave a setting unset, such as the key.
    """
    if not os.path.isfile(file):
        return None
    with open(file, encoding="utf-8") as stream:
        for line in parse_stream(stream):
            if line.error or (line.key is not None and line.value is None):
                return line.original.line
    return None


def unknown_settings(environment: Mapping[str, str]) -> list[str]:
    """Names in the environment and the .env file that have the prefix and are no setting."""
    return sorted(
        name
        for name in environment.keys() | dotenv_values(FILE).keys()
        if name.upper().startswith(PREFIX)
        and name.upper().removeprefix(PREFIX).lower() not in Settings.model_fields
    )
