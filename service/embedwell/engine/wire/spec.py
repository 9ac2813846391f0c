"""Start parameters of an engine, in a module without large imports for the starting process."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from embedwell_models.config.model_options import ModelOptions


@dataclass(frozen=True, slots=True)
class StartupChoices:
    """Choices and measurements of an engine at its start, reused when another replaces it.

    trials: how each tried precision compares with float32.
    rate: tokens per second of a full batch.
    fingerprint: that of the model, see TokenIdEmbedder.
    measured_at: seconds since 1970.
    """

    device: str
    dtype: str
    trials: list[dict[str, Any]]
    max_batch_tokens: int
    rate: float
    fingerprint: str
    measured_at: int
    image_dtype: str | None = None


@dataclass(frozen=True, slots=True)
class EngineSpec:
    """Start parameters of an engine process.

    model: name of the model in the log.
    accept_fd: the socket on which it receives connections from HTTP processes.
    counters_fd, counters_rows: the shared counters; the last row is the engine's.
    startup_cache: folder in which choices are kept for later starts; empty to keep none.
    startup_choices: those of the previous engine, if there was one.
    cpus: processors that the engine is bound to; empty if it may use all of the server's.
    """

    folder: str
    options: ModelOptions
    accept_fd: int
    counters_fd: int
    counters_rows: int
    model: str = "the model"
    startup_cache: str = ""
    startup_choices: StartupChoices | None = None
    cpus: Sequence[int] = ()

    @classmethod
    def from_fields(cls, fields: Mapping[str, Any]) -> "EngineSpec":
        """Return the spec whose fields have been JSON."""
        options, choices = ModelOptions(**fields["options"]), fields["startup_choices"]
        startup_choices = StartupChoices(**choices) if choices else None
        return cls(**{**fields, "options": options, "startup_choices": startup_choices})
