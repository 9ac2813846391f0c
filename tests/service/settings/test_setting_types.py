"""Parsing of the setting cors_origins."""

import pytest
from click.testing import CliRunner

from embedwell.cli.commands import main
from embedwell.settings.setting_types import address_to_ask, is_loopback, is_wildcard
from embedwell.settings.settings import Settings


@pytest.mark.parametrize(
    ("value", "normalized"),
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
def test_origins_are_normalized_as_browsers_send_them(value: str, normalized: str) -> None:
    assert Settings(cors_origins=value).cors_origins == normalized


@pytest.mark.parametrize(
    "invalid",
    [
        *("page.example", "https://", "https://page.example/", "https://page.example/app", "null"),
        *("https://*.page.example", "*", "https://user@page.example", "https://a b", "https://a:b"),
        *("https://höhe.example", "https://page.example:", "", "'https://page.example'"),
    ],
)
def test_an_invalid_origin_is_refused_at_the_start(invalid: str) -> None:
    environment = {"EMBEDWELL_CORS_ORIGINS": f"https://right.example,{invalid}"}
    result = CliRunner().invoke(main, ["serve"], env=environment)
    assert result.exit_code == 2
    assert f": {invalid!r} is not an origin" in result.output


@pytest.mark.parametrize(
    ("devices", "names"),
    [
        ("", []),
        ("cuda:1", []),
        (" cuda:0, cuda:1 ", ["cuda:0", "cuda:1"]),
        ("cpu,cpu", ["cpu#1", "cpu#2"]),
        ("cuda:0,cuda:1,cuda:0", ["cuda:0#1", "cuda:1#2", "cuda:0#3"]),
    ],
)
def test_engines_are_named_by_their_devices(devices: str, names: list[str]) -> None:
    assert Settings(devices=devices).engine_names == names


@pytest.mark.parametrize("devices", ["cuda:0,", "auto,cpu", "gpu", "cuda", "cuda:x", "cpu,cuda:0"])
def test_devices_that_do_not_exist_or_differ_in_kind_are_refused(devices: str) -> None:
    result = CliRunner().invoke(main, ["serve", "--devices", devices])
    assert result.exit_code == 2 and "--devices" in result.output


@pytest.mark.parametrize("device", ["mps", "xpu", "cpu:0", "gpu"])
def test_a_device_that_is_not_supported_is_refused_at_start(device: str) -> None:
    result = CliRunner().invoke(main, ["serve", "--device", device])
    assert result.exit_code == 2
    assert f"the device '{device}' is not supported: give auto, cpu, cuda" in result.output


@pytest.mark.parametrize(
    ("host", "loopback", "wildcard", "asked"),
    [
        ("127.0.0.1", True, False, "127.0.0.1"),
        ("127.0.1.1", True, False, "127.0.1.1"),
        ("::1", True, False, "[::1]"),
        ("localhost", True, False, "localhost"),
        ("0.0.0.0", False, True, "127.0.0.1"),
        ("::", False, True, "[::1]"),
        ("0:0:0:0:0:0:0:0", False, True, "[::1]"),
        ("192.0.2.1", False, False, "192.0.2.1"),
        ("2001:db8::1", False, False, "[2001:db8::1]"),
        ("a.example", False, False, "a.example"),
    ],
)
def test_an_address_is_for_this_machine_all_or_one_network(
    host: str, loopback: bool, wildcard: bool, asked: str
) -> None:
    assert (is_loopback(host), is_wildcard(host)) == (loopback, wildcard)
    assert address_to_ask(host) == asked
