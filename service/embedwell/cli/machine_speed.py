"""Estimates of a model's memory and speed on this machine, by the size of its matrices."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import exp, log

import numpy as np

from embedwell_models.checkpoint.weights import shapes_of
from embedwell_models.config.encoder_config import plain_config
from embedwell_models.config.model_spec import ModelSpec
from embedwell_models.cpu_backend import library
from embedwell_models.cpu_backend.encoder_factory import KernelEncoderFactory
from embedwell_models.cpu_backend.input_tables import InputTables
from embedwell_models.cpu_backend.quantization import Calibration
from embedwell_models.encoder.batch import Batch
from embedwell_models.encoder.encoder import Encoder
from embedwell_models.encoder.threads import thread_count
from embedwell_models.errors import ModelError
from embedwell_models.families.bert import TENSORS
from embedwell_models.positions.schemes import Learned
from embedwell_models.vectors import Floats

PASSAGE, QUERY = 128, 8
"""Tokens of the texts whose speed is estimated."""

_SHAPES = ((128, 2), (384, 6), (768, 8), (1024, 8))  # width and layers of BERTs
_VOCABULARY, _HEAD = 1000, 64
_MIN_RUNS = 10
_BASE_MEGABYTES = 120  # of the processes of a server, with its tokenizer
_BYTES = {"float32": 4, "bfloat16": 2}
_LEAST_BYTES = 2  # of weights that a file has in 16 bits


@dataclass(frozen=True)
class Estimate:
    """Expected values of a server of one model.

    memory_mb: least and most, by the format of a model's file. Its tables stay in a mapped file,
    whose rows are read when they are used, or in memory as float32. In float32, matrices take 16
    bits a number if the file has them so.
    passages_per_second: passages of PASSAGE tokens. query_ms: time of a single text of QUERY
    tokens. Both are without tokenization and HTTP.
    """

    memory_mb: tuple[int, int]
    passages_per_second: float
    query_ms: float


@dataclass(frozen=True)
class MachineSpeed:
    """Seconds of encoders of random weights on this machine.

    millions: parameters of the matrices of each encoder, in ascending order. passage: seconds for
    a passage of PASSAGE tokens of a batch. query: seconds for a text of QUERY tokens alone.
    """

    dtype: str
    millions: tuple[float, ...]
    passage: tuple[float, ...]
    query: tuple[float, ...]

    @classmethod
    def measure(
        cls,
        shapes: Sequence[tuple[int, int]] = _SHAPES,
        seconds: float = 0.4,
        features: frozenset[str] | None = None,
    ) -> "MachineSpeed":
        """Run encoders in the precision that `auto` takes for most models.

        shapes: width and layers of each encoder. seconds: of each of its two measurements.
        features: CPU features, by default those of this CPU. Raises ModelError if no kernels are
        compiled for them.
        """
        features = library.features() if features is None else features
        if library.best_isa("float32", features) is None:
            raise ModelError("there are no compiled kernels for this processor to measure")
        dtype = "bfloat16" if library.has_fast_bfloat16(features) else "float32"
        measured = []
        for width, layers in shapes:
            encoder = _random_encoder(dtype, width, layers, features)
            millions = layers * 12 * width * width / 1e6
            measured.append((millions, *_measure(encoder, layers, seconds)))
        return cls(dtype, *zip(*measured, strict=True))

    def estimate(self, matrices: float, tables: float) -> Estimate:
        """Estimate the values of a model by the parameters of its parts, in millions."""
        least = _BASE_MEGABYTES + matrices * _LEAST_BYTES
        most = _BASE_MEGABYTES + matrices * _BYTES[self.dtype] + tables * _BYTES["float32"]
        return Estimate(
            memory_mb=(round(least), round(most)),
            passages_per_second=float(f"{1 / self._seconds(self.passage, matrices):.2g}"),
            query_ms=float(f"{1000 * self._seconds(self.query, matrices):.2g}"),
        )

    def _seconds(self, measured: tuple[float, ...], millions: float) -> float:
        # The seconds of a parameter, by the logarithm of the number of parameters.
        each = [seconds / size for seconds, size in zip(measured, self.millions, strict=True)]
        return millions * exp(np.interp(log(millions), np.log(self.millions), np.log(each)))


def _measure(encoder: Encoder, layers: int, seconds: float) -> tuple[float, float]:
    # Seconds of a passage and of a query.
    count = thread_count()
    passages, query = Batch.of([[*range(PASSAGE)]] * count), Batch.of([[*range(QUERY)]])
    layer = _fastest(lambda: encoder.states(passages, 1), seconds)
    return layers * layer / count, _fastest(lambda: encoder.vectors(query, ["mean"]), seconds)


def _random_encoder(dtype: str, width: int, layers: int, features: frozenset[str]) -> Encoder:
    config = plain_config(
        vocab_size=_VOCABULARY,
        hidden_size=width,
        num_layers=layers,
        num_heads=width // _HEAD,
        intermediate_size=4 * width,
        max_positions=PASSAGE,
        norm_eps=1e-12,
        input_positions=Learned(),
        segments=True,
    )
    segments = {"segment_table": (1, width)}
    spec = ModelSpec(config=config, tensors=TENSORS, shapes=segments)
    generator, arrays = np.random.default_rng(0), dict[tuple[int, ...], Floats]()
    weights = {}
    for name, shape in shapes_of(spec).items():
        if shape not in arrays:  # equal layers are as fast as different ones: each is packed
            arrays[shape] = generator.standard_normal(shape, np.float32) * np.float32(0.02)
        weights[name] = arrays[shape]
    tables, calibration = InputTables.of(config, weights), Calibration(lambda _: None)
    return KernelEncoderFactory(weights, tables, calibration, None, features).build(dtype)


def _fastest(run: Callable[[], object], seconds: float) -> float:
    # Processor time of the fastest run after the first, for each thread: as long as a run takes
    # when nothing else uses the processors.
    run()
    runs, start = list[float](), time.perf_counter()
    while len(runs) < _MIN_RUNS or time.perf_counter() - start < seconds:
        begin = time.process_time()
        run()
        runs.append(time.process_time() - begin)
    return min(runs) / thread_count()
