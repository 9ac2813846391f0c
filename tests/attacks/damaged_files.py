"""Damages the files of a model folder at random, and loads what results.

`python -m tests.attacks.damaged_files FOLDER SEED FIRST LAST` loads the damaged copies of these
numbers one after another, and prints a line of JSON for each. A number and the seed determine the
damage.
"""

import contextlib
import json
import logging
import os
import random
import resource
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from embedwell_models import errors
from embedwell_models.embedder import Embedder
from embedwell_models.hub import sources
from embedwell_models.tokenizer.rust_tokenizer import TokenizerPanicError

TEXTS = ["the license", "a copyright of this work, by any", "x", "schöne 日本 w5", ""]
EXPECTED = (  # the errors that a caller is told of
    *(errors.ModelError, errors.EmptyTextError, errors.UnsplittableTextError),
    TokenizerPanicError,
)
MOST_SECONDS = 60
MOST_BYTES = 3 << 30  # of addresses, beyond those of a process that has loaded the whole model

VALUES: list[Any] = [
    *(None, True, False, -1, 0, 1, 2, 3, 1 << 20, 1 << 31, 1 << 63, 1 << 200),
    *(0.5, -0.5, 1e-45, 1e38, 1e308, float("nan"), float("inf"), -float("inf")),
    *("", "x", "\0", "../..", "/dev/zero", "x" * 5000, "\ud800"),
    *([], [[]], [0], ["x"], [None], {}, {"x": {}}, {"": None}),
]
NUMBERS = [np.nan, np.inf, -np.inf, 3e38, -3e38, 1e30, 1e-45, 0.0]

Damage = Callable[[random.Random, Path], str]
"""Function that damages a file; returns what it has done."""


def damage(dice: random.Random, folder: Path) -> str:
    """Damage one file, or a few; return what was done."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    done = []
    for _ in range(dice.choice((1, 1, 1, 2, 3))):
        path = dice.choice(files)
        if path.is_file() and not path.is_symlink():
            how = dice.choice(_damages(path))
            done.append(f"{path.relative_to(folder)}: {how(dice, path)}")
    return "; ".join(done)


def _damages(path: Path) -> list[Damage]:
    any_file: list[Damage] = [_cut, _flip, _insert, _replaced]
    if path.suffix == ".json":
        return [_value] * 12 + any_file
    return [_numbers] * 3 + [_header] * 6 + any_file


def _value(dice: random.Random, path: Path) -> str:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except ValueError:
        return _flip(dice, path)
    places = [*_places(content, ())]
    if not places:
        return _flip(dice, path)
    *parents, key = dice.choice(places)
    owner = content
    for parent in parents:
        owner = owner[parent]
    if dice.random() < 0.15:
        owner.pop(key)
        done = f"without {parents} {key}"
    else:
        owner[key] = value = dice.choice(VALUES)
        done = f"{parents} {key} = {str(value)[:40]!r}"
    path.write_text(json.dumps(content), encoding="utf-8")
    return done


def _places(content: Any, above: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
    """Yield the keys that lead to each value; of a long list or vocabulary, those of a few."""
    if isinstance(content, dict):
        keys: list[Any] = [*content]
    else:
        keys = [*range(len(content))] if isinstance(content, list) else []
    for key in keys if len(keys) < 40 else [*keys[:3], *keys[-3:]]:
        yield (*above, key)
        yield from _places(content[key], (*above, key))


def _cut(dice: random.Random, path: Path) -> str:
    size = dice.randrange(path.stat().st_size + 1)
    os.truncate(path, size)
    return f"cut to {size} bytes"


def _flip(dice: random.Random, path: Path) -> str:
    return _changed(dice, path, path.stat().st_size)


def _header(dice: random.Random, path: Path) -> str:
    return _changed(dice, path, dice.choice((64, 1024, 8192)))


def _changed(dice: random.Random, path: Path, size: int) -> str:
    content = bytearray(path.read_bytes())
    for _ in range(dice.choice((1, 1, 2, 8)) if content else 0):
        at = dice.randrange(min(size, len(content)))
        content[at] = dice.choice((0, 1, 127, 128, 255, content[at] ^ 1 << dice.randrange(8)))
    path.write_bytes(content)
    return f"changed bytes of the first {size}"


def _insert(dice: random.Random, path: Path) -> str:
    content = path.read_bytes()
    at, size = dice.randrange(len(content) + 1), dice.choice((1, 3, 32, 1000))
    path.write_bytes(content[:at] + dice.randbytes(size) + content[at:])
    return f"{size} bytes inserted at {at}"


def _numbers(dice: random.Random, path: Path) -> str:
    """Overwrite some numbers of the weights, wherever they are."""
    content = bytearray(path.read_bytes())
    value = np.float32(dice.choice(NUMBERS))
    for _ in range(dice.choice((1, 10, 1000)) if len(content) > 8 else 0):
        at = dice.randrange(len(content) // 2, len(content) - 4) // 4 * 4
        content[at : at + 4] = value.tobytes()
    path.write_bytes(content)
    return f"numbers of {value}"


def _replaced(dice: random.Random, path: Path) -> str:
    """Replace the file by something that is not one."""
    path.unlink()
    kind = dice.choice(("nothing", "folder", "loop", "device", "unreadable device", "pipe", "self"))
    if kind == "folder":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind != "nothing":
        targets = {"loop": str(path), "device": "/dev/zero", "self": "/proc/self/mem"}
        path.symlink_to(targets.get(kind, "/dev/tty"))
    return f"replaced by: {kind}"


def outcome(folder: Path, cache: Path) -> str:
    """Load a folder, or its only file, and embed texts; "" for finite vectors or our errors."""
    gguf = folder / "model.gguf"
    try:
        resolved = sources.resolve(str(gguf if gguf.exists() else folder), cache=cache)
        embedder = Embedder.load(resolved, device="cpu", dtype="float32")
        vectors = [embedder.embed([text])[0] for text in TEXTS]
        return "" if np.isfinite(vectors).all() else "vectors that are not finite"
    except EXPECTED as error:
        return "" if str(error) else f"{type(error).__name__} without a message"
    except BaseException as error:  # the outcome of a case, not of the run
        return f"{type(error).__name__}: {str(error)[:300]}"


def main(folder: Path, seed: str, first: int, last: int) -> None:
    """Load the damaged copies of a folder with these numbers, and print their outcomes."""
    logging.disable()
    with tempfile.TemporaryDirectory() as name:
        scratch = Path(name)
        assert outcome(folder, scratch / "cache") == "", "the whole model is not served"
        _limit_memory()
        for number in range(first, last):
            copy = scratch / f"{folder.name}-{number}"
            shutil.copytree(folder, copy)
            dice = random.Random(f"{folder.name} {seed} {number}")
            record = {"number": number, "damage": damage(dice, copy)}
            sys.stdout.write(json.dumps(record) + "\n")
            sys.stdout.flush()
            signal.alarm(MOST_SECONDS)
            record["outcome"] = outcome(copy, scratch / "cache")
            signal.alarm(0)
            sys.stdout.write(json.dumps(record) + "\n")
            shutil.rmtree(copy)


def _limit_memory() -> None:
    with contextlib.suppress(OSError):
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
        limit = pages * resource.getpagesize() + MOST_BYTES
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
