"""ERNIE (Sun et al. 2020, arXiv 1907.12412): a BERT without task ids."""

from dataclasses import replace

from embedwell_models.config.checkpoint_spec import CheckpointSpec
from embedwell_models.config.json_config import JsonConfig
from embedwell_models.families import bert


def read(options: JsonConfig) -> CheckpointSpec:
    """Build the spec of an ERNIE."""
    options.require("use_task_id", False)
    return replace(bert.read(options), prefixes=("ernie.",))
