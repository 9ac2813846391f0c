"""Compare how fast this engine and others embed images, in turn in one run.

The model has the shape of CLIP ViT-B/32 and random weights. The images are JPEG files of 640 x 480
pixels. Each contestant decodes and resizes them itself.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import numpy as np
from PIL import Image

from benchmarks import environments, machine, script
from benchmarks.environments import OFFLINE, ROOT, Unavailable, threads
from benchmarks.script import spread, summary, table

_SIZES = (32, 1)  # images of a request
_IMAGES = 32
_PAUSE = 0.1  # seconds until the threads of the previous worker stop spinning
_ENVIRONMENT = "images"  # of the peers


@dataclass
class Contestant:
    """A compared engine and its measurements. rounds: by the images of a request."""

    name: str
    engine: str
    dtype: str
    rounds: dict[int, list[float]] = field(default_factory=dict)
    start: float = 0.0
    peak: float = 0.0  # MB
    vectors: Any = None


def contestants() -> list[Contestant]:
    """Return all contestants, the reference first."""
    return [
        Contestant("sentence-transformers, float32", "sentence_transformers", "float32"),
        Contestant("fastembed, float32", "fastembed", "float32"),
        *(Contestant(f"this, {dtype}", "ours", dtype) for dtype in ("float32", "bfloat16", "int8")),
    ]


class Worker:
    """A contestant in a process and a session of its own."""

    def __init__(
        self, entry: Contestant, args: argparse.Namespace, folders: tuple[Path, Path], log: IO[str]
    ) -> None:
        """Start the process; raises Unavailable if it cannot. folders: of the model, the images."""
        ours = entry.engine == "ours"
        python = sys.executable if ours else environments.python(args.home, _ENVIRONMENT)
        model, images = map(str, folders)
        options = entry.engine, model, str(args.threads), entry.dtype, images
        self._process = subprocess.Popen(
            [python, "-m", "benchmarks.peers.images", *options],
            cwd=ROOT,
            env=os.environ | OFFLINE | threads(args.threads),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            start_new_session=True,
        )
        self.first = self._answer()

    def run(self, size: int) -> dict[str, Any]:
        """Embed all images in requests of a size."""
        assert self._process.stdin
        print(size, file=self._process.stdin, flush=True)
        return self._answer()

    def stop(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.wait()

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout
        line = self._process.stdout.readline()
        if not line:
            self.stop()
            raise Unavailable("it died; see images.log")
        answer: dict[str, Any] = json.loads(line)
        return answer


def run(args: argparse.Namespace) -> dict[str, Any]:
    """Run the comparison; return the results for the file."""
    folders = write_model(args.home), draw_images(args.home, args.seed)
    chosen = contestants()
    names = script.choose([each.name for each in chosen], args.only)
    with ExitStack() as stack:
        log = stack.enter_context((args.home / "images.log").open("w"))
        entries = _start([each for each in chosen if each.name in names], args, folders, log, stack)
        for _ in range(args.rounds):
            for size in _SIZES:
                for entry, worker in entries:
                    time.sleep(_PAUSE)
                    answer = worker.run(size)
                    seconds = statistics.median(answer["seconds"])
                    entry.rounds.setdefault(size, []).append(seconds)
                    entry.peak = answer["peak"]
    reference = entries[0][0].vectors
    return {
        "machine": machine.describe(),
        "threads": args.threads,
        "rounds": args.rounds,
        "engines": {entry.name: _numbers(entry, reference) for entry, _ in entries},
    }


def _start(
    chosen: list[Contestant],
    args: argparse.Namespace,
    folders: tuple[Path, Path],
    log: IO[str],
    stack: ExitStack,
) -> list[tuple[Contestant, Worker]]:
    entries = []
    for entry in chosen:
        try:
            worker = Worker(entry, args, folders, log)
        except Unavailable as reason:
            print(f"skipped: {entry.name}: {reason}", file=sys.stderr)
            continue
        stack.callback(worker.stop)
        vectors = np.array(worker.first["vectors"])
        entry.vectors = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
        entry.start = worker.first["start"]
        entries.append((entry, worker))
    return entries


def _numbers(entry: Contestant, reference: Any) -> dict[str, Any]:
    return {
        "seconds": {str(size): seconds for size, seconds in entry.rounds.items()},
        "start": entry.start,
        "peak": entry.peak,
        "min_cosine": float(np.vecdot(entry.vectors, reference).min()),
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
