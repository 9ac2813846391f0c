"""Worker of the benchmark of decisions: the probabilities of a question's options for each text."""

import json
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.peers.turns import answer

INSTRUCTIONS = "w1 w2 w3 w4 w5 w6 w7 w8"
OPTIONS: Mapping[str, str | None] = {"w11 w12": None, "w13 w14": None, "w15 w16": None}
_QUESTION = "question"
_INPUTS = ("input_ids", "attention_mask", "marker_pos", "marker_mask", "qtype")

Decide = Callable[[Sequence[str]], list[Any]]
"""Function from texts to the probabilities of the options, (options,) for each text."""


def ours(folder: Path, threads: int, dtype: str) -> Decide:
    """This project's engine, without a server."""
    import numpy as np

    from embedwell_decide.laya_rows import LayaRows
    from embedwell_decide.options import DecisionOptions
    from embedwell_decide.questions import Question
    from embedwell_models import Embedder
    from embedwell_models.encoder.threads import set_thread_count
    from embedwell_models.hub.sources import resolve
    from embedwell_models.outputs.names import DECISION
    from embedwell_models.tokenizer.steps import run_to_completion

    set_thread_count(threads)
    linked = resolve(str(folder), cache=folder.parent / "linked")
    embedder = Embedder.load(linked, dtype=dtype, device="cpu")
    assert embedder.dtype == dtype
    options, tokenizer = DecisionOptions.read(linked), embedder.tokenizer
    rows = LayaRows.of(options, tokenizer.special_id, tokenizer.name)
    question = Question.choice(INSTRUCTIONS, [*OPTIONS.items()])

    def ids(texts: Sequence[str]) -> list[list[int]]:
        return [[*run_to_completion(tokenizer.ids_without_special(text))] for text in texts]

    def decide(texts: Sequence[str]) -> list[Any]:
        asked = ids(rows.question_texts(question))
        built = [rows.row(asked, ids(rows.state_texts(text))) for text in texts]
        arrays = [np.array(row.ids, dtype=np.int32) for row in built if row is not None]
        logits = [each.multi for each in embedder.outputs(arrays, [DECISION])]
        return [rows.probabilities(question, each[:, 0]) for each in logits if each is not None]

    return decide


def on_transformers(folder: Path, threads: int, dtype: str) -> Decide:
    """The authors' code on transformers; bfloat16 by torch's autocast, as its setting chooses."""
    if dtype == "bfloat16":
        os.environ["LAYA_CPU_AMP"] = "bf16"
    import laya
    import torch

    torch.set_num_threads(threads)
    return _by(laya.load(str(folder), device="cpu"))


def on_onnxruntime(folder: Path, threads: int, dtype: str) -> Decide:
    """The authors' code on onnxruntime."""
    import onnxruntime as ort
    from laya.onnx_agent import ONNXAgent

    file = str(_exported(folder))
    agent: Any = ONNXAgent(str(folder), onnx_path=file)
    agent.session = None  # on all processors; before another one takes the same memory
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    agent.session = ort.InferenceSession(file, options, providers=["CPUExecutionProvider"])
    return _by(agent)


def _by(agent: Any) -> Decide:
    questions = {
        _QUESTION: {"type": "choice", "instructions": INSTRUCTIONS, "criteria": dict(OPTIONS)}
    }

    def decide(texts: Sequence[str]) -> list[Any]:
        answers = [each["answers"] for each in agent.predict_batch([*texts], questions)]
        return [[*each[_QUESTION]["probabilities"].values()] for each in answers]

    return decide


def _exported(folder: Path) -> Path:
    """Return the model in ONNX, which the first call exports."""
    file = folder.with_name(f"{folder.name}-onnx") / "laya.onnx"
    if file.exists():
        return file
    import laya
    import torch

    model: Any = laya.load(str(folder), device="cpu").model
    model.encoder.set_attn_implementation("eager")  # whose operators the exporter knows
    mask = torch.ones(2, 17, dtype=torch.int64)
    mask[1, 9:] = 0
    markers = torch.tensor([[2, 4, 6], [2, 4, 6]])
    kinds = torch.zeros(2, dtype=torch.int64)
    file.parent.mkdir(exist_ok=True)
    unfinished = file.with_suffix(".part")
    axes = {name: {0: "rows", 1: "length"} for name in _INPUTS[:2]}
    axes |= {name: {0: "rows", 1: "options"} for name in _INPUTS[2:4]}
    torch.onnx.export(
        model,
        (
            torch.full_like(mask, 10),
            mask,
            markers,
            torch.ones_like(markers, dtype=torch.bool),
            kinds,
        ),
        str(unfinished),
        input_names=[*_INPUTS],
        output_names=["logits", "act_logits"],
        dynamic_axes={**axes, "qtype": {0: "rows"}},
        opset_version=17,
        dynamo=False,  # for which the authors' attention is written
    )
    unfinished.rename(file)
    return file


ENGINES = {
    "ours": ours,
    "on_transformers": on_transformers,
    "on_onnxruntime": on_onnxruntime,
}


def read(file: Path) -> list[str]:
    """Read the texts of a file."""
    texts: list[str] = json.loads(file.read_text(encoding="utf-8"))
    return texts


if __name__ == "__main__":
    answer(ENGINES, read)
