"""The engines that are compared: which worker, in which environment, in which precision."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Contestant:
    """environment: a file in requirements/, or None for the interpreter that runs the driver.

    precision: of the products, and if another one is meant than the engine's choice, of the rest.
    head: of graph.GRAPHS, if it computes no other one.
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
