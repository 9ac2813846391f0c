"""Write a BERT for fastembed, and a table of its words for model2vec: FOLDER, TARGET.

model2vec's tables are made from the words' vectors in a transformer. Here they are its input
vectors: they are as many and as wide, so that the programs take as long.
"""

import shutil
import sys
from pathlib import Path
from typing import Any


def write_onnx(folder: Path, target: Path) -> None:
    """Write the states of the last layer as a graph of ONNX, and the other files."""
    import torch

    from benchmarks.peers.graph import StatesGraph

    names = ("input_ids", "attention_mask")
    target.mkdir(parents=True, exist_ok=True)
    for file in folder.glob("*.json"):
        shutil.copy(file, target)
    torch.onnx.export(
        StatesGraph(str(folder), "eager"),
        tuple(torch.ones(2, 8, dtype=torch.int64) for _ in names),
        str(target / "model.onnx"),
        input_names=list(names),
        output_names=["last_hidden_state"],
        dynamic_axes={name: {0: "batch", 1: "length"} for name in names},
        opset_version=17,
        dynamo=False,  # the exporter whose graph onnxruntime runs faster
    )


def write_table(folder: Path, target: Path) -> None:
    """Write the input vectors of the words as a model of model2vec."""
    from model2vec import StaticModel
    from tokenizers import Tokenizer
    from transformers import AutoModel

    words: Any = AutoModel.from_pretrained(folder).get_input_embeddings().weight
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    StaticModel(words.detach().numpy(), tokenizer).save_pretrained(target)


def main() -> None:
    """Write both models, unless they are there."""
    folder, target = map(Path, sys.argv[1:])
    if not (target / "onnx" / "model.onnx").exists():
        write_onnx(folder, target / "onnx")
    if not (target / "table" / "model.safetensors").exists():
        write_table(folder, target / "table")


if __name__ == "__main__":
    main()
