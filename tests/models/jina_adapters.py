"""A Jina v3 of random weights with an adapter for each of three tasks."""

import json
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

from embedwell_models.config.json_config import read_json
from tests.models.families.checkpoint import SIZES, Case, write
from tests.models.families.files import edit
from tests.models.tiny import VOCABULARY, write_tokenizer

TASKS = ["retrieval.query", "retrieval.passage", "text-matching"]
PROMPTS = {"retrieval.query": "is this work ", "retrieval.passage": "a license "}
_CASE = Case("jina_embeddings_v3", sizes={**SIZES, "vocab_size": len(VOCABULARY)})


def write_adapters(plain: Path, folder: Path, chosen: int) -> None:
    """Save a model with adapters to a folder, and to another one with an adapter merged."""
    write(_CASE, plain)
    write(_CASE, folder)
    noise = torch.Generator().manual_seed(8)
    base, merged = {}, {}
    for name, tensor in load_file(plain / "model.safetensors").items():
        base[f"roberta.{name}"] = merged[name] = tensor
        if tensor.ndim < 2:
            continue
        (outputs, inputs), count = tensor.shape, len(TASKS)
        is_table = "embeddings" in name  # its rows are inputs: x (W + A B)
        shapes = ((outputs, 4), (4, inputs)) if is_table else ((4, inputs), (outputs, 4))
        a, b = (torch.randn(count, *shape, generator=noise) * 0.3 for shape in shapes)
        added = a[chosen] @ b[chosen] if is_table else b[chosen] @ a[chosen]
        merged[name] = tensor + added * (2 / 4)
        module = f"roberta.{name.removesuffix('weight')}parametrizations.weight"
        del base[f"roberta.{name}"]
        base |= {f"{module}.original": tensor, f"{module}.0.lora_A": a, f"{module}.0.lora_B": b}
    save_file(merged, plain / "model.safetensors", {"format": "pt"})
    save_file(base, folder / "model.safetensors", {"format": "pt"})
    own = {"model_type": "xlm-roberta", "position_embedding_type": "rotary"}
    theta = read_json(plain / "config.json")["rope_parameters"]["rope_theta"]
    adapters = {"lora_adaptations": TASKS, "lora_rank": 4, "lora_alpha": 2}
    edit(folder, "rope_parameters", **own, **adapters, rotary_emb_base=theta)


def write_modules(folder: Path) -> None:
    """Add the files of sentence-transformers, as the model has them."""
    modules = [{"type": "custom_st.Transformer", "path": ""}]
    modules.append({"type": "sentence_transformers.models.Pooling", "path": "1_Pooling"})
    (folder / "modules.json").write_text(json.dumps(modules))
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling/config.json").write_text('{"pooling_mode": "mean"}')


def write_sentence_model(folder: Path) -> Path:
    """Save a whole model of sentence-transformers, with prompts for two tasks; its folder."""
    write_adapters(folder / "merged", folder / "own", 0)
    write_modules(folder / "own")
    write_tokenizer(folder / "own")
    card = {"prompts": {**PROMPTS, "text-matching": ""}}
    (folder / "own/config_sentence_transformers.json").write_text(json.dumps(card))
    return folder / "own"
