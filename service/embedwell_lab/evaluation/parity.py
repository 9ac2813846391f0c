"""Compare vectors with those of sentence-transformers."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import click
import numpy as np

from embedwell_models.vectors import Floats

_MIN_LENGTH = 1e-12  # a vector of zeros has the cosine 0 with all others


@dataclass(frozen=True)
class Parity:
    """Differences between vectors and those of a reference.

    largest_difference: largest difference of a component.
    largest_length_difference: largest difference of a length, as a fraction of the reference's
        length. It shows whether only one of the two is normalised.
    worst_text: the text with the lowest cosine.
    """

    num_texts: int
    least_cosine: float
    mean_cosine: float
    largest_difference: float
    largest_length_difference: float
    worst_text: str

    def problem(self, least_cosine: float) -> str | None:
        """Describe what is wrong: too low a cosine, or else another length; None if nothing."""
        if not self.least_cosine >= least_cosine:  # also true for NaN
            return f"the vectors differ, most for the text {self.worst_text!r}"
        # If a cosine is 1 - e, lengths differ by the root of 2 e.
        if not self.largest_length_difference <= max(1e-3, float(np.sqrt(2 * (1 - least_cosine)))):
            return "the vectors' lengths differ: only one of the two normalises its vectors"
        return None


def compare(texts: Sequence[str], vectors: Floats, reference: Floats) -> Parity:
    """Compare the vectors of B texts with those of a reference: (B, D), (B, D).

    Raises ClickException if their dimensions differ.
    """
    if vectors.shape != reference.shape:
        raise click.ClickException(
            f"the vectors have {vectors.shape[1]} dimensions, but the reference has "
            f"{reference.shape[1]}; choose the same model as the reference"
        )
    ours, theirs = vectors.astype(np.float64), reference.astype(np.float64)
    our_lengths, lengths = (
        np.maximum(np.linalg.norm(side, axis=1), _MIN_LENGTH) for side in (ours, theirs)
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


def parity_lines(parity: Parity, model: str, precision: str, least_cosine: float) -> Iterator[str]:
    """Format parity as lines of a table."""
    yield f"model                {model}, {precision}"
    yield f"texts                {parity.num_texts:,}"
    yield f"least cosine         {parity.least_cosine:.8f} (wanted: {least_cosine})"
    yield f"mean cosine          {parity.mean_cosine:.8f}"
    yield f"largest difference   {parity.largest_difference:.1e} of a component"
    yield f"                     {parity.largest_length_difference:.1e} of the length"


def reference_vectors(model: str, texts: Sequence[str], prompt: str | None) -> Floats:
    """Compute the vectors of B texts with sentence-transformers, in float32 on the CPU: (B, D).

    Raises ClickException if sentence-transformers cannot load the model.

    model: folder of the model.
    prompt: text before each text. Default: the model's prompt.
    """
    from sentence_transformers import SentenceTransformer
    from transformers.utils import logging

    logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    try:
        reference = SentenceTransformer(model, device="cpu", local_files_only=True)
    except (OSError, ValueError, ImportError, RuntimeError) as error:
        raise click.ClickException(f"sentence-transformers cannot load {model}: {error}") from None
    vectors = reference.float().encode(
        list(texts), prompt=prompt, convert_to_numpy=True, show_progress_bar=False
    )
    return np.asarray(vectors, dtype=np.float32)
