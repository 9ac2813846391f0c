"""Benchmark of a local Ray cluster against one process, from Parquet to Parquet."""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median

import click
import pyarrow.parquet as pq
from ray.cluster_utils import Cluster

from benchmarks.bulk import write_texts

_DATASET = """
import sys, ray
from embedwell_bulk.ray.dataset import EmbedTexts
source, out, dtype, actors, address = sys.argv[1:]
ray.init(address, logging_level="ERROR", log_to_driver=False)
ray.data.read_parquet(source).repartition(64).map_batches(
    EmbedTexts, fn_constructor_kwargs={"dtype": dtype}, batch_format="pyarrow", batch_size=1024,
    compute=ray.data.ActorPoolStrategy(size=int(actors)), num_cpus=1,
).write_parquet(out)
"""


@click.command()
@click.option("--texts", default=40_000, help="Of 4 to 16 words.")
@click.option("--rounds", default=2, help="Each command once, in turn.")
@click.option("--actors", default=(2, 4), multiple=True, help="Of a thread each, on two nodes.")
@click.option("--dtype", default="float32")
def main(texts: int, rounds: int, actors: Sequence[int], dtype: str) -> None:
    """Print texts per second of whole commands, and without the time for a thousand texts."""
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    cluster = Cluster(
        initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False}
    )
    for _ in range(2):  # with CPUs for the tasks that read and write
        cluster.add_node(num_cpus=max(actors) // 2 + 2, include_dashboard=False)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        few, many = (write_texts(folder / f"{n}.parquet", n) for n in (1000, texts))
        rates: dict[str, list[tuple[float, float]]] = {}
        for number in range(rounds):
            for kind, command in commands(dtype, actors, cluster.address).items():
                seconds = [
                    timed(command, source, folder / f"{kind}{number}{source.stem}")
                    for source in (few, many)
                ]
                rate = texts / seconds[1], (texts - 1000) / (seconds[1] - seconds[0])
                rates.setdefault(kind, []).append(rate)
    cluster.shutdown()  # type: ignore[no-untyped-call]
    for kind, pairs in rates.items():
        whole, marginal = (median(values) for values in zip(*pairs, strict=True))
        click.echo(f"{kind:12} {whole:8,.0f} texts/s, {marginal:8,.0f} without the start")


def commands(dtype: str, actors: Sequence[int], address: str) -> Mapping[str, list[str]]:
    """Return name -> command, with the placeholders SOURCE and OUT."""
    plain = [sys.executable, "-m", "embedwell", "embed", "SOURCE", "-o", "OUT", "--dtype", dtype]
    dataset = [sys.executable, "-c", _DATASET, "SOURCE", "OUT", dtype]
    kinds = {"one process": [*plain, "--id", "id"]}
    for count in actors:
        kinds[f"dataset, {count}"] = [*dataset, str(count), address]
    return kinds


def timed(command: Sequence[str], source: Path, out: Path) -> float:
    """Run a command, check that all rows are written, and return its seconds."""
    names = {"SOURCE": str(source), "OUT": str(out)}
    start = time.perf_counter()
    subprocess.run(
        [names.get(word, word) for word in command], check=True, stderr=subprocess.DEVNULL
    )
    seconds = time.perf_counter() - start
    assert pq.read_table(out).num_rows == pq.read_metadata(source).num_rows
    return seconds


if __name__ == "__main__":
    main()
