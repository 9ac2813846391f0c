"""Benchmark of `embedwell embed` against the engine alone: speed, memory, killed runs."""

import json
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

import click
import pyarrow as pa
import pyarrow.parquet as pq

from deploy.loadtest.corpus import Corpus
from embedwell_bulk.columns import Columns
from embedwell_bulk.local_model import LocalModel
from embedwell_bulk.progress import EmbedProgress
from embedwell_bulk.run import BulkJob, run
from embedwell_models.embedder import Embedder
from embedwell_models.hub.sources import DEFAULT


@click.group()
def main() -> None:
    """Measure `embedwell embed` from Parquet to Parquet."""


@main.command()
@click.option("--texts", default=100_000, help="Of 4 to 16 words.")
@click.option("--rounds", default=3, help="Each of the two once, in turn.")
@click.option("--dtype", default="float32")
@click.option("--model", default=DEFAULT)
def speed(texts: int, rounds: int, dtype: str, model: str) -> None:
    """Print texts per second of both, their ratio and peak memory; each runs in its own process.

    Equal texts are computed once in a part of the files; the engine alone computes every text.
    """
    with tempfile.TemporaryDirectory() as name:
        source = write_texts(Path(name) / "in.parquet", texts)
        results: dict[str, list[Any]] = {"engine": [], "files": []}
        for number in range(rounds):
            for kind, rows in results.items():
                rows.append(child(kind, source, Path(name) / f"out{number}", model, dtype))
    rates = {k: median(texts / row["seconds"] for row in rows) for k, rows in results.items()}
    for kind, rows in results.items():
        peak = max(row["peak_mib"] for row in rows)
        click.echo(f"{kind:8} {rates[kind]:8,.0f} texts/s, at most {peak:,.0f} MiB")
    computed = results["files"][0]["computed"]
    click.echo(f"share    {rates['files'] / rates['engine']:.1%}, of {computed:,} distinct texts")


@main.command()
@click.option("--texts", default=8000, help="Of 4 to 16 words.")
@click.option("--kills", default=10, help="At random moments; the run is resumed after each.")
@click.option("--part-rows", default=512, help="Most rows of a part.")
@click.option("--dtype", default="float32")
def kills(texts: int, kills: int, part_rows: int, dtype: str) -> None:
    """Kill a run repeatedly at random moments, and compare its result with an undisturbed run."""
    generator = random.Random(7)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        source = write_texts(folder / "in.parquet", texts)
        undisturbed, killed = (
            [*embed(source, folder / out, dtype), "--part-rows", str(part_rows)]
            for out in ("undisturbed", "killed")
        )
        start = time.perf_counter()
        subprocess.run(undisturbed, check=True)
        seconds = time.perf_counter() - start
        peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
        click.echo(f"undisturbed: {seconds:,.0f} s, at most {peak:,.0f} MiB")
        for _ in range(kills):
            moment = generator.uniform(0, 2 * seconds / (kills + 1))
            with subprocess.Popen(killed) as process:
                time.sleep(moment)
                process.kill()
            parts = len([*(folder / "killed").glob("part-*")])
            click.echo(f"killed after {moment:,.1f} s, with {parts} parts")
        subprocess.run(killed, check=True)
        same = contents(folder / "killed") == contents(folder / "undisturbed")
        click.echo(f"the same bytes: {same}")


@main.command(hidden=True)
@click.argument("kind", type=click.Choice(["engine", "files"]))
@click.argument("source", type=click.Path(path_type=Path))
@click.argument("out", type=click.Path(path_type=Path))
@click.argument("model")
@click.argument("dtype")
def measure(kind: str, source: Path, out: Path, model: str, dtype: str) -> None:
    """Print seconds and peak memory of one of the two, without loading of the model."""
    texts = pq.read_table(source)["text"].to_pylist() if kind == "engine" else []
    embedder = Embedder.load(model, dtype=dtype)
    embedder.embed([str(number) for number in range(256)])
    computed = len(texts)
    start = time.perf_counter()
    if texts:
        embedder.embed(texts)
    else:
        job = BulkJob([str(source)], str(out), Columns(id="id"))
        computed = run(job, lambda _: LocalModel(embedder, model), EmbedProgress(None))["computed"]
    seconds = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    click.echo(json.dumps({"seconds": seconds, "peak_mib": peak, "computed": computed}))


def write_texts(path: Path, count: int) -> Path:
    """Write a table of short texts."""
    corpus = Corpus(random.Random(5))
    texts = [corpus.cut(4, 16) for _ in range(count)]
    pq.write_table(pa.table({"id": range(count), "text": texts}), path)
    return path


def child(kind: str, source: Path, out: Path, model: str, dtype: str) -> Any:
    """Run one of the two in a process of its own; return its report."""
    command = [sys.executable, "-m", "benchmarks.bulk", "measure", kind]
    command += [str(source), str(out), model, dtype]
    process = subprocess.run(command, check=True, stdout=subprocess.PIPE, env=os.environ)
    return json.loads(process.stdout)


def embed(source: Path, out: Path, dtype: str) -> list[str]:
    """Return the command of a run."""
    options = ["--dtype", dtype, "--id", "id", "--resume"]
    return [sys.executable, "-m", "embedwell", "embed", str(source), "-o", str(out), *options]


def contents(folder: Path) -> dict[str, bytes]:
    """Return the contents of the files in a folder."""
    return {path.name: path.read_bytes() for path in folder.iterdir()}


if __name__ == "__main__":
    main()
