"""ERNIE (Sun et al. 2020, arXiv 1907.12412): BERT's names, where it knows no tasks."""

from dataclasses import replace

from models.config.blueprint import Blueprint
from models.config.json_config import JsonConfig
from models.families import bert


def read(raw: JsonConfig) -> Blueprint:
    """The blueprint of an ERNIE."""
    raw.only("use_task_id", False)
    return replace(bert.read(raw), prefixes=("ernie.",))
