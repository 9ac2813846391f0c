"""Write docs/settings.md from the settings: `python -m docs.build.settings_page`."""

from pathlib import Path

from embedwell.cli.options import default_text
from embedwell.settings.settings import GROUPS, PREFIX, Settings

FILE = Path(__file__).parents[1] / "settings.md"
_CACHE = "`~/.cache/embedwell`"  # instead of the path on this machine
ABOUT = """\
# Settings

A setting is, in this order of precedence, a flag of `embedwell serve` (`--port 9000`; `--help` has
the same list), an environment variable (`EMBEDWELL_PORT=9000`), or a line of `.env` in the working
directory (`EMBEDWELL_PROMPTS='{"query": "query: "}'`). Its default is in parentheses.

`.env` has the format of [python-dotenv](https://github.com/theskumar/python-dotenv#file-format):
comments, quotes and `export` are allowed, and `${NAME}` is replaced by a variable, also in quotes.
"""


def page() -> str:
    """Return the page in Markdown."""
    lines = [ABOUT]
    for name, field in Settings.model_fields.items():
        if name in GROUPS:
            lines.append(f"\n## {GROUPS[name]}\n\n")
        shown = _CACHE if name == "cache" else f"`{text}`" if (text := default_text(name)) else ""
        default = f" ({shown})" if shown else ""
        lines.append(f"- `{PREFIX}{name.upper()}`{default}: {field.description}\n")
    return "".join(lines)


if __name__ == "__main__":
    FILE.write_text(page(), encoding="utf-8")
