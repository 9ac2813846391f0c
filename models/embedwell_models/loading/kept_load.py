"""Keep what `Embedder.load` measured of a model that is loaded by its name."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from embedwell_models.cpu_backend.quantization import QUANTIZED, Magnitudes
from embedwell_models.encoder.threads import process_thread_count
from embedwell_models.precision.kept_measurements import KeptMeasurements, machine_and_files
from embedwell_models.precision.trials import Trial


@dataclass(frozen=True)
class KnownLoad:
    """Measurements of a load, see TokenIdEmbedder."""

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
            magnitudes = self.read_magnitudes() if fields["dtype"] in QUANTIZED else None
            known = KnownLoad(**fields, trials=trials, input_magnitudes=magnitudes)
        except (TypeError, KeyError):  # of another version's fields
            return None
        return None if known.dtype in QUANTIZED and magnitudes is None else known

    def write(self, load: KnownLoad) -> None:
        """Keep what this load measured."""
        if load.input_magnitudes is not None:
            self.write_magnitudes(load.input_magnitudes)
        fields = asdict(replace(load, input_magnitudes=None))
        del fields["input_magnitudes"]
        self.write_fields(fields)


def _conditions(model: Path, device: str, options: Sequence[str]) -> Iterator[str]:
    yield repr(("library", process_thread_count(), device, *options))
    yield from machine_and_files(model, device)
