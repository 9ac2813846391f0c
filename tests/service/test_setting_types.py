"""Origins, as an operator writes them."""

import pytest
from click.testing import CliRunner

from service.cli.commands import main
from service.settings import Settings


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("", ""),
        (" ", ""),
        ("*", "*"),
        ("https://page.example", "https://page.example"),
        (
            "http://localhost:3000, https://Page.Example",
            "http://localhost:3000,https://page.example",
        ),
        ("https://page.example:443,http://a:80", "https://page.example,http://a"),
        ("http://page.example:443,http://[::1]:8000", "http://page.example:443,http://[::1]:8000"),
        ("chrome-extension://abcdef,app://.", "chrome-extension://abcdef,app://."),
    ],
)
def test_origins_are_kept_as_browsers_send_them(given: str, kept: str) -> None:
    assert Settings(cors_origins=given).cors_origins == kept


@pytest.mark.parametrize(
    "wrong",
    [
        *("page.example", "https://", "https://page.example/", "https://page.example/app", "null"),
        *("https://*.page.example", "*", "https://user@page.example", "https://a b", "https://a:b"),
        *("https://höhe.example", "https://page.example:", "", "'https://page.example'"),
    ],
)
def test_what_is_no_origin_is_told_at_the_start(wrong: str) -> None:
    given = {"EMBEDDING_CORS_ORIGINS": f"https://right.example,{wrong}"}
    result = CliRunner().invoke(main, ["serve"], env=given)
    assert result.exit_code == 2
    assert f"cors_origins: Value error, {wrong!r} is no origin" in result.output
