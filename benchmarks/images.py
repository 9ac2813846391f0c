"""Compare how fast this engine and others embed images, in turn in one run.

The models have the shapes of published ones and random weights. The images are JPEG files of 640 x
480 pixels. Each contestant decodes and resizes them itself, without a server; what that takes
without an encoder is measured, too.
"""

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from benchmarks import machine, script
from benchmarks.image_models import SHAPES, folder
from benchmarks.script import spread, summary, table
from benchmarks.turns import Contest, Contestant, compare, numbers

_PEERS, _TORCHVISION, _INFINITY = "images", "images-torchvision", "infinity"  # environments
_PIXELS = "_pixels"  # how the engines end that only prepare images
_OWN_WEIGHTS = "open_clip"


def contestants(model: str) -> list[Contestant]:
    """Return all contestants for a model, the reference first."""
    on_torch = _TORCHVISION if model == "qwen3-vl" else _PEERS
    float32 = [
        ("sentence-transformers", "sentence_transformers", on_torch, {*SHAPES}),
        ("OpenCLIP", _OWN_WEIGHTS, _TORCHVISION, {"clip", "siglip"}),
        ("Infinity", "infinity", _INFINITY, {"clip", "siglip"}),
        ("fastembed", "fastembed", _PEERS, {"clip"}),
        ("ONNX Runtime", "onnxruntime", _PEERS, {"siglip"}),
        ("pixels alone, transformers", f"transformers{_PIXELS}", on_torch, {*SHAPES}),
        ("pixels alone, OpenCLIP", f"open_clip{_PIXELS}", _TORCHVISION, {"clip", "siglip"}),
        ("pixels alone, fastembed", f"fastembed{_PIXELS}", _PEERS, {"clip"}),
        ("pixels alone, this", f"ours{_PIXELS}", None, {*SHAPES}),
    ]
    chosen = [
        Contestant(name if name.startswith("pixels") else f"{name}, float32", engine, "float32", at)
        for name, engine, at, models in float32
        if model in models
    ]
    half = ("sentence-transformers, bfloat16", "sentence_transformers", "bfloat16", on_torch)
    precisions = ("float32", "bfloat16", "int8")
    return [
        chosen[0],
        Contestant(*half),
        *chosen[1:],
        *(Contestant(f"this, {dtype}", "ours", dtype, None) for dtype in precisions),
    ]


def run(args: argparse.Namespace) -> dict[str, Any]:
    """Run the comparison; return the results for the file."""
    sizes = SHAPES[args.model].sizes
    images = draw_images(args.home, args.seed, sizes[0])
    contest = Contest("images", folder(args.home, args.model), images, sizes)
    entries = compare(contestants(args.model), contest, args)
    return {
        "machine": machine.describe(),
        "model": args.model,
        "threads": args.threads,
        "rounds": args.rounds,
        "engines": {
            entry.name: {**numbers(entry), "min_cosine": _least_cosine(entry, entries[0])}
            for entry in entries
        },
    }


def _least_cosine(entry: Contestant, reference: Contestant) -> float | None:
    """Return the least cosine of an image's vectors; None for those of other weights."""
    if entry.engine == _OWN_WEIGHTS or any(
        each.engine.endswith(_PIXELS) for each in (entry, reference)
    ):
        return None
    vectors = [np.array(each.outputs) for each in (entry, reference)]
    one, other = (each / np.linalg.norm(each, axis=1, keepdims=True) for each in vectors)
    return float(np.vecdot(one, other).min())


def draw_images(home: Path, seed: int, count: int) -> Path:
    """Draw blurred squares with noise, as JPEG; return their folder."""
    target = home / "images" / f"{seed}-{count}"
    target.mkdir(parents=True, exist_ok=True)
    random = np.random.default_rng(seed)
    for number in range(count):
        small = random.integers(0, 256, (30, 40, 3), dtype=np.uint8)
        smooth = np.asarray(Image.fromarray(small).resize((640, 480), Image.Resampling.BICUBIC))
        noisy = smooth.astype(np.int16) + random.integers(-12, 13, smooth.shape)
        image = Image.fromarray(noisy.clip(0, 255).astype(np.uint8))
        image.save(target / f"{number:02}.jpg", quality=88)
    return target


def report(results: Mapping[str, Any]) -> str:
    """Return the numbers as a text table."""
    shape = SHAPES[results["model"]]
    rows = []
    for name, engine in results["engines"].items():
        of_many, single = (engine["seconds"][str(size)] for size in shape.sizes)
        cosine = engine["min_cosine"]
        rows.append(
            [
                name,
                spread(summary([shape.sizes[0] / seconds for seconds in of_many]), 2),
                spread(summary(single), 1, 1000),
                f"{engine['start']:.1f}",
                f"{engine['peak']:.0f}",
                "" if cosine is None else f"{cosine:.5f}",
            ]
        )
    header = ["", "images/s", "p50 of one, ms", "start, s", "peak, MB", "min cosine"]
    title = f"{shape.title}, {results['threads']} threads, {results['rounds']} rounds"
    return "\n".join([machine.line(results["machine"]), table(title, header, rows)])


def main() -> None:
    script.main(script.parser(__doc__, "images", [*SHAPES]), run, report)


if __name__ == "__main__":
    main()
