"""Models as they were published before safetensors: small, of random weights, pickled.

Each has the files and the keys of config.json of a much used one.
"""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from transformers import AutoTokenizer, BertForPreTraining, T5EncoderModel

from tests.models import raw
from tests.models.families.checkpoint import SIZES, Case, write
from tests.models.families.files import edit

WIDTH = SIZES["hidden_size"]
TRANSFORMER = {"type": "sentence_transformers.models.Transformer", "path": ""}
POOLING = {"type": "sentence_transformers.models.Pooling", "path": "1_Pooling"}
DENSE = {"type": "sentence_transformers.models.Dense", "path": "2_Dense"}
NORMALIZE = {"type": "sentence_transformers.models.Normalize", "path": "3_Normalize"}
T5 = {
    **{"vocab_size": 400, "d_model": WIDTH, "d_kv": 16, "d_ff": 96},
    **{"num_layers": 3, "num_heads": 4},
}


def pickled(folder: Path, *, zipped: bool = True, shards: int = 1) -> None:
    """Replace model.safetensors by pytorch_model.bin, in one file or several files."""
    path = folder / "model.safetensors"
    tensors = list(load_file(path).items())
    path.unlink()
    kind = {"_use_new_zipfile_serialization": zipped}
    if shards == 1:
        torch.save(dict(tensors), folder / "pytorch_model.bin", **kind)
        return
    weight_map: dict[str, str] = {}
    for number in range(shards):
        name = f"pytorch_model-{number + 1:05}-of-{shards:05}.bin"
        torch.save(dict(tensors[number::shards]), folder / name, **kind)
        weight_map |= dict.fromkeys([key for key, _ in tensors[number::shards]], name)
    index = {"metadata": {}, "weight_map": weight_map}
    (folder / "pytorch_model.bin.index.json").write_text(json.dumps(index), encoding="utf-8")


def sentence_files(folder: Path, modules: list[dict[str, str]], **pooling: Any) -> None:
    """modules.json and the pooling's config.json."""
    lines = [{"idx": i, "name": f"{i}", **module} for i, module in enumerate(modules)]
    (folder / "modules.json").write_text(json.dumps(lines), encoding="utf-8")
    (folder / "1_Pooling").mkdir()
    config = {"word_embedding_dimension": WIDTH, **pooling}
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(config), encoding="utf-8")


def vocabulary(name: str, folder: Path) -> None:
    """Add the files of a slow tokenizer to a checkpoint, and keep its config.json."""
    config = (folder / "config.json").read_bytes()
    raw.write(name, folder)
    (folder / "config.json").write_bytes(config)


def bge_m3(folder: Path) -> None:
    """BAAI/bge-m3: two further files of weights, and a tokenizer.json."""
    write(Case("xlm-roberta", {"vocab_size": 320, "max_position_embeddings": 66}), folder)
    vocabulary("xlm_roberta", folder)
    AutoTokenizer.from_pretrained(folder).save_pretrained(folder)
    pickled(folder)
    for name, rows in (("sparse_linear", 1), ("colbert_linear", WIDTH)):
        linear = {"weight": torch.ones(rows, WIDTH), "bias": torch.zeros(rows)}
        torch.save(linear, folder / f"{name}.pt")
    (folder / "sentence_bert_config.json").write_text('{"max_seq_length": 64}', encoding="utf-8")
    sentence_files(folder, [TRANSFORMER, POOLING, NORMALIZE], pooling_mode_cls_token=True)


def contriever(folder: Path) -> None:
    """facebook/contriever: an encoder with a class name of its own."""
    write(Case("bert", {"vocab_size": 320}), folder)
    vocabulary("bert", folder)
    AutoTokenizer.from_pretrained(folder).save_pretrained(folder)
    edit(folder, architectures=["Contriever"])
    pickled(folder)


def codebert(folder: Path) -> None:
    """microsoft/codebert-base: merges of bytes, and no tokenizer.json."""
    write(Case("roberta", {"vocab_size": 520, "max_position_embeddings": 66}), folder)
    vocabulary("roberta", folder)
    options = '{"model_max_length": 64}'
    (folder / "tokenizer_config.json").write_text(options, encoding="utf-8")
    pickled(folder)


def legal_bert(folder: Path) -> None:
    """nlpaueb/legal-bert-base-uncased: heads whose weights are tied, in torch's first format."""
    model = write(Case("bert", {"vocab_size": 320}, model=BertForPreTraining), folder)
    vocabulary("bert", folder)
    (folder / "model.safetensors").unlink()
    state = model.state_dict()
    torch.save(state, folder / "pytorch_model.bin", _use_new_zipfile_serialization=False)


def biobert(folder: Path) -> None:
    """dmis-lab/biobert: cased, with TensorFlow's names of norms, in shards."""
    write(Case("bert", {"vocab_size": 320}), folder)
    vocabulary("bert", folder)
    (folder / "tokenizer_config.json").write_text('{"do_lower_case": false}', encoding="utf-8")
    pickled(folder, zipped=False, shards=2)


def instructor(folder: Path) -> None:
    """hkunlp/instructor: the encoder of a T5 and a product, both pickled, and SentencePiece."""
    write(Case("t5", {}, T5, model=T5EncoderModel), folder)
    vocabulary("t5", folder)
    pickled(folder)
    sentence_files(folder, [TRANSFORMER, POOLING, DENSE, NORMALIZE], pooling_mode_mean_tokens=True)
    identity = "torch.nn.modules.linear.Identity"
    dense = {"in_features": WIDTH, "out_features": 24, "activation_function": identity}
    dense["bias"] = False
    (folder / "2_Dense").mkdir()
    (folder / "2_Dense" / "config.json").write_text(json.dumps(dense), encoding="utf-8")
    noise = torch.Generator().manual_seed(5)
    weight = {"linear.weight": 0.3 * torch.randn(24, WIDTH, generator=noise)}
    torch.save(weight, folder / "2_Dense" / "pytorch_model.bin")


OLDER: Mapping[str, Callable[[Path], None]] = {
    build.__name__: build
    for build in (bge_m3, contriever, codebert, legal_bert, biobert, instructor)
}
