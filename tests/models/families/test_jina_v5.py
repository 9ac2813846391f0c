"""Tests of Jina v5 against transformers, into whose models an adapter is merged."""

import json
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from transformers import AutoTokenizer

from embedwell_models import Embedder, families
from embedwell_models.checkpoint import weights
from embedwell_models.config.model_options import ModelOptions
from embedwell_models.description import model_fingerprint
from embedwell_models.description.model_description import ModelDescription
from embedwell_models.errors import ModelError
from tests.models.families.checkpoint import SIZES, SPECIAL, Case, write
from tests.models.families.exact import assert_near, expected
from tests.models.families.files import edit
from tests.models.tiny import VOCABULARY, write_tokenizer

TASKS = ["retrieval", "text-matching", "clustering"]
TEXTS = ["the license", "a copyright of this work, by any", "x"]
_SIZES = {**SIZES, "vocab_size": len(VOCABULARY)}
SMALL = Case("qwen3", {"num_key_value_heads": 2, "head_dim": 24}, _SIZES)
NANO = Case("eurobert", SPECIAL, _SIZES)
RANK, ALPHA = 4, 6


def write_v5(case: Case, folder: Path, task: str) -> Any:
    """Save a model with adapters; return transformers' model with one of them merged."""
    model: Any = write(case, folder)
    write_tokenizer(folder)
    own: dict[str, Any] = {
        "model_type": "jina_embeddings_v5",
        "architectures": ["JinaEmbeddingsV5Model"],
    }
    own |= {"auto_map": {"AutoModel": "modeling_jina_embeddings_v5.JinaEmbeddingsV5Model"}}
    if case is NANO:
        own |= {"is_decoder": False}
    edit(folder, task_names=TASKS, **own)
    module = {"idx": 0, "name": "transformer", "path": "", "type": "custom_st.Transformer"}
    write_json(folder / "modules.json", [{**module, "kwargs": ["task", "truncate_dim"]}])
    card = {"prompts": {"query": "by ", "document": "of a "}, "default_prompt_name": "document"}
    write_json(folder / "config_sentence_transformers.json", card)
    noise = torch.Generator().manual_seed(5)
    for name in TASKS:
        added = write_adapter(model, folder / "adapters" / name, noise)
        if name == task:
            merged = added
    with torch.no_grad():
        for key, matrix in merged.items():
            model.get_parameter(key).add_(matrix)
    return model


def write_adapter(model: Any, folder: Path, noise: torch.Generator) -> dict[str, torch.Tensor]:
    """Save an adapter of every matrix of the layers; return what it adds."""
    folder.mkdir(parents=True)
    tensors: dict[str, torch.Tensor] = {}
    added: dict[str, torch.Tensor] = {}
    for key, matrix in model.named_parameters():
        if not key.endswith("proj.weight"):
            continue
        down = torch.randn(RANK, matrix.shape[1], generator=noise) * 0.3
        up = torch.randn(matrix.shape[0], RANK, generator=noise) * 0.3
        module = f"base_model.model.{key.removesuffix('.weight')}"
        tensors |= {f"{module}.lora_A.weight": down, f"{module}.lora_B.weight": up}
        added[key] = up @ down * (ALPHA / RANK)
    save_file(tensors, folder / "adapter_model.safetensors")
    options: dict[str, Any] = {"peft_type": "LORA", "r": RANK, "lora_alpha": ALPHA, "bias": "none"}
    options |= {"lora_dropout": 0.1, "use_dora": False, "rank_pattern": {}}
    write_json(folder / "adapter_config.json", options)
    return added


def write_json(path: Path, content: Any) -> None:
    path.write_text(json.dumps(content), encoding="utf-8")


def load(folder: Path, adapter: str) -> Embedder:
    return Embedder.load(folder, device="cpu", dtype="float32", adapter=adapter)


@pytest.mark.parametrize("case", [SMALL, NANO], ids=str)
def test_a_vector_is_the_last_state_with_the_adapter_of_a_task(case: Case, tmp_path: Path) -> None:
    model = write_v5(case, tmp_path, "text-matching")
    auto: Any = AutoTokenizer
    tokenizer = auto.from_pretrained(tmp_path)
    rows = [torch.tensor([tokenizer(f"of a {text}")["input_ids"]]) for text in TEXTS]

    def vectors(either: Any) -> torch.Tensor:
        last = torch.stack([either(row).last_hidden_state[0, -1] for row in rows])
        return torch.nn.functional.normalize(last)

    theirs = expected(model, vectors)
    embedder = load(tmp_path, "text-matching")
    assert_near(embedder.embed(TEXTS), theirs)
    assert embedder.recipe.pooling_source == "model"
    for other in ("retrieval", "none"):
        assert abs(load(tmp_path, other).embed(TEXTS) - theirs.values.numpy()).max() > 0.01
    (tmp_path / "modules.json").unlink()  # the prompts of the other file then have no effect
    assert load(tmp_path, "text-matching").recipe.pooling == ("lasttoken",)


