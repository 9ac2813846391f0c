"""Writes docs/settings.md from the settings' own descriptions: `python -m deploy.settings_page`."""

from pathlib import Path

from embedwell.settings.settings import PREFIX, Settings

FILE = Path(__file__).parent.parent / "docs" / "settings.md"
GROUPS = {  # by their first settings
    "model": "Model",
    "device": "Engine",
    "host": "Address and access",
    "max_body_bytes": "Limits",
    "auto_truncate": "Vectors",
    "max_wait": "Times",
    "log_level": "Log and traces",
}
_CACHE = "`~/.cache/embedwell`"  # on another machine than this
ABOUT = """\
# Settings

A flag (`--port 9000`), an environment variable (`EMBEDWELL_PORT=9000`) or a line of a
`.env` file; the first of these wins. `make serve` honours the last
two. `embedwell serve --help` shows the same.
"""
MORE = """
Which models can be named is in [Models](models.md), how the server is deployed in
[Deployment](../deploy/README.md).
"""


def page() -> str:
    """The page, in Markdown."""
    lines = [ABOUT]
    for name, field in Settings.model_fields.items():
        if name in GROUPS:
            lines.append(f"\n## {GROUPS[name]}\n\n| setting | default | meaning |\n|---|---|---|\n")
        default = field.get_default(call_default_factory=True)
        shown = _CACHE if name == "cache" else f"`{default}`" if default not in (None, "") else ""
        lines.append(f"| `{PREFIX}{name.upper()}` | {shown} | {field.description} |\n")
    return "".join([*lines, MORE])


if __name__ == "__main__":
    FILE.write_text(page(), encoding="utf-8")
