"""Tests of a GPU's vectors compared with those of the processor in float32."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import torch

from embedwell.engine.worker.load import load
from embedwell_models.config.model_options import ModelOptions
from embedwell_models.embedder import Embedder
from embedwell_models.errors import ModelError
from embedwell_models.precision.trials import MIN_COSINE
from embedwell_models.vectors import Floats, normalize
from tests.gpu.card import since_ampere
from tests.models.families.checkpoint import Case
from tests.models.families.every import TEXTS, every_family, write_model

pytestmark = pytest.mark.gpu

LEAST = {"float32": 0.999999, "float16": 0.9999, "bfloat16": 0.999}
RANDOM = {"float32": 0.99999, "float16": 0.999, "bfloat16": 0.99}  # of weights that lose more
every_dtype = pytest.mark.parametrize(
    "dtype", ["float32", "float16", pytest.param("bfloat16", marks=since_ampere)]
)


def cosines(a: Floats, b: Floats) -> Floats:
    found: Floats = (normalize(a) * normalize(b)).sum(axis=1)
    return found


@pytest.fixture(scope="module")
def expected(embedder: Embedder, texts: Sequence[str]) -> Floats:
    return embedder.embed(texts)


@every_dtype
@pytest.mark.parametrize("budget", [64, 2048, 65536])
def test_the_default_model_is_the_same(
    minilm_folder: Path, texts: Sequence[str], expected: Floats, dtype: str, budget: int
) -> None:
    gpu = Embedder.load(minilm_folder, device="cuda", dtype=dtype)
    for _ in ("step by step", "replayed"):
        found = gpu.embed(texts, budget=budget)
        assert cosines(found, expected).min() >= LEAST[dtype]
        if dtype == "float32":
            np.testing.assert_allclose(found, expected, atol=1e-5)
        gpu.warm()


@every_dtype
def test_a_text_alone_is_what_it_is_in_a_batch_to_rounding(
    minilm_folder: Path, texts: Sequence[str], dtype: str
) -> None:
    gpu = Embedder.load(minilm_folder, device="cuda", dtype=dtype)
    gpu.warm()
    together = gpu.embed(texts, budget=65536)
    alone = np.concatenate([gpu.embed([text]) for text in texts])
    assert cosines(together, alone).min() >= LEAST[dtype]
    assert np.array_equal(gpu.embed(texts, budget=65536), together), "the same batch, other bits"


@every_dtype
def test_passes_that_threads_ask_for_at_once_are_those_of_each_alone(
    minilm_folder: Path, texts: Sequence[str], dtype: str
) -> None:
    gpu = Embedder.load(minilm_folder, device="cuda", dtype=dtype)
    gpu.warm()
    ids = gpu.tokenize(texts)
    batches = [ids[start : start + size] for start, size in ((0, 1), (1, 9), (10, 40), (3, 20))]
    expected = [gpu.encode(batch) for batch in batches]
    assert gpu.prefetch_depth == 1
    with ThreadPoolExecutor(2) as pool:
        found = list(pool.map(gpu.encode, batches * 50))
    assert all(map(np.array_equal, found, expected * 50))


@every_dtype
@every_family
def test_every_family_is_the_same(case: Case, dtype: str, tmp_path: Path) -> None:
    write_model(case, tmp_path)
    expected = Embedder.load(tmp_path, device="cpu", dtype="float32").embed(TEXTS)
    gpu = Embedder.load(tmp_path, device="cuda", dtype=dtype)
    gpu.warm()
    assert cosines(gpu.embed(TEXTS), expected).min() >= RANDOM[dtype]


@pytest.mark.parametrize("layer", ["token", "position", "segment", 0, 3, 6])
def test_hidden_states_are_the_same(
    minilm_folder: Path, embedder: Embedder, texts: Sequence[str], layer: int | str
) -> None:
    gpu = Embedder.load(minilm_folder, device="cuda", dtype="float32")
    ids = embedder.tokenize(texts[:40])
    for mine, theirs in zip(gpu.hidden(ids, layer), embedder.hidden(ids, layer), strict=True):
        np.testing.assert_allclose(mine, theirs, atol=1e-4, rtol=1e-4)


@since_ampere
def test_auto_is_bfloat16_which_is_faithful(minilm_folder: Path) -> None:
    gpu = Embedder.load(minilm_folder, device="auto")
    assert gpu.device.type == "cuda" and gpu.dtype == "bfloat16"
    trials = {trial.dtype: trial.cosine for trial in gpu.trials}
    assert trials[gpu.dtype] >= MIN_COSINE


def test_what_a_gpu_does_not_have_is_refused_with_what_it_has(minilm_folder: Path) -> None:
    with pytest.raises(ModelError, match=r"int8 .* cuda \(it is for CPUs\); .*float16"):
        Embedder.load(minilm_folder, device="cuda", dtype="int8")
    with pytest.raises(ModelError, match=r"'cuda:99' is not available: .*invalid device ordinal"):
        Embedder.load(minilm_folder, device="cuda:99")


def test_the_engine_multiplies_in_float32_whatever_the_process_was_told(
    minilm_folder: Path,
) -> None:
    torch.set_float32_matmul_precision("high")
    load(minilm_folder, ModelOptions(device="cuda", dtype="float32"))
    noise = torch.Generator("cuda").manual_seed(1)
    a = torch.randn(512, 512, device="cuda", generator=noise)
    exact = a.double() @ a.double()
    assert ((a @ a).double() - exact).abs().max() < 1e-3  # with TF32 some hundredths
