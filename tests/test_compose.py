"""deploy/compose.yaml, as far as it can be checked without Docker."""

import re
from pathlib import Path

from embedwell.settings.settings import PREFIX, Settings

COMPOSE = Path(__file__).parent.parent / "deploy" / "compose.yaml"
SET_BY_THE_IMAGE = {"host", "port", "cache"}


def test_every_other_setting_is_passed_on() -> None:
    passed_on = set(re.findall(rf"^ *- {PREFIX}(\w+)$", COMPOSE.read_text(), re.MULTILINE))
    assert {name.lower() for name in passed_on} == Settings.model_fields.keys() - SET_BY_THE_IMAGE
