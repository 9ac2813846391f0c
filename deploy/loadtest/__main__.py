"""Load test of an embedding server with real text: `python -m deploy.loadtest --help`."""

import argparse
import json
import math
import os
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, replace
from http import HTTPStatus
from pathlib import Path
from typing import Any

import httpx

from deploy.loadtest import capacity
from deploy.loadtest.loadtest import (
    KINDS,
    PERCENTILES,
    Plan,
    Sample,
    Texts,
    report,
    request_body,
    run,
    split,
)

_BODIES = 1000


def table(numbers: dict[str, Any]) -> str:
    """Return the report as a text table."""
    outcomes = "   ".join(f"{name}: {count}" for name, count in numbers["outcomes"].items())
    lines = [
        f"requests   {numbers['requests']}   {outcomes}",
        f"offered    {numbers['offered_per_second']:.1f} requests/s",
        f"answered   {numbers['requests_per_second']:.1f} requests/s   "
        f"{numbers['texts_per_second']:.1f} texts/s   {numbers['tokens_per_second']:.0f} tokens/s",
        f"truncated  {numbers['truncated_texts']} texts",
        f"client     {100 * numbers['client_cores']:.0f} % of a core (the busiest process)",
        "",
        f"{'ms':10}" + "".join(f"{name:>10}" for name in PERCENTILES),
    ]
    for phase, values in numbers["milliseconds"].items():
        cells = "".join(f"{values.get(name, math.nan):10.1f}" for name in PERCENTILES)
        lines.append(f"{phase:10}{cells}")
    return "\n".join(lines)


def progress_line(duration: float) -> Callable[[list[Sample]], None]:
    """Return a function that rewrites a progress line, or does nothing without a terminal."""
    begin = time.monotonic()

    def show(samples: list[Sample]) -> None:
        if sys.stderr.isatty():
            elapsed = max(0.0, time.monotonic() - begin)
            failed = sum(not sample.good for sample in samples)
            line = f"{elapsed:5.0f}/{duration:.0f} s   {len(samples)} answered   {failed} failed"
            print(f"\r{line}", end="", file=sys.stderr, flush=True)

    return show


def mix(text: str) -> dict[str, float]:
    """Parse weights such as 'query=70,passage=30'."""
    weights = {}
    for part in text.split(","):
        kind, _, weight = part.partition("=")
        if kind not in KINDS:
            raise argparse.ArgumentTypeError(f"{kind!r} is not one of {', '.join(KINDS)}")
        weights[kind] = float(weight)
    return weights


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    add = options.add_argument
    load = options.add_mutually_exclusive_group(required=True)
    load.add_argument("--rate", type=float, default=0.0, help="requests/s, at random moments")
    load.add_argument("--clients", type=int, default=0, help="clients that each wait their turn")
    load.add_argument(
        "--find-capacity",
        type=float,
        metavar="MS",
        help="find the highest rate at which the 99th percentile stays under so many ms",
    )
    load.add_argument(
        "--write-bodies",
        type=Path,
        metavar="FILE",
        help=f"write {_BODIES} bodies of requests, one on a line, for k6.js",
    )
    add("--url", default="http://127.0.0.1:8080", help="the server")
    add("--path", choices=["/embed", "/v1/embeddings"], default="/embed", help="the API")
    add("--model", default="all-MiniLM-L6-v2", help="model name for /v1/embeddings")
    add("--api-key", help="sent as a bearer token; by default EMBEDWELL_API_KEY")
    add("--duration", type=float, default=30.0, help="seconds")
    add("--warmup", type=float, default=5.0, help="first seconds, which are not counted")
    add("--timeout", type=float, default=60.0, help="seconds until a request is given up")
    add("--texts-per-request", type=int, default=1, help="texts in one request")
    add("--mix", type=mix, default="query=70,passage=25,document=5", help="kinds and weights")
    add("--processes", type=int, default=1, help="share the load among processes")
    add("--seed", type=int, default=0, help="another number, other texts and moments")
    add("--json", type=Path, metavar="FILE", help="write the report there too")
    add("--plot", type=Path, metavar="FILE", help="draw a search for capacity: .svg, .png, .pdf")
    add("--baseline", type=Path, metavar="FILE", help="report of a search to compare with")
    return options


def main() -> None:
    options = parser()
    args = vars(options.parse_args())
    if args["duration"] <= args["warmup"]:
        options.error("--duration must be longer than --warmup, which is not counted")
    args["api_key"] = args["api_key"] or os.environ.get("EMBEDWELL_API_KEY")
    file, processes, bound = args.pop("json"), args.pop("processes"), args.pop("find_capacity")
    plot, baseline, bodies = args.pop("plot"), args.pop("baseline"), args.pop("write_bodies")
    plan = Plan(**args)
    if bodies:
        texts = Texts(plan.mix, plan.seed)
        lines = [request_body(plan, texts).decode() for _ in range(_BODIES)]
        bodies.write_text("\n".join(lines))
    elif bound:
        _find_capacity(plan, processes, bound, file, plot, baseline)
    else:
        _run_once(plan, processes, file)


def _run_once(plan: Plan, processes: int, file: Path | None) -> None:
    result = run(split(plan, processes), progress_line(plan.duration))
    numbers = report(plan, result)
    print(file=sys.stderr)
    print(table(numbers))
    if file:
        settings = asdict(replace(plan, api_key=None)) | {"processes": processes}
        file.write_text(json.dumps({"plan": settings, **numbers}, indent=2) + "\n")
    sys.exit(0 if numbers["milliseconds"]["total"] else 1)


def _find_capacity(  # noqa: PLR0913, PLR0917 - of the command line
    plan: Plan,
    processes: int,
    bound: float,
    file: Path | None,
    plot: Path | None,
    baseline: Path | None,
) -> None:
    before = json.loads(baseline.read_text()) if baseline else None
    if before:
        try:
            capacity.compare(capacity.as_json(plan, bound, 0.0, [], {}), before)
        except ValueError as error:
            raise SystemExit(str(error)) from None

    def measure(rate: float) -> capacity.Point:
        at_rate = replace(plan, rate=rate)
        point = capacity.point(at_rate, run(split(at_rate, processes), lambda _: None))
        print(capacity.table([point]).splitlines()[1], file=sys.stderr)
        return point

    print(capacity.table([]), file=sys.stderr)
    rate, points = capacity.find_capacity(measure, bound)
    search = capacity.as_json(plan, bound, rate, points, _server(plan))
    print(f"{rate:.1f} requests/s with a 99th percentile under {bound:g} ms")
    if file:
        file.write_text(json.dumps(search, indent=2) + "\n")
    if plot:
        from deploy.loadtest.capacity_plot import draw

        draw(plot, points, rate, bound)
    if before:
        print(capacity.compare(search, before))
    sys.exit(0 if rate else 1)


def _server(plan: Plan) -> dict[str, Any]:
    """Read model, precision and machine from /info; return an empty mapping for other servers."""
    headers = {"authorization": f"Bearer {plan.api_key}"} if plan.api_key else {}
    response = httpx.get(f"{plan.url}/info", headers=headers, timeout=plan.timeout)
    return dict(response.json()) if response.status_code == HTTPStatus.OK else {}


if __name__ == "__main__":
    main()
