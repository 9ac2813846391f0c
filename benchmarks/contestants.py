"""Compared engines, with worker, environment and precision."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Contestant:
    """A compared engine. environment: a file in requirements/; None for the driver's interpreter.

    precision: precision of the products, and of the rest if it is not the engine's choice. head:
    the only head in graph.GRAPHS that the engine computes, if there is one.
    """

    name: str
    module: str
    environment: str | None
    precision: str
    head: str | None = None


REFERENCE = Contestant(
    "sentence-transformers", "sentence_transformers", "sentence-transformers", "float32"
)
OURS = tuple(
    Contestant(f"this, {precision}", "ours", None, precision)
    for precision in ("float32", "bfloat16", "int8")
)
PEERS = (
    Contestant("Infinity, float32", "infinity", "infinity", "float32", head="pair"),
    Contestant("onnxruntime, float32", "onnxruntime", "onnxruntime", "float32"),
    *(
        Contestant(f"OpenVINO, {precision}", "openvino", "openvino", precision)
        for precision in ("float32", "bfloat16", "int8", "int8 in float32")
    ),
    Contestant("llama.cpp, float32", "llama_cpp", "llama-cpp", "float32", head="mean"),
    Contestant("llama.cpp, q8_0", "llama_cpp", "llama-cpp", "int8", head="mean"),
)
ALL = (REFERENCE, *PEERS, *OURS)
