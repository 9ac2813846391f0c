"""Read the files of tasks in the options of `evaluate tasks`."""

from pathlib import Path
from typing import Any

import click

from embedwell.tools.evaluation.analogies import read_analogies
from embedwell.tools.evaluation.labels import read_classification, read_clustering
from embedwell.tools.evaluation.pairs import read_similarity
from embedwell.tools.evaluation.retrieval import read_retrieval
from embedwell.tools.evaluation.scoring import Task


def read_tasks(flags: dict[str, Any]) -> list[Task]:
    """Remove the options of files from the flags, and return their tasks. Raises ClickException."""
    column, label, split = (flags.pop(name) for name in ("column", "label", "split"))

    def files(name: str) -> list[Path]:
        return list(flags.pop(name))

    tasks: list[Task] = [
        *map(read_similarity, files("sts")),
        *map(read_similarity, files("word_similarity")),
        *map(read_analogies, files("analogies")),
        *(read_clustering(path, column, label) for path in files("clustering")),
        *(read_classification(path, column, label) for path in files("classification")),
        *(read_retrieval(path, split) for path in files("retrieval")),
    ]
    if not tasks:
        raise click.UsageError("name at least one file, with --sts, --retrieval, … (see --help)")
    return tasks
