"""Compare small batches on the GPU with float32 on the CPU, before and after warm-up.

python -m deploy.gpu.smoke [MODEL]...

Warm-up records CUDA graphs. The exit status is 1 if a model cannot be loaded or computed.
"""

import json
import math
import sys
import time
import traceback
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from deploy.gpu.device import CUDA, DEVICE
from deploy.gpu.random_models import model_folder
from deploy.gpu.token_rows import Rows, random_rows
from embedwell_models import Embedder
from embedwell_models.outputs.text_outputs import over_entries
from embedwell_models.vectors import Floats, normalize

MODELS = (
    *("minilm", "bge-base", "modernbert-base", "qwen3-0.6b", "embeddinggemma", "splade"),
    *("colbert", "bge-m3", "nv-embed"),
)
BATCHES = (
    ((10, 3), (24, 30), (100, 3), (40, 24), (300, 2), (400, 4)) if CUDA else ((10, 3), (100, 3))
)
"""Tokens of a text, and the number of texts: graphs of several lengths, and a batch without."""

_TRACEBACK_LINES = 9


def unit_rows(model: Embedder, rows: Rows) -> list[Floats]:
    """Return each output of texts as rows of unit length: of texts, of their weights, of tokens."""
    outputs = model.outputs(rows, model.output_names)
    dense = [text.dense for text in outputs if text.dense is not None]
    sparse = [text.sparse for text in outputs if text.sparse is not None]
    multi = [text.multi for text in outputs if text.multi is not None]
    found = [np.stack(dense)] if dense else []
    found += (
        [over_entries(sparse, np.arange(model.config.vocab_size, dtype=np.int32))] if sparse else []
    )
    found += [np.concatenate(multi)] if multi else []
    return [normalize(each) for each in found]


def lowest_cosine(model: Embedder, batches: Sequence[tuple[Rows, list[Floats]]]) -> float:
    """Return the lowest cosine between a model's outputs and those of the same texts."""
    return min(
        float((found * expected).sum(axis=1).min())
        for rows, outputs in batches
        for found, expected in zip(unit_rows(model, rows), outputs, strict=True)
    )


def check(
    folder: Path, dtype: str, batches: Sequence[tuple[Rows, list[Floats]]]
) -> tuple[bool, str]:
    """Return whether a model computes finite outputs in a precision, and a report."""
    try:
        model = Embedder.load(folder, device=DEVICE, dtype=dtype)
        cold = lowest_cosine(model, batches)
        model.warm()
        warm = lowest_cosine(model, batches)
    except Exception:
        *stack, error = traceback.format_exc().strip().splitlines()
        return False, "\n    ".join([f"FAILED: {error[:200]}", *stack[-_TRACEBACK_LINES:]])
    passes = model.graphs.as_json()
    report = (
        f"{model.dtype}, lowest cosine {cold:.6f}, after warm-up {warm:.6f}, {json.dumps(passes)}"
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
    exact = Embedder.load(folder, device="cpu", dtype="float32")
    rows = [random_rows(*batch) for batch in BATCHES]
    batches = [(each, unit_rows(exact, each)) for each in rows]
    passed = True
    for dtype in dtypes(name):
        start = time.perf_counter()
        ok, report = check(folder, dtype, batches)
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
