"""Start parameters of an engine, in a module without large imports for the starting process."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class StartupChoices:
    """Choices and measurements of an engine at its start, reused when another replaces it.

    trials: how each tried precision compares with float32.
    rate: tokens per second of a full batch.
    fingerprint: that of the model, see embedwell_models.embedder.Embedder.
    measured_at: seconds since 1970.
    """

    device: str
    dtype: str
    trials: list[dict[str, Any]]
    max_batch_tokens: int
    rate: float
    fingerprint: str
    measured_at: int


@dataclass(frozen=True, slots=True)
class EngineSpec:
    """Start parameters of an engine process.

    model: name of the model in the log.
    isa: the highest instruction set to use.
    pooling, rerank_format: override those of the model's files, unless auto.
    adapter: the task of a model with adapters.
    cuda_graphs: whether CUDA graphs are recorded on a GPU.
    unicode_normalization: that of texts before tokenization, a part of the fingerprint.
    max_batch_tokens: 0 to let the engine choose.
    accept_fd: the socket on which it receives connections from HTTP processes.
    counters_fd, counters_rows: the shared counters; the last row is the engine's.
    startup_cache: folder in which choices are kept for later starts; empty to keep none.
    startup_choices: those of the previous engine, if there was one.
    cpus: processors that the engine is bound to; empty if it may use all of the server's.
    """

    folder: str
    device: str
    dtype: str
    isa: str
    pooling: str
    rerank_format: str
    adapter: str
    threads: int
    cuda_graphs: bool
    max_batch_tokens: int
    accept_fd: int
    counters_fd: int
    counters_rows: int
    model: str = "the model"
    unicode_normalization: str = "none"
    startup_cache: str = ""
    startup_choices: StartupChoices | None = None
    cpus: Sequence[int] = ()

    @classmethod
    def from_fields(cls, fields: Mapping[str, Any]) -> "EngineSpec":
        """Return the spec whose fields have been JSON."""
        choices = fields["startup_choices"]
        return cls(**{**fields, "startup_choices": StartupChoices(**choices) if choices else None})
