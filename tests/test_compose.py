"""The composition of containers, as far as it can be told without one."""

import re
from pathlib import Path

from service.settings import PREFIX, Settings

COMPOSE = Path(__file__).parent.parent / "deploy" / "compose.yaml"
OF_THE_IMAGE = {"host", "port", "cache"}


def test_every_setting_that_is_not_the_images_own_is_passed_on() -> None:
    passed = set(re.findall(rf"^ *- {PREFIX}(\w+)$", COMPOSE.read_text(), re.MULTILINE))
    assert {name.lower() for name in passed} == Settings.model_fields.keys() - OF_THE_IMAGE
