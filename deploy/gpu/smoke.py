"""Compare small batches on the GPU with float32 on the CPU, before and after warm-up.

python -m deploy.gpu.smoke [MODEL]...

Warm-up records CUDA graphs. The exit status is 1 if a model cannot be loaded or computed.
"""

import math
import sys
import time
import traceback
from pathlib import Path

from deploy.gpu.device import CUDA, DEVICE
from deploy.gpu.random_models import model_folder
from deploy.gpu.token_rows import Rows, random_rows
from embedwell_models import Embedder
from embedwell_models.vectors import Floats, normalize

MODELS = ("minilm", "bge-base", "modernbert-base", "qwen3-0.6b", "embeddinggemma")
_TRACEBACK_LINES = 9


def lowest_cosine(model: Embedder, rows: Rows, expected: Floats) -> float:
    """Return the lowest cosine between a model's vectors and unit vectors of the same texts."""
    return float((normalize(model.encode(rows)) * expected).sum(axis=1).min())


def check(folder: Path, dtype: str, rows: Rows, expected: Floats) -> tuple[bool, str]:
    """Return whether a model computes finite vectors in a precision, and a report."""
    try:
        model = Embedder.load(folder, device=DEVICE, dtype=dtype)
        cold = lowest_cosine(model, rows, expected)
        model.warm()
        warm = lowest_cosine(model, rows, expected)
    except Exception:
        *stack, error = traceback.format_exc().strip().splitlines()
        return False, "\n    ".join([f"FAILED: {error[:200]}", *stack[-_TRACEBACK_LINES:]])
    attention = ", ".join(model.graphs.attention) or "none"
    report = (
        f"{model.dtype}, lowest cosine {cold:.6f}, after warm-up {warm:.6f}, "
        f"attention: {attention}, graphs: {len(model.graphs.recorded)}"
    )
    return math.isfinite(cold + warm), report


def dtypes(name: str) -> list[str]:
    """Return the precisions to check."""
    if not CUDA:
        return ["float32"]
    return ["bfloat16", "float16", "float32", *["auto"] * (name == "minilm")]


def check_model(name: str) -> bool:
    """Check a model in each precision and print the reports; return whether all passed."""
    folder = model_folder(name, small=True)
    rows = random_rows(40, 24)
    expected = normalize(Embedder.load(folder, device="cpu", dtype="float32").encode(rows))
    passed = True
    for dtype in dtypes(name):
        start = time.perf_counter()
        ok, report = check(folder, dtype, rows, expected)
        passed &= ok
        seconds = time.perf_counter() - start
        sys.stdout.write(f"{name} {dtype}: {report} ({seconds:.1f} s)\n")
        sys.stdout.flush()
    return passed


def main() -> None:
    results = [check_model(name) for name in sys.argv[1:] or MODELS]
    sys.exit(0 if all(results) else 1)


if __name__ == "__main__":
    main()
