"""Measure the library on token ids: tokens/s, texts/s, latency, share of the GPU's peak.

python -m deploy.gpu.engine [MODEL:DTYPE[:eager|:fused]]... [--seconds 170]

The results are in engine.jsonl. `eager` runs without CUDA graphs. `fused` runs the short encoder in
fused_bert.py instead of the library, to compare with. The exit status is 1 if a run failed.
"""

import argparse
import itertools
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import torch

from deploy.gpu.device import CUDA, DEVICE, DTYPE
from deploy.gpu.random_models import flop_per_token, model_folder
from deploy.gpu.results import OUT, append_line, read_environment
from deploy.gpu.token_rows import Rows, random_rows, token_count
from embedwell_models import Embedder
from embedwell_models.encoder.batch import batches_of_similar_length
from embedwell_models.outputs.names import DENSE
from embedwell_models.outputs.text_outputs import TextOutputs
from embedwell_models.vectors import normalize

LENGTHS = (10, 100, 400) if CUDA else (10, 100)
"""Tokens of a text, within a quarter: CUDA graphs are recorded for at most 32, 128 and 512."""

COUNTS = (1, 8, 64, 512, 4096) if CUDA else (1, 8)
MAX_TOKENS = 1 << 20
"""The number of texts is reduced where they would have more tokens."""

BATCH_TOKENS = 65536
RUNS = (  # what matters most first, as the time may not suffice
    "minilm:bfloat16",
    "bge-base:bfloat16",
    "qwen3-0.6b:bfloat16",
    "modernbert-base:bfloat16",
    "bge-large:bfloat16",
    "minilm:bfloat16:eager",
    "minilm:bfloat16:fused",
    "bge-base:bfloat16:eager",
    "bge-base:bfloat16:fused",
    "splade:bfloat16",
    "embeddinggemma:bfloat16",
    "bge-m3:bfloat16",
    "colbert:bfloat16",
    "minilm:float16",
    "nv-embed:bfloat16",
    "bge-large:bfloat16:fused",
    "minilm:float32",
)
CPU_RUNS = (
    *("minilm:float32", "bge-base:float32", "splade:float32", "colbert:float32"),
    *("bge-m3:float32", "nv-embed:float32"),
)
_RUN_SECONDS, _MIN_RUN_SECONDS = (60, 12) if CUDA else (600, 12)
_NO_TIME = "no time left"


class Encoder(Protocol):
    """The part of Embedder that is measured."""

    def encode(self, rows: Rows, /) -> Any: ...

    def warm(self) -> None: ...


@dataclass(frozen=True)
class EveryOutput:
    """A model with other outputs than dense vectors, which are computed as for a request."""

    model: Embedder

    def encode(self, rows: Rows, /) -> list[TextOutputs]:
        """Compute all outputs of texts in one pass."""
        return self.model.outputs(rows, self.model.output_names)

    def warm(self) -> None:
        self.model.warm()


def batches(rows: Rows) -> list[Rows]:
    """Divide texts into batches of similar length, of at most BATCH_TOKENS tokens each."""
    lengths = [len(row) for row in rows]
    return [[rows[i] for i in part] for part in batches_of_similar_length(lengths, BATCH_TOKENS)]


def sequential_seconds(model: Encoder, work: Sequence[Rows], limit: float) -> list[float]:
    """Return the seconds of each run over all batches, in ascending order."""
    times: list[float] = []
    end = time.perf_counter() + limit
    while len(times) < 3 or (time.perf_counter() < end and len(times) < 300):
        start = time.perf_counter()
        for batch in work:
            model.encode(batch)
        times.append(time.perf_counter() - start)
    return sorted(times)


