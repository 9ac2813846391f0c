"""List often used models, and say which prompts the files of one lack."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path

from embedwell.settings.settings import Settings
from embedwell_models.config.json_config import JsonConfig
from embedwell_models.errors import ModelError
from embedwell_models.hub.known_models import KnownModel, known_models
from embedwell_models.model_files.card import CARD

_HEADINGS = ("model", "task", "parameters", "float32", "dimensions", "tokens", "licence", "prompts")


def table(part: str) -> Iterator[str]:
    """Format the known models whose names contain a text, one line for each."""
    rows = [_HEADINGS, *(_row(name, model) for name, model in _named(part).items())]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        yield "  ".join(cells).rstrip()


def as_json(part: str) -> str:
    """Format the known models whose names contain a text as a JSON object."""
    models = {name: asdict(model) for name, model in _named(part).items()}
    return json.dumps(models, indent=2, ensure_ascii=False)


def prompts_hint(settings: Settings, folder: Path) -> str | None:
    """Return a hint if the authors of a model publish prompts that its files lack, else None."""
    if settings.prompts or "/" not in settings.model or Path(settings.model).exists():
        return None
    model = known_models().get(settings.model)
    if model is None or not model.prompts or _has_prompts(folder / CARD):
        return None
    texts = ", ".join(f"{name} {json.dumps(text)}" for name, text in model.prompts.items())
    return (
        f"{settings.model}: its authors publish prompts that its files lack ({texts}). "
        "EMBEDWELL_PROMPTS=published adds them for requests with an input_type"
    )


def _has_prompts(card: Path) -> bool:
    try:
        return bool(JsonConfig.optional(card).get("prompts", {}))
    except ModelError:  # which loading the model reports
        return True


def _named(part: str) -> Mapping[str, KnownModel]:
    return {n: model for n, model in known_models().items() if part.lower() in n.lower()}


def _row(name: str, model: KnownModel) -> tuple[str, ...]:
    sizes = (_size(model.parameters, "M", "B"), _size(4 * model.parameters, "MB", "GB"))
    numbers = (model.dimensions, model.tokens)
    shown = ("" if number is None else f"{number:,}" for number in numbers)
    prompts = ", ".join(model.prompts or ())
    return (name, model.task, *sizes, *shown, model.licence, prompts)


def _size(millions: float, unit: str, larger: str) -> str:
    return f"{millions:.3g} {unit}" if millions < 1000 else f"{millions / 1000:.3g} {larger}"
