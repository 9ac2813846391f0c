"""Keep what loading a model measured, for the next load of the same model.

The trials of `auto`, the calibration of int8 and the checksums of the weights take most of the time
of a load, and stay the same on a machine.
"""

import contextlib
import hashlib
import json
import logging
import os
import platform
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import safetensors.numpy

from embedwell_models.config.model_options import ModelOptions
from embedwell_models.cpu_backend import library
from embedwell_models.cpu_backend.quantization import QUANTIZED, Magnitudes
from embedwell_models.encoder.device import may_be_gpu, torch_is_installed
from embedwell_models.encoder.threads import process_thread_count
from embedwell_models.precision.trials import Trial

log = logging.getLogger(__name__)

_CPU_INFO = Path("/proc/cpuinfo")
_NUMBERS, _MAGNITUDES = ".json", ".safetensors"  # suffixes of the files
MAX_FILES = 512
"""Most files of a cache folder; the oldest are deleted, such as those of folders that are gone."""


class MeasurementCache:
    """Small files for each combination of a model, its options, and the machine.

    They are measurements as JSON, and the magnitudes of inputs for int8, each after a line with its
    checksum. A file that is damaged or cannot be read or written is ignored, because the next load
    can measure again.
    """

    def __init__(self, folder: Path | None, conditions: Iterable[str]) -> None:
        """folder: of the files; None to keep nothing. conditions: all that must stay the same."""
        self._path: Path | None = None
        if folder is not None:
            with contextlib.suppress(OSError):  # such as a file that has just been deleted
                digest = _digest("\n".join(conditions).encode()).decode()
                self._path = folder / digest[:32]

    def read_fields(self) -> dict[str, Any] | None:
        """Return the measurements of an earlier load; None if there are none."""
        try:
            fields: dict[str, Any] = json.loads(self._content(_NUMBERS))
        except (OSError, ValueError):
            return None
        return fields

    def write_fields(self, fields: Mapping[str, Any]) -> None:
        """Keep the measurements of this load."""
        self._keep(_NUMBERS, json.dumps(fields).encode())

    def read_magnitudes(self) -> Magnitudes | None:
        """Return what int8 was calibrated with at an earlier load; None if that is not kept."""
        try:
            magnitudes: Magnitudes = safetensors.numpy.load(self._content(_MAGNITUDES))
        except (OSError, ValueError):
            return None
        return magnitudes

    def write_magnitudes(self, magnitudes: Magnitudes) -> None:
        """Keep what int8 was calibrated with."""
        self._keep(_MAGNITUDES, safetensors.numpy.save({**magnitudes}))

    def _content(self, suffix: str) -> bytes:
        """Return what a file keeps; raises OSError or ValueError if there is none, or a damage."""
        if self._path is None:
            raise FileNotFoundError
        path = self._path.with_suffix(suffix)
        checksum, _, content = path.read_bytes().partition(b"\n")
        if checksum != _digest(content):
            raise ValueError(suffix)
        with contextlib.suppress(OSError):  # in a folder that only another user may write to
            os.utime(path)  # what is used is not the oldest, see MAX_FILES
        return content

    def _keep(self, suffix: str, content: bytes) -> None:
        if self._path is None:
            return
        import tempfile  # only at a first load

        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile(dir=self._path.parent, delete=False) as file:
                file.write(_digest(content) + b"\n" + content)
            os.replace(file.name, self._path.with_suffix(suffix))
            _delete_oldest(self._path.parent)
        except OSError as error:
            log.debug("the measurements of this load are not kept: %s", error)


@dataclass(frozen=True)
class LoadMeasurements:
    """Measurements of a load, see TokenIdEmbedder."""

    dtype: str
    trials: Sequence[Trial]
    fingerprint: str
    input_magnitudes: Magnitudes | None
    image_dtype: str | None = None


class LoadCache(MeasurementCache):
    """Measurements of a load, which depend on the model, the options and the machine."""

    def __init__(self, folder: Path, model: Path, options: ModelOptions) -> None:
        """folder: folder of the cache. model: folder of the model."""
        super().__init__(folder, _load_conditions(model, options))

    def read(self) -> LoadMeasurements | None:
        """Return what an earlier load measured; None if that is not kept."""
        try:
            fields = self.read_fields()
            if fields is None:
                return None
            trials = [Trial(**trial) for trial in fields.pop("trials")]
            magnitudes = self.read_magnitudes() if fields["dtype"] in QUANTIZED else None
            known = LoadMeasurements(**fields, trials=trials, input_magnitudes=magnitudes)
        except (TypeError, KeyError):  # of another version's fields
            return None
        return None if known.dtype in QUANTIZED and magnitudes is None else known

    def write(self, load: LoadMeasurements) -> None:
        """Keep what this load measured."""
        if load.input_magnitudes is not None:
            self.write_magnitudes(load.input_magnitudes)
        fields = asdict(replace(load, input_magnitudes=None))
        del fields["input_magnitudes"]
        self.write_fields(fields)


def machine_and_files(model: Path, device: str) -> Iterator[str]:
    """Yield what describes the machine, the files of a model and the code that measures it.

    Raises OSError if a file has gone.
    """
    yield from _processors(device)
    code = [
        *library.FOLDER.glob("*.so"),
        *Path(__file__).parent.glob("*.py"),
        *_torch_version_file(),
    ]
    for path in [*sorted(model.rglob("*")), *sorted(code)]:
        stat = path.stat()
        yield f"{path} {stat.st_size} {stat.st_mtime_ns} {stat.st_ino}"


def _load_conditions(model: Path, options: ModelOptions) -> Iterator[str]:
    # A process may be limited to an older instruction set than its processor has.
    yield repr(("library", process_thread_count(), options, sorted(library.features())))
    yield from machine_and_files(model, options.device)


def _delete_oldest(folder: Path) -> None:
    """Delete the oldest files above MAX_FILES; raises OSError."""
    paths = [*folder.iterdir()]
    if len(paths) > MAX_FILES:
        paths.sort(key=lambda path: path.stat().st_mtime_ns)
        for path in paths[:-MAX_FILES]:
            path.unlink(missing_ok=True)  # another process may delete it, too


def _digest(content: bytes) -> bytes:
    return hashlib.sha256(content).hexdigest().encode()


def _processors(device: str) -> Iterator[str]:
    yield platform.machine()  # `processor` would run a program
    if _CPU_INFO.exists():
        lines = _CPU_INFO.read_text(encoding="utf-8").splitlines()
        yield from (line for line in lines if line.startswith(("model name", "flags", "Features")))
    if may_be_gpu(device) and torch_is_installed():
        from embedwell_models.torch_backend.device import gpu_kind

        yield gpu_kind(device)


def _torch_version_file() -> Sequence[Path]:
    """Return the file that states torch's version, if torch is installed."""
    if not torch_is_installed():
        return []
    # The metadata of its package states the version, too, but takes a tenth of an engine's start.
    package = find_spec("torch")
    return [Path(package.origin).with_name("version.py")] if package and package.origin else []
