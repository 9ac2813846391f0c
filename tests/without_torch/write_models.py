"""Write small models and what their own libraries compute: `python -m ... FOLDER`, with torch."""

import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from sentence_transformers import (
    CrossEncoder,
    MultiVectorEncoder,
    SentenceTransformer,
    SparseEncoder,
)
from transformers import AutoConfig, AutoModel, CLIPImageProcessorPil
from transformers.utils import logging

from embedwell_classic.convert.word_embeddings import convert_words
from embedwell_models.hub import sources
from tests.models.colbert import write_colbert
from tests.models.cross_encoder import OPTIONS, SIZES, configure_tokenizer, write_cross_encoder
from tests.models.decoder_reranker import token_id, write_layout, write_reranker
from tests.models.image_models import encoded, features, picture, write_clip
from tests.models.random_weights import randomize
from tests.models.sparse_encoder import write_bge_m3, write_splade
from tests.models.test_bge_m3 import reference as bge_m3_outputs
from tests.models.tiny import write_static_model, write_tokenizer
from tests.models.word_files import vectors, write_text
from tests.without_torch.inputs import DOCUMENTS, FAMILIES, IMAGES, LABELS, QUERY, TEXTS

Arrays = dict[str, Any]
"""What a library computes, by the names of the arrays."""

_VOCABULARY = {"vocab_size": SIZES["vocab_size"]}
_T5 = {
    **{**_VOCABULARY, "d_model": 64, "d_kv": 32, "d_ff": 128},
    **{"num_layers": 2, "num_heads": 2, "pad_token_id": 0},
}
NAMED_OTHERWISE: dict[str, dict[str, Any]] = {
    "gptj": {
        **_VOCABULARY,
        "n_embd": 64,
        "n_layer": 2,
        "n_head": 2,
        "n_inner": 128,
        "rotary_dim": 16,
    },
    "t5": _T5,
    "umt5": _T5,
    "xlnet": {**_VOCABULARY, **OPTIONS["xlnet"]},
}
"""Options of model types whose names of sizes differ."""
MORE: dict[str, dict[str, Any]] = {
    "gemma2": {**OPTIONS["llama"], "sliding_window": 8, "attn_logit_softcapping": 2.0},
    "lfm2": {**OPTIONS["llama"], "layer_types": ["conv", "full_attention"]},
}
"""Options of model types that have no tests as cross-encoders."""


def dense(folder: Path) -> Arrays:
    shutil.copytree(sources.resolve(sources.DEFAULT), folder)
    return {"vectors": SentenceTransformer(str(folder), device="cpu").encode(TEXTS)}


def family(folder: Path) -> Arrays:
    """An encoder of the family that the folder is named after."""
    name = folder.name
    sizes = {"vocab_size": SIZES["vocab_size"]} if name == "distilbert" else SIZES
    options = NAMED_OTHERWISE.get(name) or {**sizes, **OPTIONS.get(name, {}), **MORE.get(name, {})}
    auto: Any = AutoModel
    model = auto.from_config(AutoConfig.for_model(name, **options))
    randomize(model)
    model.save_pretrained(folder)
    write_tokenizer(folder)
    configure_tokenizer(folder, model_max_length=64)
    library = SentenceTransformer(str(folder), device="cpu")
    return {"vectors": library.encode(TEXTS, batch_size=1, normalize_embeddings=True)}


def static(folder: Path) -> Arrays:
    write_static_model(folder.parent).rename(folder)
    return {}


def words(folder: Path) -> Arrays:
    convert_words(write_text(folder.parent / "words.txt", vectors()), folder)
    return {}


def splade(folder: Path) -> Arrays:
    write_splade(folder)
    found = SparseEncoder(str(folder), device="cpu").encode(TEXTS, convert_to_sparse_tensor=False)
    return {"vectors": torch.as_tensor(found).numpy()}


def bge_m3(folder: Path) -> Arrays:
    write_bge_m3(folder)
    arrays: Arrays = {}
    for index, text in enumerate(TEXTS):
        dense, sparse, multi = bge_m3_outputs(folder, text)
        arrays |= {f"dense{index}": dense, f"multi{index}": multi}
        arrays[f"sparse{index}"] = np.array([*sorted(sparse.items())], dtype=np.float64)
    return arrays


def colbert(folder: Path) -> Arrays:
    write_colbert(folder.parent / "parts", model_type="xlm-roberta")
    (folder.parent / "parts" / "model").rename(folder)
    library: MultiVectorEncoder = MultiVectorEncoder(str(folder), device="cpu")
    query, documents = library.encode_query([QUERY]), library.encode_document(DOCUMENTS)
    arrays = {f"document{i}": each.numpy() for i, each in enumerate(documents)}
    scores = library.similarity(query, documents)[0].numpy()
    return {"query": query[0].numpy(), "scores": scores, **arrays}


def reranker(folder: Path) -> Arrays:
    write_cross_encoder(folder)
    return _scores(folder)


def generative(folder: Path) -> Arrays:
    write_reranker(folder)
    write_layout(folder, (token_id(folder, "yes"), token_id(folder, "no")))
    return _scores(folder)


def _scores(folder: Path) -> Arrays:
    pairs = [(QUERY, text) for text in DOCUMENTS]
    return {"scores": CrossEncoder(str(folder), device="cpu").predict(pairs, batch_size=1)}


def classifier(folder: Path) -> Arrays:
    names = {str(index): name for index, name in enumerate(LABELS)}
    write_cross_encoder(folder, len(LABELS), id2label=names)
    model = CrossEncoder(str(folder), device="cpu")
    pairs = [(QUERY, text) for text in DOCUMENTS]
    return {"logits": model.predict(pairs, batch_size=1)}


def clip(folder: Path) -> Arrays:
    model = write_clip(folder)
    drawn = [picture(100, 200), picture(300, 120, 1)]
    for name, image, kind in zip(IMAGES, drawn, ["PNG", "JPEG"], strict=True):
        (folder.parent / name).write_bytes(encoded(image, kind))
    read = [Image.open(folder.parent / name).convert("RGB") for name in IMAGES]
    processor = CLIPImageProcessorPil.from_pretrained(folder)
    pixels = processor(images=read, return_tensors="pt")["pixel_values"]
    texts = SentenceTransformer(str(folder), device="cpu").encode(TEXTS[:3], batch_size=1)
    return {"images": features(model, pixels).values, "texts": texts}


MODELS: dict[str, Callable[[Path], Arrays]] = {
    **{"dense": dense, "static": static, "words": words, "splade": splade, "bge-m3": bge_m3},
    **{"colbert": colbert, "reranker": reranker, "generative": generative},
    **{"classifier": classifier, "clip": clip},
    **dict.fromkeys(FAMILIES, family),
}


def main(folder: Path) -> None:
    """Write each model to a folder of its name, with the arrays next to it."""
    quiet: Any = logging
    quiet.set_verbosity_error()
    quiet.disable_progress_bar()
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for name, write in MODELS.items():
        np.savez(folder / f"{name}.npz", allow_pickle=False, **write(folder / name))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
