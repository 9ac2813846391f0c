"""Models of sizes that the kernels have, against transformers in every precision."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from embedwell_models import Embedder
from embedwell_models.cpu_backend import library
from tests.conftest import precisions
from tests.models.families.checkpoint import SIZES as SMALL
from tests.models.families.checkpoint import assert_close, exact_means
from tests.models.tiny import VOCABULARY, write_tokenizer

SIZES = {
    **SMALL,
    "vocab_size": len(VOCABULARY),
    "num_attention_heads": 2,
    "intermediate_size": 128,
}
LEAST = {"float32": 0.999999, "bfloat16": 0.99, "int8": 0.95}  # cosine, of random weights
SENTENCES = ["the license", "a copyright of this work, such as it is", "x", "you " * 30]

needs_kernels = pytest.mark.skipif(
    library.best_isa("float32") is None, reason="no kernels for this processor"
)


def skip_without_kernels(dtype: str) -> None:
    """Skip a test if no kernels of this processor compute a precision."""
    if library.best_isa(dtype, library.features("auto")) is None:
        pytest.skip(f"this processor, or this installation, has no kernels for {dtype}")


def assert_kernels_are_faithful(
    model: Any, folder: Path, least: Mapping[str, float] = LEAST
) -> None:
    """Assert that the kernels alone compute transformers' vectors, the same bits in any batch.

    folder: the model's, to which a tokenizer is added. least: cosine in each precision.
    """
    write_tokenizer(folder)
    for dtype in precisions():
        embedder = Embedder.load(folder, device="cpu", dtype=dtype, pooling="mean")
        assert embedder.why_torch is None
        rows = [torch.tensor(row) for row in embedder.tokenize(SENTENCES)]
        expected = exact_means(model, rows)
        vectors = torch.from_numpy(embedder.embed(SENTENCES))
        if dtype == "float32":
            assert_close(vectors, expected)
        assert float(F.cosine_similarity(vectors, expected.values).min()) >= least[dtype]
        for text, vector in zip(SENTENCES, vectors, strict=True):
            assert np.array_equal(embedder.embed([text])[0], vector)
