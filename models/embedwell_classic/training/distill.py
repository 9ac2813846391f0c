"""Distillation of a model to a static table of token vectors, with the library model2vec.

Tulkens and van Dongen 2024, "Model2Vec: Fast State-of-the-Art Static Embeddings".
"""

from pathlib import Path
from typing import Any

import numpy as np
from model2vec.distill import distill_from_model
from transformers import AutoModel, AutoTokenizer

from embedwell_classic.convert.module_files import modules, write_json
from embedwell_models.checkpoint import safetensors_files
from embedwell_models.description.model_description import ModelDescription
from embedwell_models.errors import ModelError


def distill(source: Path, folder: Path, dimensions: int) -> None:
    """Write a static model, with a row for each token of a model's vocabulary, to an empty folder.

    A row is the vector of the token as a text, projected to the first `dimensions` principal
    components and weighted by the token's estimated frequency. Raises ModelError for a model that
    cannot be distilled.
    """
    original = ModelDescription.read(source)
    if not original.spec.config.num_layers:
        raise ModelError(f"{source} is already a table; use `compress` to make it smaller")
    static = _distill(original.encoder, dimensions)
    # In row-major order, because the library ignores the order of a table in memory.
    rows = np.ascontiguousarray(static.embedding)
    if static.weights is not None:  # sentence-transformers would ignore the weights
        rows = (rows * static.weights[:, None]).astype(rows.dtype)
    safetensors_files.write_arrays(folder / "model.safetensors", {"embeddings": rows})
    static.tokenizer.save(str(folder / "tokenizer.json"), pretty=False)
    config = {**static.config, "tokenizer_name": source.name, "embedding_dtype": rows.dtype.name}
    write_json(folder / "config.json", config)
    write_json(folder / "modules.json", modules("StaticEmbedding", "Normalize"))
    ModelDescription.read(folder).tokenizer()


def _distill(encoder: Path, dimensions: int) -> Any:
    load: dict[str, Any] = {"local_files_only": True, "trust_remote_code": False}
    try:
        model = AutoModel.from_pretrained(encoder, **load)
        tokenizer: Any = AutoTokenizer.from_pretrained(encoder, **load)
        for disable in ("no_padding", "no_truncation"):  # padding would become part of each text
            getattr(tokenizer.backend_tokenizer, disable)()
        return distill_from_model(model, tokenizer, device="cpu", pca_dims=dimensions)
    except Exception as error:  # the libraries raise no narrower exception
        raise ModelError(f"{encoder} cannot be distilled: {error}") from error
