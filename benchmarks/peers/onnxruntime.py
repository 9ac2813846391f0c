"""Worker: onnxruntime in float32."""

from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import onnxruntime as ort

from benchmarks.peers.graph import GRAPHS, example
from benchmarks.peers.protocol import Floats, Ids, Job, conversion_folder, pad, serve

_GRAPHS = ("plain", "fused")  # as exported, or after onnxruntime's optimiser for transformers


class OnnxRuntime:
    """onnxruntime with one session on all cores, or (streams) one session on each core."""

    padded = True
    modes = tuple(f"{graph}{how}" for graph in _GRAPHS for how in ("", " streams"))

    def __init__(self, job: Job) -> None:
        files = _graphs(job)
        self._whole = {graph: _session(files[graph], job.threads) for graph in _GRAPHS}
        self._parts = {
            graph: [_session(files[graph], 1) for _ in range(job.threads)] for graph in _GRAPHS
        }
        self._pool = ThreadPoolExecutor(job.threads)
        self.about = {"onnxruntime": ort.__version__}

    def encode(self, work: Sequence[Sequence[Ids]], mode: str) -> Iterable[Floats]:
        graph, _, streams = mode.partition(" ")
        if not streams:
            return [_run(self._whole[graph], rows) for rows in work]
        sessions = list(self._parts[graph])  # each is used by one thread during a run

        def run(rows: Sequence[Ids]) -> Floats:
            session = sessions.pop()
            try:
                return _run(session, rows)
            finally:
                sessions.append(session)

        longest_first = list(self._pool.map(run, reversed(work)))
        return reversed(longest_first)


def _run(session: Any, rows: Sequence[Ids]) -> Floats:
    ids, mask = pad(rows)
    [vectors] = session.run(None, {"input_ids": ids, "attention_mask": mask})
    result: Floats = vectors
    return result


def _session(file: Path, threads: int) -> Any:
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_ALL
    return ort.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])


def _graphs(job: Job) -> dict[str, Path]:
    folder = conversion_folder(job.cache, job.folder, "onnxruntime", ort.__version__)
    files = {graph: folder / f"{graph}.onnx" for graph in _GRAPHS}
    if not files["plain"].exists():
        _export(job, files["plain"])
    if not files["fused"].exists():
        _fuse(job.folder, files["plain"], files["fused"])
    return files


def _export(job: Job, file: Path) -> None:
    import torch

    inputs = example()
    torch.onnx.export(
        GRAPHS[job.head](job.folder, "eager"),
        tuple(inputs.values()),
        str(file),
        input_names=list(inputs),
        output_names=["vectors"],
        dynamic_axes={name: {0: "batch", 1: "length"} for name in inputs},
        opset_version=17,
        dynamo=False,  # the exporter whose graph onnxruntime runs faster
    )


def _fuse(folder: str, plain: Path, fused: Path) -> None:
    from onnxruntime.transformers.optimizer import optimize_model
    from transformers import AutoConfig

    config = AutoConfig.from_pretrained(folder)
    heads, size = config.num_attention_heads, config.hidden_size
    optimised = optimize_model(
        str(plain), "bert", num_heads=heads, hidden_size=size, opt_level=0, use_gpu=False
    )
    optimised.save_model_to_file(str(fused))


if __name__ == "__main__":
    serve(OnnxRuntime)
