"""MiniCPM rerankers of random weights, and their scores as FlagEmbedding computes them."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from transformers import GraniteConfig, GraniteModel, PreTrainedTokenizerFast

from tests.models.decoder_reranker import write_tokenizer

PROMPT = (
    "Given a query A and a passage B, determine whether the passage contains an answer to the "
    "query by providing a prediction of either 'Yes' or 'No'."
)
LAYERS, START, BOS = 4, 2, 3
CONFIG: dict[str, Any] = {
    **{"model_type": "minicpm", "architectures": ["LayerWiseMiniCPMForCausalLM"]},
    "auto_map": {
        "AutoConfig": "a/b--configuration_minicpm_reranker.LayerWiseMiniCPMConfig",
        "AutoModel": "a/b--modeling_minicpm_reranker.LayerWiseMiniCPMModel",
    },
    **{"attention_bias": False, "dim_model_base": 16, "head_multi": True, "head_type": "simple"},
    **{"hidden_act": "silu", "hidden_size": 64, "intermediate_size": 96},
    **{"max_position_embeddings": 512, "num_attention_heads": 4, "num_hidden_layers": LAYERS},
    **{"num_key_value_heads": 2, "rms_norm_eps": 1e-3, "rope_scaling": None, "rope_theta": 10000.0},
    **{"scale_depth": 1.4, "scale_emb": 12, "start_layer": START, "bos_token_id": BOS},
}


def write_layerwise(folder: Path, max_length: int = 512, **options: Any) -> Path:
    """Save a reranker of random weights with a tokenizer of bytes."""
    rows = write_tokenizer(folder, max_length)
    config = {**CONFIG, "vocab_size": rows + 3, **options}
    model, heads = _build(config)
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    named = {f"model.{name}": tensor for name, tensor in model.state_dict().items()}
    numbered = {f"lm_head.{i}.linear_head.weight": head for i, head in enumerate(heads)}
    save_file({**named, **numbered}, folder / "model.safetensors")
    return folder


@dataclass(frozen=True)
class Published:
    """The scores of a folder's reranker, of each pair alone. prompt: the published one."""

    folder: Path
    prompt: str = PROMPT

    def ids(self, text: str) -> list[int]:
        """Ids of a part."""
        fast: Any = PreTrainedTokenizerFast.from_pretrained(self.folder)
        part: list[int] = fast(text, add_special_tokens=False).input_ids
        return part

    @property
    def end(self) -> int:
        """Tokens of a separator and the prompt."""
        return len(self.ids("\n")) + len(self.ids(self.prompt))

    def row(self, query: str, passage: str, max_length: int) -> list[int]:
        """Ids of a pair. max_length: FlagEmbedding's, without the prompt and separators."""
        separator, prompt = self.ids("\n"), self.ids(self.prompt)
        first = [BOS, *self.ids(f"A: {query}")[: max_length * 3 // 4]]
        second = [*separator, *self.ids(f"B: {passage}")[:max_length]]
        most = max_length + len(separator) + len(prompt) - len(first)
        return [*first, *second[:most], *separator, *prompt]

    def scores(
        self, pairs: list[tuple[str, str]], max_length: int = 400, layer: int = LAYERS
    ) -> torch.Tensor:
        """Scores of the pairs by the head of a layer."""
        config = json.loads((self.folder / "config.json").read_text(encoding="utf-8"))
        model, heads = _build(config)
        scores = []
        with torch.no_grad():
            for pair in pairs:
                ids = torch.tensor([self.row(*pair, max_length)])
                output = model(ids, output_hidden_states=True)
                state = output.hidden_states[layer][0, -1]  # the last is normalised
                state = state if layer == LAYERS else model.norm(state)
                scores.append(heads[layer - START] @ state)
        return torch.stack(scores)


def _build(config: dict[str, Any]) -> tuple[GraniteModel, list[torch.Tensor]]:
    # Granite has MiniCPM's layers, with other names of the factors.
    same = ("vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers", "rms_norm_eps")
    heads = ("num_attention_heads", "num_key_value_heads", "max_position_embeddings")
    model = GraniteModel(
        GraniteConfig(
            **{name: config[name] for name in (*same, *heads)},
            embedding_multiplier=config["scale_emb"],
            residual_multiplier=config["scale_depth"] / config["num_hidden_layers"] ** 0.5,
            attention_multiplier=(config["hidden_size"] / config["num_attention_heads"]) ** -0.5,
            rope_parameters={"rope_type": "default", "rope_theta": config["rope_theta"]},
            pad_token_id=None,
        )
    )
    noise = torch.Generator().manual_seed(7)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.normal_(1.0 if "norm" in name else 0.0, 0.3, generator=noise)
    model.train(False)
    rows = [
        torch.randn(1, config["hidden_size"], generator=noise) for _ in range(START, LAYERS + 1)
    ]
    return model, rows
