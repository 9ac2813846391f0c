"""Worker: OpenVINO in float32, bfloat16, or int8 by NNCF."""

from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import openvino as ov

from benchmarks.peers.graph import GRAPHS, example
from benchmarks.peers.protocol import Floats, Ids, Job, Refused, conversion_folder, pad, serve

# Precision of operations that are not quantised. `int8` leaves it to OpenVINO, which uses bfloat16
# where possible. That is faster, but in version 2026.4 on processors with AMX the results are wrong
# for some lengths.
_HINTS = {"float32": "f32", "bfloat16": "bf16", "int8 in float32": "f32"}


class OpenVINO:
    """OpenVINO, compiled for one batch on all cores (latency) and one on each (throughput)."""

    padded = True
    modes = ("latency", "throughput")

    def __init__(self, job: Job) -> None:
        core = ov.Core()
        capabilities = core.get_property("CPU", "OPTIMIZATION_CAPABILITIES")
        if job.precision == "bfloat16" and "BF16" not in capabilities:
            raise Refused("this processor has no bfloat16")
        model = core.read_model(_int8(job) if job.precision.startswith("int8") else _float32(job))
        options: dict[str, Any] = {"INFERENCE_NUM_THREADS": job.threads}
        if job.precision in _HINTS:
            options["INFERENCE_PRECISION_HINT"] = _HINTS[job.precision]
        latency = core.compile_model(
            model, "CPU", options | {"PERFORMANCE_HINT": "LATENCY", "NUM_STREAMS": 1}
        )
        throughput = core.compile_model(
            model, "CPU", options | {"PERFORMANCE_HINT": "THROUGHPUT", "NUM_STREAMS": job.threads}
        )
        self._request = latency.create_infer_request()
        self._queue = ov.AsyncInferQueue(throughput, job.threads)
        self.about = {
            "openvino": ov.__version__,
            "precision": str(latency.get_property("INFERENCE_PRECISION_HINT")),
        }

    def encode(self, work: Sequence[Sequence[Ids]], mode: str) -> Iterable[Floats]:
        if mode == "latency":
            return [self._request.infer(pad(rows), share_inputs=True)[0].copy() for rows in work]
        outputs: dict[int, Floats] = {}
        self._queue.set_callback(partial(_keep, outputs))
        for index in reversed(range(len(work))):  # the longest first
            self._queue.start_async(pad(work[index]), index)
        self._queue.wait_all()
        return [outputs[index] for index in range(len(work))]


def _keep(outputs: dict[int, Floats], request: Any, index: int) -> None:
    outputs[index] = request.get_output_tensor().data.copy()


def _float32(job: Job) -> Path:
    path = conversion_folder(job.cache, job.folder, "openvino", ov.__version__[:8]) / "float32.xml"
    if not path.exists():
        inputs = example()
        graph = GRAPHS[job.head](job.folder, "sdpa")
        model = ov.convert_model(graph, example_input=inputs)
        ov.save_model(model, path, compress_to_fp16=False)
    return path


def _int8(job: Job) -> Path:
    import nncf

    path = conversion_folder(job.cache, job.folder, "openvino", ov.__version__[:8]) / "int8.xml"
    if not path.exists():
        texts = [pad([np.array(row, np.int32)]) for row in job.calibration]
        model = nncf.quantize(
            ov.Core().read_model(_float32(job)),
            nncf.Dataset(texts),
            model_type=nncf.ModelType.TRANSFORMER,
            subset_size=len(texts),
        )
        ov.save_model(model, path, compress_to_fp16=False)
    return path


if __name__ == "__main__":
    serve(OpenVINO)
