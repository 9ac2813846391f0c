"""The course of a benchmark script: read the command line, save the results, print tables."""

import argparse
import datetime
import json
import os
import signal
import statistics
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.environments import ROOT
from benchmarks.machine import cores
from embedwell_models.hub.sources import DEFAULT


def parser(
    about: str | None, name: str, models: Sequence[str] | None = None
) -> argparse.ArgumentParser:
    """Return the parser of the command line.

    name: prefix of the result file. models: names of the only models, the default first.
    """
    command_line = argparse.ArgumentParser(
        description=about, formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    home = Path(os.environ.get("BENCH_HOME", ROOT / ".bench"))
    today = datetime.datetime.now(datetime.UTC).date()
    file = Path(__file__).parent / "results" / f"{name}-{today}.json"
    add = command_line.add_argument
    if models is None:
        add("--model", default=DEFAULT, help="a folder or a bundled name")
    else:
        add("--model", default=models[0], choices=models, help="whose shape a model has")
    add("--rounds", type=int, default=5, help="how often each contestant has its turn")
    add("--only", action="append", default=[], metavar="TEXT", help="contestants named so")
    add("--threads", type=int, default=cores(), help="of each contestant")
    add("--seed", type=int, default=0, help="another number, other texts")
    add("--home", type=Path, default=home, help="folder of the peers; also BENCH_HOME")
    add("--json", type=Path, default=file, metavar="FILE", help="where the results go")
    return command_line


def main(
    command_line: argparse.ArgumentParser,
    run: Callable[[argparse.Namespace], dict[str, Any]],
    report: Callable[[dict[str, Any]], str],
) -> None:
    """Run a benchmark by the command line; save its results and print its report."""
    args = _parse(command_line)
    _say_which_signal_ends_it()
    results = run(args)
    _write(args.json, results)
    print(report(results))


def _parse(command_line: argparse.ArgumentParser) -> argparse.Namespace:
    # Absolute paths are valid wherever a peer is started.
    args = command_line.parse_args()
    args.home = args.home.resolve()
    args.home.mkdir(parents=True, exist_ok=True)
    return args


def _say_which_signal_ends_it() -> None:
    """Let a signal end this process with a message, and stop the servers that it started.

    By default, it would end without either. One that is ignored, as by nohup, still is.
    """

    def end(number: int, _: object) -> None:
        raise SystemExit(f"{signal.Signals(number).name} ended it: nothing is saved")

    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, end)


def choose(names: Iterable[str], only: Sequence[str]) -> list[str]:
    """Return the names of contestants that contain a text of --only; all names without --only.

    Exits with a message if no name contains one of the texts.
    """
    every = [*names]
    for text in only:
        if not any(text.lower() in name.lower() for name in every):
            raise SystemExit(
                f"--only {text!r} matches no contestant; choose from: {'; '.join(every)}"
            )
    return [name for name in every if not only or any(t.lower() in name.lower() for t in only)]


def _write(path: Path, results: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(results, indent=1) + "\n")
    print(f"results: {path}", file=sys.stderr)


def table(title: str, header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a title and aligned columns, the first column to the left."""
    cells = [list(header), *map(list, rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(header))]
    lines = [
        row[0].ljust(widths[0])
        + "".join(cell.rjust(width + 3) for cell, width in zip(row[1:], widths[1:], strict=True))
        for row in cells
    ]
    return "\n".join(["", title, *lines])


def summary(values: Sequence[float]) -> dict[str, Any]:
    """Return median and spread over the rounds."""
    return {"median": statistics.median(values), "min": min(values), "max": max(values)}


def spread(figures: dict[str, Any], digits: int = 0, unit: float = 1.0) -> str:
    """Format a summary as 'median (min-max)'."""
    median, low, high = (f"{figures[key] * unit:.{digits}f}" for key in ("median", "min", "max"))
    return f"{median} ({low}-{high})"
