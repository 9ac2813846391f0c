"""Cost of each response format for the server: requests per second and bytes of a response.

In each round, one server gets requests of one short text in each format in turn. Ratios are to JSON
numbers of the same round.
"""

import argparse
import json
import statistics
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from benchmarks import load, machine, script
from benchmarks.load import Load
from benchmarks.script import spread, summary, table
from benchmarks.serving import ours, running
from embedwell_models.hub.sources import resolve

_JSON = "application/json"


@dataclass(frozen=True)
class Form:
    """A response format. fields: further fields of the request. accept: requested media type."""

    name: str
    fields: Mapping[str, Any] = field(default_factory=dict)
    accept: str = _JSON

    def write(self, folder: Path, texts: list[str]) -> Path:
        """Write a file with a request body in each line."""
        path = folder / f"{self.name}.txt"
        lines = (json.dumps({"inputs": text, **self.fields}) for text in texts)
        path.write_text("\n".join(lines) + "\n")
        return path

    def size(self, url: str) -> int:
        """Return the bytes of a response without headers."""
        body = {"inputs": "cheap flights to lisbon in march", **self.fields}
        headers = {"accept": self.accept}
        answer = httpx.post(url, json=body, headers=headers, trust_env=False)
        return len(answer.raise_for_status().content)


FORMS = (
    Form("JSON numbers"),
    Form("JSON numbers, details", {"details": True}),
    Form("JSON numbers, partial", {"partial": True}),
    Form("base64", {"encoding_format": "base64"}),
    Form("base64 of float16", {"encoding_format": "base64", "output_dtype": "float16"}),
    Form("base64 of int8", {"encoding_format": "base64", "output_dtype": "int8"}),
    Form("bytes of float32", accept="application/octet-stream"),
    Form("bytes of int8", {"output_dtype": "int8"}, "application/octet-stream"),
    Form("bytes of ubinary", {"output_dtype": "ubinary"}, "application/octet-stream"),
    Form("npy of float32", accept="application/x-npy"),
)


def run(args: argparse.Namespace) -> dict[str, Any]:
    """Run the comparison; return the results for the file."""
    load.require()
    kind = Load("short", args.clients)
    texts = load.texts(kind.kind, 4096, args.seed)
    rates: dict[str, list[float]] = {form.name: [] for form in FORMS}
    with (
        tempfile.TemporaryDirectory() as name,
        running(ours(args.dtype), resolve(args.model), args.home, args.threads) as openai,
    ):
        url = openai.replace("/v1/embeddings", "/embed")
        sizes = {form.name: form.size(url) for form in FORMS}
        bodies = {form.name: form.write(Path(name), texts) for form in FORMS}
        for _ in range(args.rounds):
            for form in FORMS:
                own = {kind: bodies[form.name]}
                load.send(url, kind, own, 1, form.accept)
                measured = load.send(url, kind, own, args.seconds, form.accept)
                rates[form.name].append(measured["requests_per_second"])
    settings = {"machine": machine.describe(), "clients": args.clients, "dtype": args.dtype}
    return {**settings, "seconds": args.seconds, "bytes": sizes, "requests_per_second": rates}


def report(results: Mapping[str, Any]) -> str:
    """Return the numbers as a text table."""
    rates = results["requests_per_second"]
    base = rates[FORMS[0].name]
    rows = []
    for name, values in rates.items():
        ratio = statistics.median(a / b for a, b in zip(values, base, strict=True))
        size = str(results["bytes"][name])
        rows.append([name, size, spread(summary(values), 0), f"{ratio:.2f}"])
    header = ["", "bytes of an answer", "requests per second", "to JSON numbers"]
    return "\n".join([machine.line(results["machine"]), table("forms of an answer", header, rows)])


def main() -> None:
    parser = script.parser(__doc__, "outputs")
    add = parser.add_argument
    add("--dtype", default="auto", help="of the server")
    add("--clients", type=int, default=32, help="at a time")
    add("--seconds", type=int, default=3, help="of each form in each round")
    script.main(parser, run, report)


if __name__ == "__main__":
    main()
