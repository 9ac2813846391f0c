"""Keep what the start of an engine measured, for the next start of the same model."""

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

from embedwell import __version__
from embedwell.engine.wire.spec import EngineSpec, StartupChoices
from embedwell.engine.worker.cpus import available_cpus
from embedwell_models.precision.kept_measurements import KeptMeasurements, machine_and_files


class StartupCache(KeptMeasurements):
    """Choices of an engine, which depend on the model, its settings and the machine."""

    def __init__(self, spec: EngineSpec) -> None:
        """spec: start parameters; without a startup_cache, nothing is kept."""
        folder = Path(spec.startup_cache) if spec.startup_cache else None
        super().__init__(folder, _conditions(spec))

    def read(self) -> StartupChoices | None:
        """Return the choices of an earlier start; None if there are none."""
        try:
            fields = self.read_fields()
            return StartupChoices(**fields) if fields else None
        except TypeError:  # of another version's fields
            return None

    def write(self, choices: StartupChoices) -> None:
        """Keep the choices of this start."""
        self.write_fields(asdict(choices))


def _conditions(spec: EngineSpec) -> Iterator[str]:
    yield from (__version__, str(spec.threads or available_cpus()))
    yield repr((spec.device, spec.dtype, spec.isa, spec.pooling, spec.rerank_format, spec.adapter))
    yield repr((spec.cuda_graphs, spec.max_batch_tokens))
    yield from machine_and_files(Path(spec.folder), spec.device)
