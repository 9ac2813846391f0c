"""MiniCPM and Gemma 2 rerankers of random weights, and their scores as FlagEmbedding has them."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from transformers import (
    Gemma2Config,
    Gemma2Model,
    GraniteConfig,
    GraniteModel,
    PreTrainedModel,
    PreTrainedTokenizerFast,
)

from tests.models.decoder_reranker import write_tokenizer
from tests.models.random_weights import randomize

PROMPT = (
    "Given a query A and a passage B, determine whether the passage contains an answer to the "
    "query by providing a prediction of either 'Yes' or 'No'."
)
LAYERS, START, BOS = 4, 2, 3
MINICPM: dict[str, Any] = {
    **{"model_type": "minicpm", "architectures": ["LayerWiseMiniCPMForCausalLM"]},
    "auto_map": {
        "AutoConfig": "a/b--configuration_minicpm_reranker.LayerWiseMiniCPMConfig",
        "AutoModel": "a/b--modeling_minicpm_reranker.LayerWiseMiniCPMModel",
    },
    **{"attention_bias": False, "dim_model_base": 16, "head_multi": True, "head_type": "simple"},
    **{"hidden_act": "silu", "hidden_size": 64, "intermediate_size": 128},
    **{"max_position_embeddings": 512, "num_attention_heads": 2, "num_hidden_layers": LAYERS},
    **{"num_key_value_heads": 1, "rms_norm_eps": 1e-3, "rope_scaling": None, "rope_theta": 10000.0},
    **{"scale_depth": 1.4, "scale_emb": 12, "start_layer": START, "bos_token_id": BOS},
}

COST_WISE_GEMMA: dict[str, Any] = {
    **{"model_type": "cost_wise_gemma", "architectures": ["CostWiseGemmaForCausalLM"]},
    "auto_map": {
        "AutoConfig": "a/b--gemma_config.CostWiseGemmaConfig",
        "AutoModel": "a/b--gemma_model.CostWiseGemmaModel",
    },
    **{"attn_logit_softcapping": 50.0, "final_logit_softcapping": 2.0, "head_dim": 32},
    **{"hidden_act": "gelu_pytorch_tanh", "hidden_activation": "gelu_pytorch_tanh"},
    **{"hidden_size": 64, "intermediate_size": 128, "layer_sep": 1, "layer_wise": True},
    **{"max_position_embeddings": 512, "num_attention_heads": 2, "num_hidden_layers": LAYERS},
    **{"num_key_value_heads": 1, "query_pre_attn_scalar": 32, "rms_norm_eps": 1e-3},
    **{"rope_theta": 10000.0, "sliding_window": 40, "sliding_window_size": 40},
    **{"start_layer": START, "bos_token_id": BOS},
}


def write_layerwise(
    folder: Path, kind: dict[str, Any] = MINICPM, max_length: int = 512, **options: Any
) -> Path:
    """Save a reranker of random weights with a tokenizer of bytes. kind: the keys of its config."""
    rows = write_tokenizer(folder, max_length)
    config = {**kind, "vocab_size": rows + 3, **options}
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
        norm: Any = model.norm
        scores = []
        with torch.no_grad():
            for pair in pairs:
                ids = torch.tensor([self.row(*pair, max_length)])
                output = model(ids, output_hidden_states=True)
                state = output.hidden_states[layer][0, -1]  # the last is normalised
                state = state if layer == LAYERS else norm(state)
                scores.append(_logit(config, heads, layer, state))
        return torch.stack(scores)


def _logit(
    config: dict[str, Any], heads: list[torch.Tensor], layer: int, state: torch.Tensor
) -> torch.Tensor:
    if config["model_type"] == "minicpm":
        return heads[layer - START] @ state
    cap: float = config[
        "final_logit_softcapping"
    ]  # the heads are counted from the first chosen layer
    return cap * torch.tanh(heads[0] @ state / cap)


def _build(config: dict[str, Any]) -> tuple[PreTrainedModel, list[torch.Tensor]]:
    is_gemma = config["model_type"] == "cost_wise_gemma"
    model = _gemma2(config) if is_gemma else _granite(config)
    noise = randomize(model, norms=0.0 if is_gemma else 1.0)
    model.train(False)
    rows = [
        torch.randn(1, config["hidden_size"], generator=noise) for _ in range(START, LAYERS + 1)
    ]
    return model, rows


def _gemma2(config: dict[str, Any]) -> PreTrainedModel:
    own = ("model_type", "architectures", "auto_map")
    options = {name: value for name, value in config.items() if name not in own}
    reference = Gemma2Config(**options)
    reference._attn_implementation = "eager"
    return Gemma2Model(reference)


def _granite(config: dict[str, Any]) -> PreTrainedModel:
    # Granite has MiniCPM's layers, with other names of the factors.
    same = ("vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers", "rms_norm_eps")
    heads = ("num_attention_heads", "num_key_value_heads", "max_position_embeddings")
    return GraniteModel(
        GraniteConfig(
            **{name: config[name] for name in (*same, *heads)},
            embedding_multiplier=config["scale_emb"],
            residual_multiplier=config["scale_depth"] / config["num_hidden_layers"] ** 0.5,
            attention_multiplier=(config["hidden_size"] / config["num_attention_heads"]) ** -0.5,
            rope_parameters={"rope_type": "default", "rope_theta": config["rope_theta"]},
            pad_token_id=None,
        )
    )
