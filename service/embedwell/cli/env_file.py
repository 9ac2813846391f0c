"""The .env file and the environment: sources of settings, and mistakes that would be ignored."""

import os
from codecs import BOM_UTF8
from collections.abc import Mapping
from typing import Any

from dotenv import dotenv_values
from dotenv.parser import parse_stream

from embedwell.settings.settings import FILE, PREFIX, Settings


def has_byte_order_mark(file: str = FILE) -> bool:
    """Whether a .env file begins with a mark that makes its first name another one."""
    if not os.path.isfile(file):
        return False
    with open(file, "rb") as stream:
        return stream.read(len(BOM_UTF8)) == BOM_UTF8


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


def setting_source(name: str, flags: Mapping[str, Any]) -> str:
    """Name the source of a setting for a message: `--port`, or `EMBEDWELL_PORT in ./.env`."""
    if flags.get(name) is None and (variable := _variable(name)):
        return variable[1]
    return f"--{name.replace('_', '-')}"


def variable_with_value(name: str, value: str) -> str | None:
    """Name the variable that gave a setting its value, and its place; None for a flag."""
    text, source = _variable(name) or ("", None)
    return source if text == value else None


def _variable(name: str) -> tuple[str, str] | None:
    """Find the value of a setting's variable, and its place; the environment comes first."""
    variable = f"{PREFIX}{name.upper()}"
    for values, place in (os.environ, "the environment"), (dotenv_values(FILE), f"./{FILE}"):
        for key, value in values.items():
            if key.upper() == variable and value is not None:
                return value, f"{variable} in {place}"
    return None
