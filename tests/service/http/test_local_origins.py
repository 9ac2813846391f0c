"""Origins that no public web page has."""

import pytest

from embedwell.http.browser_checks import is_local_origin


@pytest.mark.parametrize(
    "origin",
    [
        *("app://obsidian.md", "app://.", "tauri://localhost", "file://"),
        *("vscode-webview://1a2b", "vscode-file://vscode-app", "https://tauri.localhost"),
        *("chrome-extension://abcdef", "moz-extension://1-2", "safari-web-extension://A"),
        *("http://localhost", "https://localhost:3000", "http://127.0.0.1:5173"),
        *("http://[::1]:8080", "http://0.0.0.0:80"),
    ],
)
def test_programs_extensions_and_pages_of_this_machine_are_local(origin: str) -> None:
    assert is_local_origin(origin)


@pytest.mark.parametrize(
    "origin",
    [
        *("null", "", "https://evil.example", "http://localhost.evil.example"),
        *("http://evil.example:80", "http://localhost:80.evil.example", "http://localhost:"),
        *("http://127.0.0.1.evil.example", "http://evil.localhost", "http://evil.local"),
        *("http://localhost@evil.example", "evil-app://x", "https://app://x", "app:x"),
        *("http://127.0.0.2", "http://192.168.0.7", "ftp://localhost", "http://localhost/"),
        *("http://app", "https://evil.example#app://", "http://localhost\n"),
    ],
)
def test_web_pages_are_not_local(origin: str) -> None:
    assert not is_local_origin(origin)
