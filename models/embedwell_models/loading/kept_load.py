"""Keep what `Embedder.load` measured of a model that is loaded by its name."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Protocol

from embedwell_models.cpu_backend.quantization import Magnitudes
from embedwell_models.encoder.threads import process_thread_count
from embedwell_models.precision.kept_measurements import KeptMeasurements, machine_and_files
from embedwell_models.precision.trials import Trial


class Measured(Protocol):
    """A loaded model, with what its load measured; see TokenIdEmbedder."""

    @property
    def dtype(self) -> str: ...
    @property
    def trials(self) -> Sequence[Trial]: ...
    @property
    def fingerprint(self) -> str: ...
    @property
    def input_magnitudes(self) -> Magnitudes | None: ...


@dataclass(frozen=True)
class KnownLoad:
    """Measurements of an earlier load, see TokenIdEmbedder."""

    dtype: str
    trials: Sequence[Trial]
    fingerprint: str
    input_magnitudes: Magnitudes | None


class KeptLoad(KeptMeasurements):
    """Measurements of a load, which depend on the model, the options and the machine."""

    def __init__(self, folder: Path, model: Path, device: str, options: Sequence[str]) -> None:
        """folder: of the kept files. model: folder of the model. options: all that were chosen."""
        super().__init__(folder, _conditions(model, device, options))

    def read(self) -> KnownLoad | None:
        """Return what an earlier load measured; None if that is not kept."""
        try:
            fields = self.read_fields()
            if fields is None:
                return None
            trials = [Trial(**trial) for trial in fields.pop("trials")]
            magnitudes = self.read_magnitudes() if fields["dtype"] == "int8" else None
            known = KnownLoad(**fields, trials=trials, input_magnitudes=magnitudes)
        except (TypeError, KeyError):  # of another version's fields
            return None
        return None if known.dtype == "int8" and magnitudes is None else known

    def write(self, model: Measured) -> None:
        """Keep what this load measured."""
        trials = [asdict(trial) for trial in model.trials]
        if model.input_magnitudes is not None:
            self.write_magnitudes(model.input_magnitudes)
        fields = {"dtype": model.dtype, "trials": trials, "fingerprint": model.fingerprint}
        self.write_fields(fields)


def _conditions(model: Path, device: str, options: Sequence[str]) -> Iterator[str]:
    yield repr(("library", process_thread_count(), device, *options))
    yield from machine_and_files(model, device)