def test_a_matrix_with_the_adapter_of_a_task_is_computed_when_it_is_read(tmp_path: Path) -> None:
    model = write_v5(SMALL, tmp_path, "clustering")
    spec = families.read(tmp_path).with_adapter("clustering")
    tracemalloc.start()
    loaded = weights.load(tmp_path, spec)
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    matrices = [each for name, each in model.named_parameters() if name.endswith("proj.weight")]
    assert kept < sum(4 * matrix.numel() for matrix in matrices)
    merged = model.get_parameter("layers.1.mlp.down_proj.weight").detach()
    np.testing.assert_allclose(loaded["layers.1.down.weight"], merged, atol=1e-6)


def test_the_task_must_be_named(tmp_path: Path) -> None:
    write_v5(SMALL, tmp_path, "retrieval")
    with pytest.raises(ModelError, match="one of retrieval, text-matching, clustering, or none"):
        families.read(tmp_path).with_adapter("auto")


def test_the_files_of_an_adapter_decide_the_fingerprint(tmp_path: Path) -> None:
    write_v5(SMALL, tmp_path, "retrieval")
    before = model_fingerprint.fingerprint(
        ModelDescription.read(tmp_path, ModelOptions(adapter="retrieval"))
    )
    path = tmp_path / "adapters/retrieval/adapter_config.json"
    write_json(path, {**json.loads(path.read_text()), "lora_alpha": 1})
    assert (
        model_fingerprint.fingerprint(
            ModelDescription.read(tmp_path, ModelOptions(adapter="retrieval"))
        )
        != before
    )


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"use_dora": True}, "lacks \\['lora_magnitude_vector'\\] of layers"),
        ({"rank_pattern": {"q_proj": 8}}, "rank_pattern = "),
        ({"peft_type": "LOHA"}, "peft_type = 'LOHA'"),
        ({"later": 1}, "later = 1 is not known"),
        ({"r": 0}, "r = 0"),
    ],
    ids=str,
)
def test_an_option_of_an_adapter_is_refused_by_name(
    changed: dict[str, Any], message: str, tmp_path: Path
) -> None:
    write_v5(SMALL, tmp_path, "retrieval")
    path = tmp_path / "adapters/retrieval/adapter_config.json"
    write_json(path, {**json.loads(path.read_text()), **changed})
    with pytest.raises(ModelError, match=message):
        load(tmp_path, "retrieval")


@pytest.mark.parametrize(
    ("tensors", "message"),
    [
        ({"base_model.model.layers.0.mlp.up_proj.bias": torch.ones(3)}, r"up_proj\.bias is not"),
        ({"base_model.model.layers.0.mlp.up_proj.lora_A.weight": torch.ones(4, 3)}, "lacks"),
        (
            {
                "base_model.model.layers.0.mlp.up_proj.lora_A.weight": torch.ones(4, 3),
                "base_model.model.layers.0.mlp.up_proj.lora_B.weight": torch.ones(5, 4),
            },
            r"up_proj.weight has the shape .* adapter's \(5, 3\)",
        ),
        (
            {
                "base_model.model.layers.0.other.lora_A.weight": torch.ones(4, 3),
                "base_model.model.layers.0.other.lora_B.weight": torch.ones(5, 4),
            },
            r"unknown tensor 'layers\.0\.other\.weight'",
        ),
    ],
    ids=["bias", "half", "shape", "unknown"],
)
def test_a_tensor_of_an_adapter_is_refused_by_name(
    tensors: dict[str, torch.Tensor], message: str, tmp_path: Path
) -> None:
    write_v5(SMALL, tmp_path, "retrieval")
    save_file(tensors, tmp_path / "adapters/retrieval/adapter_model.safetensors")
    with pytest.raises(ModelError, match=message):
        load(tmp_path, "retrieval")


def test_a_module_that_a_task_has_for_itself_is_refused(tmp_path: Path) -> None:
    write_v5(SMALL, tmp_path, "retrieval")
    folder = tmp_path / "adapters/retrieval"
    options = json.loads((folder / "adapter_config.json").read_text())
    write_json(folder / "adapter_config.json", {**options, "modules_to_save": ["norm"]})
    save_file(
        {"base_model.model.norm.weight": torch.ones(64)}, folder / "adapter_model.safetensors"
    )
    with pytest.raises(ModelError, match=r"\['norm.weight'\] for a task is not supported"):
        load(tmp_path, "retrieval")


def test_a_missing_adapter_is_refused(tmp_path: Path) -> None:
    write_v5(SMALL, tmp_path, "retrieval")
    (tmp_path / "adapters/clustering/adapter_model.safetensors").unlink()
    with pytest.raises(ModelError, match=r"clustering/adapter_model.safetensors is missing"):
        load(tmp_path, "clustering")


def test_a_text_is_the_same_bits_in_every_batch(tmp_path: Path) -> None:
    write_v5(NANO, tmp_path, "retrieval")
    embedder = load(tmp_path, "retrieval")
    alone = np.concatenate([embedder.embed([text]) for text in TEXTS])
    assert np.array_equal(embedder.embed(TEXTS), alone)
