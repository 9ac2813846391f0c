"""Run tasks of MTEB with its own package, on vectors of any source.

Muennighoff et al., "MTEB: Massive Text Embedding Benchmark", EACL 2023.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import click
import mteb
from mteb.abstasks import AbsTask
from mteb.models.abs_encoder import AbsEncoder
from mteb.models.model_meta import ModelMeta, ScoringFunction
from mteb.types import PromptType

from embedwell.routes.common.response_body import OutputType
from embedwell_lab.evaluation.scoring import Embed, Result, Variant, variants
from embedwell_models.read.prompts import Role
from embedwell_models.vectors import Floats

_ROLES: dict[PromptType, Role] = {PromptType.query: "query", PromptType.document: "document"}


class Encoder(AbsEncoder):
    """Adapts a source of vectors to MTEB's encoders, whose vectors are compared by cosine."""

    def __init__(self, embed: Embed, variant: Variant) -> None:
        """Store a function that embeds, and the variant of its vectors to score."""
        meta = {"name": "embedwell/model", "similarity_fn_name": ScoringFunction.COSINE}
        self.mteb_model_meta = ModelMeta.create_empty({**meta, "revision": "none"})
        self._embed, self._variant = embed, variant

    def encode(
        self, inputs: Any, *, prompt_type: PromptType | None = None, **_options: Any
    ) -> Floats:
        """Embed a DataLoader of batches with B texts in all: (B, D)."""
        texts = [text for batch in inputs for text in batch["text"]]
        vectors = self._embed(texts, _ROLES[prompt_type] if prompt_type else None)
        return self._variant.apply(vectors)


def find_tasks(names: Sequence[str]) -> list[AbsTask]:
    """Return the tasks of these names, each of a task or a benchmark. Raises ClickException."""
    tasks = {task.metadata.name: task for name in names for task in _tasks_of(name)}
    for task in tasks.values():
        if task.metadata.modalities != ["text"]:
            raise click.ClickException(
                f"{task.metadata.name} has inputs other than texts; choose a task of texts only"
            )
    return list(tasks.values())


def score(
    tasks: Sequence[AbsTask],
    embed: Embed,
    precision: str,
    dimensions: Sequence[int],
    output_types: Sequence[OutputType],
) -> Iterator[Result]:
    """Return the main score of each task with each variant of the vectors.

    Raises ClickException for a data set that cannot be read, or too many dimensions.
    """
    dim = embed(["How many dimensions has a vector?"], None).shape[1]
    for task in tasks:
        _load(task)
        for variant in variants(dim, dimensions, output_types):
            encoder: Any = Encoder(embed, variant)  # mteb's protocol requires another constructor
            results = mteb.evaluate(
                encoder, task, cache=None, co2_tracker=False, show_progress_bar=False
            )
            scores = {task.metadata.main_score: 100 * float(results[0].get_score())}
            yield Result(task.metadata.name, precision, variant, scores)


def _load(task: AbsTask) -> None:
    try:
        task.load_data()
    except (OSError, ValueError) as error:
        path = task.metadata.dataset["path"]
        raise click.ClickException(
            f"{task.metadata.name}: its data set cannot be read ({error}). Check the "
            f"connection to Hugging Face, or put the data set into the folder {path} of the "
            "current folder"
        ) from None


def _tasks_of(name: str) -> list[AbsTask]:
    try:
        return list(mteb.get_benchmark(name).tasks)
    except KeyError as no_benchmark:
        try:
            return [mteb.get_task(name)]
        except KeyError as no_task:
            hint = f"{no_task.args[0]}".removeprefix("KeyError: ")
            raise click.ClickException(
                f"MTEB has no task or benchmark with this name. Task: {hint} Benchmark: "
                f"{no_benchmark.args[0]}"
            ) from None
