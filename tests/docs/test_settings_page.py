"""docs/settings.md matches the settings."""

from docs.build.settings_page import FILE, page
from embedwell.settings.settings import GROUPS, Settings
from tests.docs.generated import assert_current


def test_the_page_is_up_to_date() -> None:
    written = FILE.read_text(encoding="utf-8")
    assert_current(written, page(), "python -m docs.build.settings_page")


def test_every_setting_is_in_a_group() -> None:
    assert next(iter(GROUPS)) == next(iter(Settings.model_fields))
    assert GROUPS.keys() <= Settings.model_fields.keys()
