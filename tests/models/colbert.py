"""Multi-vector models of random weights, as three libraries write them."""

import json
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from sentence_transformers import MultiVectorEncoder
from sentence_transformers.base.modules import Normalize, Transformer
from sentence_transformers.base.modules.dense import Dense
from sentence_transformers.multi_vector_encoder.modules import MultiVectorMask
from tokenizers import AddedToken, Tokenizer
from torch import nn
from transformers import AutoConfig, AutoModel

from tests.models.cross_encoder import OPTIONS, SIZES
from tests.models.random_weights import randomize, without_weights
from tests.models.tiny import VOCABULARY, reference, write_tokenizer

WIDTH = 16
HIDDEN = 48
QUERIES = ["the license", "work of any kind, (not) for you: in a copyright", "is", ""]
DOCUMENTS = ["the work is not by you.", "a (b) c; to-do", "of and or " * 20, "license", "..."]
_RENAMED = {"##8": "[unused0]", "##9": "[unused1]"}


def write_colbert(  # noqa: PLR0913 - all but one by name
    folder: Path,
    *,
    expansion: dict[str, Any] | None = None,
    query_length: int | None = None,
    document_length: int | None = None,
    skipped: tuple[str, ...] = (".", ","),
    prompts: dict[str, str] | None = None,
    similarity: str = "maxsim",
    dense: dict[str, Any] | None = None,
    model_type: str = "bert",
) -> MultiVectorEncoder:
    """Save a model as sentence-transformers does, to the folder `model`, and return it."""
    encoder = folder / "encoder"
    _encoder(model_type).save_pretrained(encoder)
    _write_tokenizer(encoder)
    transformer = Transformer(
        str(encoder),
        query_length=query_length,
        document_length=document_length,
        query_expansion=expansion,
    )
    model = MultiVectorEncoder(
        modules=[
            transformer,
            _dense(transformer.get_embedding_dimension(), **(dense or {})),
            MultiVectorMask(skiplist_words=list(skipped)),
            Normalize("token_embeddings"),
        ],
        prompts=prompts or {"query": "[unused0] ", "document": "[unused1] "},
        similarity_fn_name=similarity,
        device="cpu",
    )
    model.save_pretrained(str(folder / "model"))
    return MultiVectorEncoder(str(folder / "model"), device="cpu")


def write_pylate(folder: Path, **card: Any) -> MultiVectorEncoder:
    """Save a model as PyLate does, with markers of its own that end with a space."""
    vocab_size = len(VOCABULARY) + 2
    reference(vocab_size=vocab_size).save_pretrained(folder)
    _write_tokenizer(folder)
    file = str(folder / "tokenizer.json")
    rust = Tokenizer.from_file(file)
    rust.add_tokens([AddedToken(marker, normalized=True) for marker in ("[Q] ", "[D] ")])
    rust.save(file)
    (folder / "1_Dense").mkdir()
    dense = _dense()
    save_file(dict(dense.state_dict()), folder / "1_Dense" / "model.safetensors")
    options = {"in_features": HIDDEN, "out_features": WIDTH, "bias": False}
    identity = {"activation_function": "torch.nn.modules.linear.Identity", "use_residual": False}
    _write_json(folder / "1_Dense" / "config.json", {**options, **identity})
    kinds = {"": "sentence_transformers.models.Transformer", "1_Dense": "pylate.models.Dense.Dense"}
    modules = [
        {"idx": index, "name": str(index), "path": path, "type": kind}
        for index, (path, kind) in enumerate(kinds.items())
    ]
    _write_json(folder / "modules.json", modules)
    _write_json(
        folder / "sentence_bert_config.json", {"max_seq_length": 63, "do_lower_case": False}
    )
    stated = {"query_prefix": "[Q] ", "document_prefix": "[D] ", "similarity_fn_name": "MaxSim"}
    _write_json(folder / "config_sentence_transformers.json", {**stated, **card})
    return MultiVectorEncoder(str(folder), device="cpu")


def write_stanford(folder: Path, **metadata: Any) -> MultiVectorEncoder:
    """Save a model as Stanford's ColBERT does: a projection among the encoder's tensors."""
    reference().save_pretrained(folder)
    _write_tokenizer(folder)
    path = folder / "model.safetensors"
    tensors = {f"bert.{name}": tensor for name, tensor in load_file(path).items()}
    save_file({**tensors, "linear.weight": _dense().linear.weight.data}, path, {"format": "pt"})
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    _write_json(folder / "config.json", {**config, "architectures": ["HF_ColBERT"]})
    if metadata:
        _write_json(folder / "artifact.metadata", metadata)
    return MultiVectorEncoder(str(folder), device="cpu")


def _encoder(model_type: str) -> Any:
    if model_type == "bert":
        return reference()
    config = AutoConfig.for_model(model_type, **{**SIZES, **OPTIONS[model_type]})
    auto: Any = AutoModel
    model = without_weights(lambda: auto.from_config(config))
    randomize(model)
    return model


def _write_tokenizer(folder: Path) -> None:
    # In lower case, and with two unused tokens, as BERT's vocabulary has them.
    write_tokenizer(folder)
    path = folder / "tokenizer.json"
    content = json.loads(path.read_text(encoding="utf-8"))
    vocabulary = content["model"]["vocab"].items()
    content["model"]["vocab"] = {_RENAMED.get(name, name): id for name, id in vocabulary}
    content["normalizer"]["lowercase"] = True
    _write_json(path, content)


def _dense(inputs: int = HIDDEN, outputs: int = WIDTH, **options: Any) -> Dense:
    fields = {"bias": False, "activation_function": nn.Identity(), **options}
    dense = Dense(inputs, outputs, module_input_name="token_embeddings", **fields)
    noise = torch.Generator().manual_seed(9)
    with torch.no_grad():
        for parameter in dense.parameters():
            parameter.normal_(0.0, 0.3, generator=noise)
    return dense


def _write_json(path: Path, content: Any) -> None:
    path.write_text(json.dumps(content), encoding="utf-8")
