"""List often used models, and say which prompts the files of one lack."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from embedwell_models.config.json_config import JsonConfig
from embedwell_models.errors import ModelError
from embedwell_models.model_files.card import CARD

if TYPE_CHECKING:  # imported to measure, and to read the table
    from embedwell.cli.machine_speed import Estimate, MachineSpeed
    from embedwell_models.hub.known_models import KnownModel

_HEADINGS = ("model", "task", "parameters", "float32", "dimensions", "tokens", "licence", "prompts")
_ESTIMATED = ("~memory", "~passages/s", "~query")  # after the name and the task


def named(part: str) -> Mapping[str, "KnownModel"]:
    """Return the known models whose names contain a text, in any case of letters."""
    from embedwell_models.hub.known_models import known_models

    return {n: model for n, model in known_models().items() if part.lower() in n.lower()}


def table(part: str, speed: "MachineSpeed | None" = None) -> Iterator[str]:
    """Format the known models whose names contain a text, one line for each.

    speed: of this machine, for estimates.
    """
    headings = (*_HEADINGS[:2], *(_ESTIMATED if speed else ()), *_HEADINGS[2:])
    rows = [headings, *(_row(name, model, speed) for name, model in named(part).items())]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        yield "  ".join(cells).rstrip()


def as_json(part: str, speed: "MachineSpeed | None" = None) -> str:
    """Format the known models whose names contain a text as a JSON object, see `table`."""
    models = {name: asdict(model) for name, model in named(part).items()}
    if speed:
        for name, model in named(part).items():
            estimate = _estimate(model, speed)
            models[name]["estimate"] = estimate and {"dtype": speed.dtype, **asdict(estimate)}
    return json.dumps(models, indent=2, ensure_ascii=False)


def missing_prompts(name: str, folder: Path) -> str | None:
    """Return which prompts the authors of a repository publish that its files lack, if any."""
    from embedwell_models.hub.known_models import known_models  # few sources need it

    model = known_models().get(name)
    if model is None or not model.prompts or _has_prompts(folder / CARD):
        return None
    texts = ", ".join(f"{name} {json.dumps(text)}" for name, text in model.prompts.items())
    return (
        f"{name}: its authors publish prompts that its files lack ({texts}). "
        "EMBEDWELL_PROMPTS=published adds them for requests with an input_type"
    )


def _has_prompts(card: Path) -> bool:
    try:
        return bool(JsonConfig.optional(card).get("prompts", {}))
    except ModelError:  # which loading the model reports
        return True


def _row(name: str, model: "KnownModel", speed: "MachineSpeed | None") -> tuple[str, ...]:
    sizes = (_size(model.parameters, "M", "B"), _size(4 * model.parameters, "MB", "GB"))
    numbers = (model.dimensions, model.tokens)
    shown = ("" if number is None else f"{number:,}" for number in numbers)
    prompts = ", ".join(model.prompts or ())
    estimated = _estimated(model, speed) if speed else ()
    return (name, model.task, *estimated, *sizes, *shown, model.licence, prompts)


def _estimated(model: "KnownModel", speed: "MachineSpeed") -> tuple[str, ...]:
    if (values := _estimate(model, speed)) is None:
        return ("",) * len(_ESTIMATED)
    memory = " to ".join(_size(size, "MB", "GB") for size in values.memory_mb)
    return (memory, f"{values.passages_per_second:,g}", f"{values.query_ms:,g} ms")


def _estimate(model: "KnownModel", speed: "MachineSpeed") -> "Estimate | None":
    if model.matrices is None:
        return None
    return speed.estimate(model.matrices, model.parameters - model.matrices)


def _size(millions: float, unit: str, larger: str) -> str:
    return f"{millions:.3g} {unit}" if millions < 1000 else f"{millions / 1000:.3g} {larger}"
