"""Draw the README's two plots from a table of docs/benchmarks.md: `python -m benchmarks.plot`."""

from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "benchmarks.md"
IMAGES = ROOT / "docs" / "images"
_HEAD = "| server | short, 1 client | 8 clients | 32 clients |"
_RATE, _LATENCY = 3, -1  # columns of the table
_WHERE = "two cores of Zen 5, November 2026"

_WIDTH, _ROW, _LEFT, _BAR = 760, 34, 290, 310  # pixels
_STYLE = """
  text { font: 14px system-ui, sans-serif; fill: #1f2328 }
  .title { font-weight: 600 }
  .bar { fill: #afb8c1 }
  .ours { fill: #0969da }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3 }
    .bar { fill: #57606a }
    .ours { fill: #4493f8 }
  }
"""

Bar = tuple[str, float, str]
"""Name, length and label of a bar."""


def bars(title: str, rows: Sequence[Bar]) -> str:
    """Return a horizontal bar chart as SVG, for light and dark pages."""
    longest = max(value for _, value, _ in rows)
    height = _ROW * (len(rows) + 1) + 10
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" role="img">',
        f"<title>{title}</title>",
        f"<style>{_STYLE}</style>",
        f'<text class="title" x="0" y="20">{title}</text>',
    ]
    for index, (name, value, label) in enumerate(rows, start=1):
        y, width = _ROW * index + 6, max(2, round(_BAR * value / longest))
        kind = "bar ours" if name.startswith("embedwell") else "bar"
        lines += [
            f'<text x="{_LEFT - 10}" y="{y + 17}" text-anchor="end">{name}</text>',
            f'<rect class="{kind}" x="{_LEFT}" y="{y}" width="{width}" height="24" rx="3"/>',
            f'<text x="{_LEFT + width + 8}" y="{y + 17}">{label}</text>',
        ]
    return "\n".join([*lines, "</svg>", ""])


def plots(page: str) -> dict[str, str]:
    """Return file name -> SVG, of the table of servers on the page."""
    table = page[page.index(_HEAD) :].split("\n\n", maxsplit=1)[0].splitlines()[2:]
    rows = [[cell.strip(" *") for cell in line.strip("|").split("|")] for line in table]
    throughput = [(row[0], _number(row[_RATE]), row[_RATE]) for row in rows]
    latency = [(row[0], _number(row[_LATENCY]), row[_LATENCY]) for row in rows]
    return {
        "throughput.svg": bars(f"Short texts per second, 32 clients: {_WHERE}", throughput),
        "latency.svg": bars(f"Median latency of a query during heavy load: {_WHERE}", latency),
    }


def _number(cell: str) -> float:
    return float(cell.removesuffix(" ms").replace(",", ""))


def main() -> None:
    """Write the plots."""
    IMAGES.mkdir(exist_ok=True)
    for name, text in plots(PAGE.read_text(encoding="utf-8")).items():
        (IMAGES / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
