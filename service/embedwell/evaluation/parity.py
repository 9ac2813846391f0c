"""Parity of vectors with those of sentence-transformers."""

from collections.abc import Sequence
from dataclasses import dataclass

import click
import numpy as np

from embedwell_models.vectors import Floats

LEAST_COSINE = {"float32": 0.99999, "bfloat16": 0.999, "float16": 0.999, "int8": 0.995}
"""What each precision is expected to reach."""
_LEAST = 1e-12  # length; a vector of zeros has the cosine 0 with all others


@dataclass(frozen=True)
class Parity:
    """How far vectors are from those of a reference.

    largest_difference: of a component. largest_length_difference: of a vector, as a fraction of
    the reference's length; one that is not normalised shows only here. worst_text: the one with
    the least cosine.
    """

    num_texts: int
    least_cosine: float
    mean_cosine: float
    largest_difference: float
    largest_length_difference: float
    worst_text: str

    def problem(self, least_cosine: float) -> str | None:
        """What is wrong, if anything: a direction that differs by more, or else a length."""
        if not self.least_cosine >= least_cosine:  # true for NaN, too
            return f"the vectors differ; the most that of the text {self.worst_text!r}"
        # A cosine that is less than 1 by e comes with lengths that differ by the root of 2 e.
        if self.largest_length_difference > max(1e-3, float(np.sqrt(2 * (1 - least_cosine)))):
            return "the lengths differ: only one of the two divides its vectors by their length"
        return None


def compare(texts: Sequence[str], vectors: Floats, reference: Floats) -> Parity:
    """Compare the vectors of B texts with a reference: (B, D), (B, D).

    Raises ClickException if their dimensions differ.
    """
    if vectors.shape != reference.shape:
        raise click.ClickException(
            f"the vectors have {vectors.shape[1]} dimensions, those of the reference "
            f"{reference.shape[1]}: they are different models"
        )
    ours, theirs = vectors.astype(np.float64), reference.astype(np.float64)
    our_lengths, lengths = (
        np.maximum(np.linalg.norm(side, axis=1), _LEAST) for side in (ours, theirs)
    )
    cosines = np.vecdot(ours, theirs) / our_lengths / lengths
    return Parity(
        num_texts=len(texts),
        least_cosine=float(cosines.min()),
        mean_cosine=float(cosines.mean()),
        largest_difference=float(np.abs(ours - theirs).max()),
        largest_length_difference=float(np.abs(our_lengths / lengths - 1).max()),
        worst_text=texts[int(cosines.argmin())],
    )


def reference_vectors(model: str, texts: Sequence[str], prompt: str | None) -> Floats:
    """The vectors of B texts by sentence-transformers, in float32 on the CPU: (B, D).

    model: a folder. prompt: text before each of them, by default the model's.
    Raises ClickException if sentence-transformers cannot load the model.
    """
    from sentence_transformers import SentenceTransformer
    from transformers.utils import logging

    logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    try:
        reference = SentenceTransformer(model, device="cpu", local_files_only=True)
    except (OSError, ValueError, ImportError, RuntimeError) as error:
        raise click.ClickException(f"sentence-transformers cannot load {model}: {error}") from None
    vectors = reference.float().encode(list(texts), prompt=prompt, convert_to_numpy=True)
    return np.asarray(vectors, dtype=np.float32)
