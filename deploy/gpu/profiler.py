"""Profile forward passes: the time of each kernel, and the gaps between kernels on the GPU.

python -m deploy.gpu.profiler [SECONDS]

The results are in profile.txt.
"""

import sys
import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile

from deploy.gpu.device import CUDA, DEVICE
from deploy.gpu.engine import in_two_threads
from deploy.gpu.random_models import model_folder
from deploy.gpu.results import OUT, brief
from deploy.gpu.token_rows import Rows, random_rows, token_count
from embedwell_models import Embedder

Case = tuple[str, int, int, int]
"""A model, the number of texts of a pass, tokens of a text, the number of passes."""

CASES: Sequence[Case] = [
    ("minilm", 512, 128, 20),
    ("bge-base", 128, 128, 20),
    ("minilm", 1, 10, 200),
    ("minilm", 64, 10, 100),
    ("embeddinggemma", 64, 128, 10),
    ("splade", 64, 30, 20),
]
CPU_CASES: Sequence[Case] = [("minilm", 4, 10, 3)]
_WARM_UP_PASSES = 6
_KERNELS, _OPERATIONS = 30, 15  # lines of the tables
_LONG_GAP_US = 20
_SHOWN_LINES = 12

Span = tuple[float, float]
"""Start and end of a kernel, in microseconds."""


def run_passes(model: Embedder, rows: Rows, count: int) -> None:
    """Run `count` passes in two threads."""
    remaining = iter(range(count))

    def run_one() -> bool:
        if next(remaining, None) is None:
            return False
        model.encode(rows)
        return True

    in_two_threads(run_one)


def record(model: Embedder, rows: Rows, count: int) -> Any:
    """Run passes under torch's profiler."""
    activities = [ProfilerActivity.CPU, *[ProfilerActivity.CUDA] * CUDA]
    # The passes run in other threads than this one.
    config = torch._C._profiler._ExperimentalConfig(profile_all_threads=True)
    with profile(activities=activities, experimental_config=config, acc_events=True) as recorded:
        run_passes(model, rows, count)
        if CUDA:
            torch.cuda.synchronize()
    return recorded


def kernel_table(kernels: Sequence[Any], count: int) -> list[str]:
    """Return the lines of the kernels that take the most time."""
    times: defaultdict[str, float] = defaultdict(float)
    for event in kernels:
        times[event.name] += event.time_range.elapsed_us()
    launches = Counter(event.name for event in kernels)
    longest = sorted(times, key=times.__getitem__, reverse=True)[:_KERNELS]
    return [
        "us per pass, launches per pass, kernel",
        *(f"{times[k] / count:9.1f} {launches[k] / count:6.1f}  {k[:100]}" for k in longest),
    ]


def host_table(averages: Sequence[Any], count: int) -> list[str]:
    """Return the lines of the operations that take the most time of the host."""
    longest = sorted(averages, key=lambda each: each.self_cpu_time_total, reverse=True)
    return [
        "us per pass on the host, calls per pass, operation",
        *(
            f"{each.self_cpu_time_total / count:9.1f} {each.count / count:6.1f}  {each.key[:80]}"
            for each in longest[:_OPERATIONS]
        ),
    ]


def utilization(spans: Sequence[Span], count: int) -> str:
    """Describe how long the GPU was busy, and its gaps. spans: in ascending order."""
    busy, gaps, end = 0.0, [0.0], spans[0][0]
    for start, stop in spans:
        if start > end:
            gaps.append(start - end)
        busy += max(0.0, stop - max(start, end))
        end = max(end, stop)
    whole = end - spans[0][0]
    long = [gap for gap in gaps if gap > _LONG_GAP_US]
    return (
        f"busy {100 * busy / whole:.0f} % of {whole / count:.0f} us per pass; "
        f"gaps over {_LONG_GAP_US} us: {len(long) / count:.1f} per pass, "
        f"{sum(long) / count:.0f} us per pass, the longest {max(gaps):.0f} us; "
        f"shorter gaps: {(sum(gaps) - sum(long)) / count:.0f} us per pass"
    )


def report(name: str, model: Embedder, rows: Rows, count: int) -> str:
    """Measure passes without the profiler, then profile them; return the tables."""
    run_passes(model, rows, _WARM_UP_PASSES)
    start = time.perf_counter()
    run_passes(model, rows, count)
    milliseconds = (time.perf_counter() - start) / count * 1e3
    recorded = record(model, rows, count)
    kernels = [each for each in recorded.events() if "CUDA" in str(each.device_type)]
    spans = sorted((each.time_range.start, each.time_range.end) for each in kernels)
    lines = [
        f"## {name}: {len(rows)} texts, {token_count(rows)} tokens; "
        f"{milliseconds:.3f} ms per pass without the profiler",
        *([utilization(spans, count), *kernel_table(kernels, count)] if spans else []),
        *host_table(recorded.key_averages(), count),
    ]
    return "\n".join(lines)


def main() -> None:
    end = time.monotonic() + float(sys.argv[1] if len(sys.argv) > 1 else 60)
    failed = False
    for name, texts, length, count in CASES if CUDA else CPU_CASES:
        if time.monotonic() > end:
            break
        try:
            dtype = "bfloat16" if CUDA else "float32"
            model = Embedder.load(model_folder(name), device=DEVICE, dtype=dtype)
            model.warm()
            text = report(name, model, random_rows(length, texts), count)
        except Exception as error:  # the other cases are profiled all the same
            failed = True
            text = f"## {name}, {texts} texts of {length} tokens: {brief(error)}"
        with (OUT / "profile.txt").open("a", encoding="utf-8") as file:
            file.write(f"{text}\n\n")
        sys.stdout.write("\n".join(text.splitlines()[:_SHOWN_LINES]) + "\n")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
