"""Keep what the start of an engine measured, for the next start of the same model.

The trials of `auto`, the speed of a full batch and the checksums of the weights take most of the
time of a start, and stay the same on a machine.
"""

import contextlib
import hashlib
import logging
import os
import platform
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import orjson
import safetensors.numpy

from embedwell import __version__
from embedwell.engine.wire.spec import EngineSpec, StartupChoices
from embedwell.engine.worker.cpus import available_cpus
from embedwell_models.cpu_backend import library
from embedwell_models.cpu_backend.quantization import Magnitudes
from embedwell_models.encoder.device import may_be_gpu, torch_is_installed

log = logging.getLogger("embedwell.engine")

_CPU_INFO = Path("/proc/cpuinfo")
_CHOICES, _MAGNITUDES = ".json", ".safetensors"  # suffixes of the files


class StartupCache:
    """Small files for each combination of a model, its settings, and the machine.

    They are the choices as JSON, and the magnitudes of inputs for int8, each after a line with its
    checksum. A file that is damaged or cannot be read or written is no error, because the engine
    can measure again.
    """

    def __init__(self, spec: EngineSpec) -> None:
        self._path: Path | None = None
        if spec.startup_cache:
            with contextlib.suppress(OSError):  # such as a file that has just been deleted
                digest = _digest("\n".join(_conditions(spec)).encode()).decode()
                self._path = Path(spec.startup_cache) / digest[:32]

    def read(self) -> StartupChoices | None:
        """Return the choices of an earlier start; None if there are none."""
        try:
            return StartupChoices(**orjson.loads(self._content(_CHOICES)))
        except (OSError, ValueError, TypeError):
            return None

    def write(self, choices: StartupChoices) -> None:
        """Keep the choices of this start."""
        self._keep(_CHOICES, orjson.dumps(asdict(choices)))

    def read_magnitudes(self) -> Magnitudes | None:
        """Return what int8 was calibrated with at an earlier start; None if that is not kept."""
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
        checksum, _, content = self._path.with_suffix(suffix).read_bytes().partition(b"\n")
        if checksum != _digest(content):
            raise ValueError(suffix)
        return content

    def _keep(self, suffix: str, content: bytes) -> None:
        if self._path is None:
            return
        import tempfile  # only at a first start

        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile(dir=self._path.parent, delete=False) as file:
                file.write(_digest(content) + b"\n" + content)
            os.replace(file.name, self._path.with_suffix(suffix))
        except OSError as error:
            log.debug("the measurements of this start are not kept: %s", error)


def _digest(content: bytes) -> bytes:
    return hashlib.sha256(content).hexdigest().encode()


def _conditions(spec: EngineSpec) -> Iterator[str]:
    """Yield everything that the choices depend on: versions, settings, machine and files."""
    yield from (__version__, _torch_version(), str(spec.threads or available_cpus()))
    yield repr((spec.device, spec.dtype, spec.isa, spec.pooling, spec.rerank_format, spec.adapter))
    yield repr((spec.cuda_graphs, spec.max_batch_tokens))
    yield from _processors(spec.device)
    for path in [*sorted(Path(spec.folder).rglob("*")), *sorted(library.FOLDER.glob("*.so"))]:
        stat = path.stat()
        yield f"{path} {stat.st_size} {stat.st_mtime_ns} {stat.st_ino}"


def _processors(device: str) -> Iterator[str]:
    yield platform.processor()
    if _CPU_INFO.exists():
        lines = _CPU_INFO.read_text(encoding="utf-8").splitlines()
        yield from (line for line in lines if line.startswith(("model name", "flags", "Features")))
    if may_be_gpu(device) and torch_is_installed():
        from embedwell_models.torch_backend.device import gpu_properties

        yield from gpu_properties()


def _torch_version() -> str:
    if not torch_is_installed():
        return ""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("torch")
    except PackageNotFoundError:
        return ""
