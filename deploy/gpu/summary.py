"""Print the results in OUT as short tables."""

import json
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Any

from deploy.gpu.results import read_environment, read_lines

_HARDWARE = ("device", "torch", "bf16_tflops", "copies", "launches")
_ENGINE_HEADING = (
    "engine: run | tokens of a text | p50 ms of one text | "
    "thousand tokens/s by number of texts | texts/s at most | share of the bf16 peak at most"
)
_ENGINE_NOTES = (
    *("failed", "load_s", "warm_s", "trials"),
    *("reserved_mb", "lowest_cosine_to_float32"),
)
_REASONS = 20  # lines of failed tests


def hardware() -> Iterator[str]:
    """Yield what env.json says of the device."""
    if found := read_environment():
        yield json.dumps({key: found.get(key) for key in _HARDWARE})


def tests() -> Iterator[str]:
    """Yield the number of each outcome, and the reasons of failures by frequency."""
    results = read_lines("tests.jsonl")
    if not results:
        return
    yield f"tests: {dict(Counter(each['outcome'] for each in results))}"
    by_reason: defaultdict[str, list[str]] = defaultdict(list)
    for each in results:
        if each["outcome"] == "failed":
            by_reason[_reason(each["why"])].append(each["test"].partition("::")[2])
    for reason, names in sorted(by_reason.items(), key=lambda pair: -len(pair[1]))[:_REASONS]:
        yield f"  {len(names):3} x {reason}   e.g. {names[0][:70]}"


def _reason(traceback: str) -> str:
    errors = re.findall(r"^E +(.*)$", traceback, re.MULTILINE) or traceback.splitlines()
    return str(errors[-1])[:150] if errors else ""


def engine() -> Iterator[str]:
    """Yield a line for each run and length, then load times, memory and failures."""
    results = read_lines("engine.jsonl")
    if not results:
        return
    yield _ENGINE_HEADING
    cells: defaultdict[tuple[str, int], list[dict[str, Any]]] = defaultdict(list)
    for each in results:
        if "tokens_per_s" in each:
            cells[each["run"], each["length"]].append(each)
    for (run, length), row in cells.items():
        latency = next((each.get("p50_ms", "-") for each in row if each["texts"] == 1), "-")
        rates = " ".join(f"{each['texts']}:{each['tokens_per_s'] / 1e3:.1f}" for each in row)
        most = max(each["texts_per_s"] for each in row)
        share = max(each.get("share_of_peak") or 0 for each in row) or "-"
        yield f"{run} | {length} | {latency} | {rates} | {most} | {share}"
    for each in results:
        if notes := {key: each[key] for key in _ENGINE_NOTES if key in each}:
            yield json.dumps({"run": each["run"], **notes})


def server() -> Iterator[str]:
    """Yield the lines of server.jsonl."""
    if results := read_lines("server.jsonl"):
        yield "server"
        yield from map(json.dumps, results)


def main() -> None:
    for section in (hardware, tests, engine, server):
        if lines := [*section()]:
            sys.stdout.write("\n" + "\n".join(line[:400] for line in lines) + "\n")


if __name__ == "__main__":
    main()