def in_two_threads(work: Callable[[], bool]) -> None:
    """Call a function in each of two threads until it returns False, as the server does."""

    def repeat() -> None:
        while work():
            pass

    threads = [threading.Thread(target=repeat) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def concurrent_rate(model: Encoder, work: Sequence[Rows], limit: float) -> float:
    """Return the batches per second of two threads: one prepares a batch as the other computes."""
    remaining = itertools.cycle(work)
    lock = threading.Lock()
    finished = 0
    start = time.perf_counter()

    def run_one() -> bool:
        nonlocal finished
        if time.perf_counter() - start > limit:
            return False
        with lock:
            batch = next(remaining)
        model.encode(batch)
        with lock:
            finished += 1
        return True

    in_two_threads(run_one)
    return finished / (time.perf_counter() - start)


def measure(model: Encoder, folder: Path, peak: float) -> Iterator[dict[str, Any]]:
    """Yield the results for each length and number of texts. peak: TFLOP/s; 0 if not known."""
    for length, count in itertools.product(LENGTHS, COUNTS):
        rows = random_rows(length, min(count, MAX_TOKENS // length))
        tokens = token_count(rows)
        work = batches(rows)
        model.encode(work[0])  # allocates memory
        times = sequential_seconds(model, work, 0.15)
        rate = concurrent_rate(model, work, 0.2) * tokens / len(work)
        share = rate * flop_per_token(folder, length) / (peak * 1e12) if peak else None
        yield {
            "length": length,
            "texts": len(rows),
            "tokens": tokens,
            "batches": len(work),
            "p50_ms": round(1e3 * times[len(times) // 2], 3),
            "tokens_per_s": round(rate),
            "texts_per_s": round(rate * len(rows) / tokens),
            "share_of_peak": share and round(share, 3),
        }


def measured_peak() -> float:
    """Return the bfloat16 TFLOP/s of large matrix products on this GPU, or 0."""
    peak = read_environment().get("bf16_tflops")
    return peak if CUDA and isinstance(peak, float) else 0.0


def load_fused(folder: Path, dtype: str) -> Encoder:
    """Load the encoder to compare with."""
    from deploy.gpu.fused_bert import FusedBert

    return FusedBert(folder, torch.device(DEVICE), getattr(torch, dtype) if CUDA else DTYPE)


def cosine_to_float32(model: Encoder, folder: Path) -> float:
    """Return the lowest cosine of a model's vectors to those of the library in float32."""
    rows = random_rows(40, 16)
    exact = normalize(Embedder.load(folder, device=DEVICE, dtype="float32").encode(rows))
    return round(float((exact * normalize(model.encode(rows))).sum(axis=1).min()), 6)


def run(name: str) -> None:
    """Load a model and append its results."""
    shape, dtype, *variant = name.split(":")
    start = time.perf_counter()
    folder = model_folder(shape)
    made = time.perf_counter()
    about: dict[str, Any] = {"run": name, "device": DEVICE, "made_s": round(made - start, 1)}
    model: Encoder
    if variant == ["fused"]:
        model = load_fused(folder, dtype)
    else:
        graphs = variant != ["eager"]
        embedder = Embedder.load(folder, device=DEVICE, dtype=dtype, cuda_graphs=graphs)
        about["graphs"] = graphs
        about["trials"] = [(t.dtype, t.cosine, t.median_cosine, t.speedup) for t in embedder.trials]
        model = embedder if embedder.output_names == (DENSE,) else EveryOutput(embedder)
    loaded = time.perf_counter()
    model.warm()
    about["load_s"] = round(loaded - made, 1)
    about["warm_s"] = round(time.perf_counter() - loaded, 1)
    for result in measure(model, folder, measured_peak()):
        append_line("engine.jsonl", about | result)
        about = {"run": name}
    if variant == ["fused"]:
        about["lowest_cosine_to_float32"] = cosine_to_float32(model, folder)
    if CUDA:
        about["reserved_mb"] = torch.cuda.max_memory_reserved() >> 20
    if len(about) > 1:
        append_line("engine.jsonl", about)


def run_in_process(name: str, seconds: float) -> str | None:
    """Run in a process of its own, with memory of its own; return why it failed."""
    command = [sys.executable, "-m", "deploy.gpu.engine", name, "--in-process"]
    path = OUT / "engine.log"
    with path.open("a", encoding="utf-8") as log:
        try:
            process = subprocess.run(command, stderr=log, timeout=seconds, check=False)
        except subprocess.TimeoutExpired:
            return f"not finished after {seconds:.0f} s"
    if process.returncode == 0:
        return None
    last = path.read_text(encoding="utf-8").strip().splitlines()[-1:]
    return f"status {process.returncode}: {' '.join(last)}"


def run_all(names: Sequence[str], seconds: float) -> int:
    """Run each in turn while there is time; return the number of runs that failed."""
    failed = 0
    end = time.monotonic() + seconds
    for name in names:
        left = end - time.monotonic()
        why = _NO_TIME
        if left > _MIN_RUN_SECONDS:
            why = run_in_process(name, min(left, _RUN_SECONDS)) or ""
            failed += bool(why)
        if why:
            append_line("engine.jsonl", {"run": name, "failed": why})
    return failed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("runs", nargs="*", metavar="MODEL:DTYPE[:eager|:fused]")
    parser.add_argument("--seconds", type=float, default=170, help="for all runs")
    parser.add_argument("--in-process", action="store_true", help="run one, in this process")
    args = parser.parse_args()
    if args.in_process:
        (name,) = args.runs
        run(name)
    else:
        runs = args.runs or (RUNS if CUDA else CPU_RUNS)
        sys.exit(1 if run_all(runs, args.seconds) else 0)


if __name__ == "__main__":
    main()
