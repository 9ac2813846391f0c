"""The .env file and the environment: sources of settings, and mistakes that would be ignored."""

import os
from codecs import BOM_UTF8
from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any

from dotenv import dotenv_values
from dotenv.parser import parse_stream

from embedwell.settings.settings import FILE, PREFIX, Settings

_OF_TEI = {
    "MODEL_ID": "model",
    "API_KEY": "api_key",
}  # ignored, they change the model or protection


def settings_in_file(file: str = FILE) -> set[str]:
    """Names of the settings that a .env file sets."""
    names = (name.upper() for name in dotenv_values(file))
    return {name.removeprefix(PREFIX).lower() for name in names if name.startswith(PREFIX)}


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
    """Names in the environment and the .env file that have the prefix and are not settings."""
    return sorted(
        name
        for name in environment.keys() | dotenv_values(FILE).keys()
        if name.upper().startswith(PREFIX)
        and name.upper().removeprefix(PREFIX).lower() not in Settings.model_fields
    )


def settings_of_tei(environment: Mapping[str, str], settings: Settings) -> list[tuple[str, str]]:
    """Pair variables of text-embeddings-inference with the unset ones that are needed here."""
    return [
        (name, f"{PREFIX}{ours.upper()}")
        for name, ours in _OF_TEI.items()
        if name in environment and ours not in settings.model_fields_set
    ]


def advice(name: str) -> str:
    """Say what to do about a variable that is not a setting."""
    setting = name.upper().removeprefix(PREFIX).lower()
    similar = get_close_matches(setting, Settings.model_fields, n=1)
    known = [f"did you mean {PREFIX}{each.upper()}?" for each in similar]
    return known[0] if known else "see embedwell serve --help"


def read_variables() -> dict[str, str]:
    """Return the values of the settings that the environment or the .env file sets."""
    return {name: value for name, (value, _) in _variables().items()}


def setting_source(name: str, flags: Mapping[str, Any]) -> str:
    """Name the source of a setting for a message: `--port`, or `EMBEDWELL_PORT in ./.env`."""
    variable = _variables().get(name)
    if flags.get(name) is None and variable:
        return variable[1]
    return f"--{name.replace('_', '-')}"


def variable_with_value(name: str, value: str) -> str | None:
    """Name the variable that gave a setting its value, and its place; None for a flag."""
    text, source = _variables().get(name, ("", None))
    return source if text == value else None


def _variables() -> dict[str, tuple[str, str]]:
    """Find each setting's value, and its variable and place; the environment comes first."""
    variables = {}
    for values, place in (dotenv_values(FILE), f"./{FILE}"), (os.environ, "the environment"):
        for variable, value in values.items():
            upper = variable.upper()
            name = upper.removeprefix(PREFIX).lower()
            if upper.startswith(PREFIX) and name in Settings.model_fields and value is not None:
                variables[name] = (value, f"{upper} in {place}")
    return variables
