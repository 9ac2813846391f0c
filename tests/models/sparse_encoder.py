"""Sparse encoders of random weights, as sentence-transformers saves them."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from sentence_transformers import SparseEncoder
from sentence_transformers.base.modules import Router, Transformer
from sentence_transformers.sparse_encoder.modules import SparseStaticEmbedding, SpladePooling
from transformers import AutoConfig, AutoModelForMaskedLM

from embedwell_models import families
from tests.models.cross_encoder import OPTIONS, SIZES, configure_tokenizer
from tests.models.random_weights import randomize, without_weights
from tests.models.tiny import VOCABULARY, write_tokenizer

FAMILIES = sorted(
    name
    for name, family in families.by_model_type().items()
    if family.masked_lm_head and name in OPTIONS
)


def write_masked_lm(folder: Path, model_type: str = "bert", **options: Any) -> Path:
    """Save a masked language model without modules.json."""
    sizes = {"vocab_size": len(VOCABULARY)} if model_type == "distilbert" else SIZES
    config = AutoConfig.for_model(model_type, **{**sizes, **OPTIONS[model_type], **options})
    auto: Any = AutoModelForMaskedLM
    model = without_weights(lambda: auto.from_config(config))
    randomize(model)
    model.save_pretrained(folder)
    write_tokenizer(folder)
    configure_tokenizer(folder, model_max_length=64)
    return folder


def write_splade(folder: Path, model_type: str = "bert", **pooling: Any) -> Path:
    """Save a SPLADE model of sentence-transformers. pooling: options of SpladePooling."""
    encoder = _transformer(folder.parent / f"{folder.name}-masked-lm", model_type)
    modules: Any = [encoder, SpladePooling(**pooling)]
    return _save(SparseEncoder(modules=modules, device="cpu"), folder)


def write_inference_free(folder: Path, weights: torch.Tensor, as_json: bool = False) -> Path:
    """Save a model whose queries need no encoder. weights: of each token. as_json: as idf.json."""
    encoder = _transformer(folder.parent / f"{folder.name}-masked-lm", "bert")
    tokenizer: Any = encoder.tokenizer
    query = SparseStaticEmbedding(tokenizer=tokenizer, weight=weights)
    document = [encoder, SpladePooling("max", activation_function="log1p_relu")]
    router = Router.for_query_document([query], document)
    _save(SparseEncoder(modules=[router], device="cpu"), folder)
    if as_json:
        part = folder / "query_0_SparseStaticEmbedding"
        (part / "model.safetensors").unlink()
        (part / "config.json").write_text('{"path": "idf.json"}', encoding="utf-8")
        idf = {token: float(weights[id]) for token, id in VOCABULARY.items() if weights[id]}
        (part / "idf.json").write_text(json.dumps(idf), encoding="utf-8")
    return folder


def write_asymmetric_splade(folder: Path) -> Path:
    """Save a model with an encoder for queries and another one for documents."""
    query, document = (
        [_transformer(folder.parent / f"{folder.name}-{part}", "bert", **config), SpladePooling()]
        for part, config in (("query", {"num_hidden_layers": 1}), ("document", {}))
    )
    router = Router.for_query_document(query, document)
    return _save(SparseEncoder(modules=[router], device="cpu"), folder)


def _transformer(folder: Path, model_type: str, **options: Any) -> Transformer:
    transformer: Callable[..., Transformer] = Transformer
    written = write_masked_lm(folder, model_type, **options)
    return transformer(str(written), transformer_task="fill-mask")


def _save(model: SparseEncoder, folder: Path) -> Path:
    model.save_pretrained(str(folder), create_model_card=False)
    return folder


def write_bge_m3(folder: Path) -> Path:
    """Save a small model with the files of BGE-M3's three outputs."""
    sizes = {**SIZES, **OPTIONS["xlm-roberta"]}
    write_masked_lm(folder, "xlm-roberta", **sizes)
    configure_tokenizer(folder, cls_token="[CLS]", eos_token="[SEP]", model_max_length=64)
    path = folder / "config.json"
    config = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps({**config, "architectures": ["XLMRobertaModel"]}), encoding="utf-8")
    noise = torch.Generator().manual_seed(9)
    linear = {"weight": torch.randn(1, 64, generator=noise), "bias": torch.tensor([0.5])}
    save_file(linear, folder / "sparse_linear.safetensors")
    linear = {"weight": torch.randn(64, 64, generator=noise), "bias": torch.ones(64) / 2}
    save_file(linear, folder / "colbert_linear.safetensors")
    types = ["models.Transformer", "models.Pooling", "models.Normalize"]
    modules = [
        {"idx": index, "name": str(index), "path": part, "type": f"sentence_transformers.{kind}"}
        for index, (kind, part) in enumerate(
            zip(types, ["", "1_Pooling", "2_Normalize"], strict=True)
        )
    ]
    (folder / "modules.json").write_text(json.dumps(modules), encoding="utf-8")
    (folder / "1_Pooling").mkdir()
    pooling = {"word_embedding_dimension": 64, "pooling_mode_cls_token": True}
    pooling |= {"pooling_mode_mean_tokens": False}
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(pooling), encoding="utf-8")
    return folder
