"""Compare how fast this engine and others embed images, in turn in one run.

The model has the shape of CLIP ViT-B/32 and random weights. The images are JPEG files of 640 x 480
pixels. Each contestant decodes and resizes them itself.
"""

import argparse
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from benchmarks import machine, script
from benchmarks.script import spread, summary, table
from benchmarks.turns import Contest, Contestant, compare, numbers

_SIZES = (32, 1)  # images of a request
_IMAGES = 32
_PEERS = "images"  # their environment


def contestants() -> list[Contestant]:
    """Return all contestants, the reference first."""
    precisions = ("float32", "bfloat16", "int8")
    return [
        Contestant("sentence-transformers, float32", "sentence_transformers", "float32", _PEERS),
        Contestant("fastembed, float32", "fastembed", "float32", _PEERS),
        *(Contestant(f"this, {dtype}", "ours", dtype, None) for dtype in precisions),
    ]


def run(args: argparse.Namespace) -> dict[str, Any]:
    """Run the comparison; return the results for the file."""
    contest = Contest("images", write_model(args.home), draw_images(args.home, args.seed), _SIZES)
    entries = compare(contestants(), contest, args)
    vectors = [np.array(entry.outputs) for entry in entries]
    units = [each / np.linalg.norm(each, axis=1, keepdims=True) for each in vectors]
    return {
        "machine": machine.describe(),
        "threads": args.threads,
        "rounds": args.rounds,
        "engines": {
            entry.name: {
                **numbers(entry),
                "min_cosine": float(np.vecdot(unit, units[0]).min()),
            }
            for entry, unit in zip(entries, units, strict=True)
        },
    }


def write_model(home: Path) -> Path:
    """Save a CLIP of random weights, with a tokenizer of bytes; return the folder."""
    from transformers import CLIPConfig, CLIPImageProcessorPil, CLIPModel, CLIPTokenizer
    from transformers.convert_slow_tokenizer import bytes_to_unicode

    folder = home / "models" / "clip-vit-b-32"
    if (folder / "model.safetensors").exists():
        return folder
    folder.mkdir(parents=True, exist_ok=True)
    letters = [*bytes_to_unicode().values()]  # type: ignore[no-untyped-call]
    words = [*letters, *(f"{letter}</w>" for letter in letters)]
    words += [f"<{number}>" for number in range(49406 - len(words))]
    vocabulary = {word: i for i, word in enumerate([*words, "<|startoftext|>", "<|endoftext|>"])}
    CLIPTokenizer(vocab=vocabulary, merges=[]).save_pretrained(folder)
    CLIPImageProcessorPil().save_pretrained(folder)
    CLIPModel(CLIPConfig()).save_pretrained(folder)
    return folder


def draw_images(home: Path, seed: int) -> Path:
    """Draw blurred squares with noise, as JPEG; return their folder."""
    folder = home / "images" / str(seed)
    folder.mkdir(parents=True, exist_ok=True)
    random = np.random.default_rng(seed)
    for number in range(_IMAGES):
        small = random.integers(0, 256, (30, 40, 3), dtype=np.uint8)
        smooth = np.asarray(Image.fromarray(small).resize((640, 480), Image.Resampling.BICUBIC))
        noisy = smooth.astype(np.int16) + random.integers(-12, 13, smooth.shape)
        image = Image.fromarray(noisy.clip(0, 255).astype(np.uint8))
        image.save(folder / f"{number:02}.jpg", quality=88)
    return folder


def report(results: dict[str, Any]) -> str:
    """Return the numbers as a text table."""
    rows = []
    for name, engine in results["engines"].items():
        of_many, single = (engine["seconds"][str(size)] for size in _SIZES)
        rows.append(
            [
                name,
                spread(summary([_SIZES[0] / seconds for seconds in of_many]), 1),
                spread(summary(single), 1, 1000),
                f"{engine['start']:.1f}",
                f"{engine['peak']:.0f}",
                f"{engine['min_cosine']:.5f}",
            ]
        )
    header = ["", "images/s", "p50 of one, ms", "start, s", "peak, MB", "min cosine"]
    title = f"CLIP ViT-B/32, {results['threads']} threads, {results['rounds']} rounds"
    return "\n".join([machine.line(results["machine"]), table(title, header, rows)])


def main() -> None:
    script.main(script.parser(__doc__, "images"), run, report)


if __name__ == "__main__":
    main()
