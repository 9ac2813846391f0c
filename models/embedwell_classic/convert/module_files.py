"""New model folders in the format of sentence-transformers."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from embedwell_models.checkpoint.new_folder import new_folder
from embedwell_models.description.footprint import Footprint
from embedwell_models.description.model_description import ModelDescription
from embedwell_models.errors import ModelError

SENTENCE_TRANSFORMERS = "sentence_transformers.models."


def write_json(path: Path, value: Any) -> None:
    """Write a value as JSON; create the folder of the file if it is missing."""
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(value), encoding="utf-8")


def modules(*kinds: str) -> list[dict[str, Any]]:
    """Return the content of modules.json for these sentence-transformers modules, in order."""
    paths = ["", *(f"{number}_{kind}" for number, kind in enumerate(kinds[1:], 1))]
    return [
        {"idx": number, "name": str(number), "path": path, "type": SENTENCE_TRANSFORMERS + kind}
        for number, (kind, path) in enumerate(zip(kinds, paths, strict=True))
    ]


@contextmanager
def encoder_folder(source: Path, target: Path, problem: str) -> Iterator[Path]:
    """Yield an empty folder for an older encoder's config, weights and pooling, then complete it.

    problem: what is wrong with the source if its content is not as expected. After an error, no
    folder is left.

    Raises ModelError for such a source, and if `target` exists or cannot be written.
    """
    try:
        with new_folder(target) as scratch:
            yield scratch
            write_json(scratch / "modules.json", modules("Transformer", "Pooling"))
            Footprint.of(ModelDescription.read(scratch))  # raises ModelError for unknown tensors
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        raise ModelError(f"{source} {problem}: {error!r}") from None
    except OSError as error:
        raise ModelError(f"{source} cannot be converted to {target}: {error}") from None


def check_finite(source: Path, arrays: Mapping[str, Any]) -> None:
    """Raise ValueError for an array or tensor with NaN or infinity. source: the file."""
    for name, array in arrays.items():
        if not np.isfinite(np.asarray(array)).all():
            raise ValueError(f"{name} of {source.name} has NaN or infinity")
