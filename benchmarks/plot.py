"""Draw the README's two plots from a committed result: `python -m benchmarks.plot`."""

import json
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
RESULT = Path(__file__).parent / "results" / "servers-2026-11-22.json"
IMAGES = ROOT / "docs" / "images"
WORKLOAD = "short, 32 clients"
OURS = "this, "

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


def plots(result: dict[str, Any]) -> dict[str, str]:
    """Return file name -> SVG, with the medians of the rounds of one workload."""
    throughput: list[Bar] = []
    latency: list[Bar] = []
    for server, workloads in result["servers"].items():
        rounds = workloads[WORKLOAD]
        name = server.replace(OURS, "embedwell, ")
        rate = statistics.median(each["requests_per_second"] for each in rounds)
        p50, p99 = (1e3 * statistics.median(each[key] for each in rounds) for key in ("p50", "p99"))
        throughput.append((name, rate, f"{rate:,.0f}"))
        latency.append((name, p50, f"{p50:,.0f} ms (p99 {p99:,.0f})"))
    where = "32 clients, one short text each, 2 cores of a Xeon"
    return {
        "throughput.svg": bars(f"Requests per second: {where}", throughput),
        "latency.svg": bars(f"Median latency: {where}", latency),
    }


def main() -> None:
    """Write the plots."""
    IMAGES.mkdir(exist_ok=True)
    for name, text in plots(json.loads(RESULT.read_text(encoding="utf-8"))).items():
        (IMAGES / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
