"""Architectures of GGUF files: config.json, names and values of the original checkpoint.

The names and values are those that llama.cpp's converter writes.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from embedwell_models.errors import ModelError
from embedwell_models.gguf.blocks import BlockMatrix
from embedwell_models.gguf.file import GgufFile, Metadata, TensorInfo
from embedwell_models.tables.table import Stored, decoded

DENSE = ("dense_2.weight", "dense_3.weight")
"""Layers after the pooling, which the folder of a model has in files of their own."""

ANSWERS = "cls.output.weight"
"""Rows of the answers that a language model that reranks gives; in a BERT, its last layer."""

_SCORE = "score.weight"
_ROTATED = {  # ending of a name -> key of its number of heads
    **dict.fromkeys(("attn_q.weight", "attn_q.bias"), "attention.head_count"),
    **dict.fromkeys(("attn_k.weight", "attn_k.bias"), "attention.head_count_kv"),
}

_LAYERS_OF_27B = 62

Config = dict[str, Any]
"""Content of config.json."""


@dataclass(frozen=True)
class Architecture:
    """Architecture of a file.

    config: builds config.json. names: llama.cpp's name of a layer's tensor, or one outside the
    layers -> the original's, without the ending. norm_shift: what the file adds to the weights of
    norms. interleaved: whether the rows of queries and keys are ordered for rotary positions of
    neighbouring features. decoder: whether a token attends to earlier ones alone, unless the file
    says otherwise.
    """

    config: Callable[[Metadata], Config]
    names: Mapping[str, str]
    norm_shift: float = 0.0
    interleaved: bool = False
    decoder: bool = False

    def rename(self, name: str) -> str:
        """Return the original name of a tensor; an unknown name stays as it is."""
        stem, _, ending = name.rpartition(".")
        layer = re.fullmatch(r"blk\.(\d+)\.(.+)", stem)
        theirs = self.names.get(f"blk.{layer[2]}" if layer else stem)
        if theirs is None:
            return name
        return f"{theirs.format(layer[1]) if layer else theirs}.{ending}"


def has_answers(metadata: Metadata) -> bool:
    """Whether a Qwen3 has the rows of the answers yes and no, as Qwen3-Reranker has."""
    stated = metadata.optional("classifier.output_labels", ["yes", "no"])
    is_qwen3 = metadata.architecture == "qwen3" and ANSWERS in metadata.tensors
    return is_qwen3 and stated == ["yes", "no"] and metadata.rows(ANSWERS) == 2


def has_classifier(metadata: Metadata) -> bool:
    """Whether a BERT has both layers of a classifier of pairs, as rerankers have."""
    layers = {f"{name}.{part}" for name in ("cls", "cls.output") for part in ("weight", "bias")}
    return metadata.architecture == "bert" and layers <= metadata.tensors.keys()


def _bert(metadata: Metadata) -> Config:
    classifier: Config = {"architectures": ["BertModel"]}
    if has_classifier(metadata):
        labels = metadata.rows("cls.output.weight")
        names = {str(index): f"LABEL_{index}" for index in range(labels)}
        classifier = {"architectures": ["BertForSequenceClassification"], "id2label": names}
    return {
        "model_type": "bert",
        **classifier,
        **_common(metadata),
        # The table begins with the first position, whatever the offset of the original.
        "max_position_embeddings": metadata.rows("position_embd.weight"),
        "type_vocab_size": metadata.rows("token_types.weight"),
        "layer_norm_eps": metadata.number("attention.layer_norm_epsilon"),
        "hidden_act": "gelu",
    }


def _nomic(metadata: Metadata) -> Config:
    _refuse_scaling(metadata)
    return {
        "model_type": "nomic_bert",
        "architectures": ["NomicBertModel"],
        "vocab_size": metadata.rows("token_embd.weight"),
        "n_embd": metadata.size("embedding_length"),
        "n_layer": metadata.size("block_count"),
        "n_head": metadata.size("attention.head_count"),
        "n_inner": metadata.size("feed_forward_length"),
        "n_positions": metadata.size("context_length"),
        "type_vocab_size": metadata.rows("token_types.weight"),
        "layer_norm_epsilon": metadata.number("attention.layer_norm_epsilon"),
        "activation_function": "swiglu",
        "rotary_emb_base": metadata.number("rope.freq_base"),
        "rotary_emb_fraction": 1.0,
        **dict.fromkeys(("qkv_proj_bias", "mlp_fc1_bias", "mlp_fc2_bias"), False),
    }


def _modern_bert(metadata: Metadata) -> Config:
    _refuse_scaling(metadata)
    return {
        "model_type": "modernbert",
        "architectures": ["ModernBertModel"],
        **_common(metadata),
        "max_position_embeddings": metadata.size("context_length"),
        "norm_eps": metadata.number("attention.layer_norm_epsilon"),
        "hidden_activation": "gelu",
        "local_attention": metadata.size("attention.sliding_window"),
        "global_attn_every_n_layers": metadata.optional("attention.sliding_window_pattern", 3),
        "global_rope_theta": metadata.number("rope.freq_base"),
        "local_rope_theta": metadata.number("rope.freq_base_swa", 10_000.0),
    }


def _decoder(model_type: str, name: str) -> Callable[[Metadata], Config]:
    def config(metadata: Metadata) -> Config:
        causal = metadata.optional("attention.causal", True)
        reranks = has_answers(metadata)
        return {
            "model_type": model_type,
            "architectures": ["Qwen3ForSequenceClassification" if reranks else name],
            **({"num_labels": 1} if reranks else {}),
            **_of_decoder(metadata),
            **({} if causal else {"is_causal": False}),
            **_rope_scaling(metadata),
            "rope_theta": metadata.number("rope.freq_base", 10_000.0),
            "hidden_act": "silu",
            # Qwen 2 has these biases always.
            **(
                {}
                if model_type == "qwen2"
                else {"attention_bias": "blk.0.attn_q.bias" in metadata.tensors}
            ),
        }

    return config


def _eurobert(metadata: Metadata) -> Config:
    _refuse_scaling(metadata)
    return {
        "model_type": "eurobert",
        "architectures": ["EuroBertModel"],
        **_of_decoder(metadata),
        "rope_theta": metadata.number("rope.freq_base", 10_000.0),
        "hidden_act": "silu",
    }


def _gemma3(metadata: Metadata, bidirectional: bool = False) -> Config:
    pattern = metadata.optional("attention.sliding_window_pattern", 6)
    return {
        "model_type": "gemma3_text",
        "architectures": ["Gemma3TextModel"],
        **_of_decoder(metadata),
        **_rope_scaling(metadata),
        "use_bidirectional_attention": bidirectional,
        "sliding_window": metadata.size("attention.sliding_window"),
        "sliding_window_pattern": pattern,
        "query_pre_attn_scalar": _query_scalar(metadata),
        "rope_theta": metadata.number("rope.freq_base", 1_000_000.0),
        "rope_local_base_freq": metadata.number("rope.freq_base_swa", 10_000.0),
        "hidden_activation": "gelu_pytorch_tanh",
    }


def _embedding_gemma(metadata: Metadata) -> Config:
    return _gemma3(metadata, bidirectional=True)


def _query_scalar(metadata: Metadata) -> int:
    # The file has no value; llama.cpp, too, knows the one model that differs by its layers.
    if metadata.size("block_count") == _LAYERS_OF_27B:
        return metadata.size("embedding_length") // metadata.size("attention.head_count")
    return metadata.size("attention.key_length")


def _common(metadata: Metadata) -> Config:
    return {
        "vocab_size": metadata.rows("token_embd.weight"),
        "hidden_size": metadata.size("embedding_length"),
        "num_hidden_layers": metadata.size("block_count"),
        "num_attention_heads": metadata.size("attention.head_count"),
        "intermediate_size": metadata.size("feed_forward_length"),
    }


def _of_decoder(metadata: Metadata) -> Config:
    heads = metadata.size("attention.head_count")
    return {
        **_common(metadata),
        "num_key_value_heads": metadata.optional("attention.head_count_kv", heads),
        "head_dim": metadata.optional(
            "attention.key_length", metadata.size("embedding_length") // heads
        ),
        "max_position_embeddings": metadata.size("context_length"),
        "rms_norm_eps": metadata.number("attention.layer_norm_rms_epsilon"),
    }


def _rope_scaling(metadata: Metadata) -> Config:
    kind = metadata.optional("rope.scaling.type", "none")
    if "rope_freqs.weight" in metadata.tensors:
        raise ModelError(
            f"{metadata.file.path}: rotary positions with factors (rope_freqs) are not read from "
            "GGUF: give the folder of the original model, or its name on the hub"
        )
    if kind == "none":
        return {}
    if kind not in ("linear", "yarn"):
        raise metadata.unsupported("rope.scaling.type", kind, ("none", "linear", "yarn"))
    scaling: Config = {"rope_type": kind, "factor": metadata.number("rope.scaling.factor")}
    if kind == "yarn":
        original = metadata.size("rope.scaling.original_context_length")
        scaling["original_max_position_embeddings"] = original
    return {"rope_scaling": scaling}


def _refuse_scaling(metadata: Metadata) -> None:
    if (kind := metadata.optional("rope.scaling.type", "none")) != "none":
        raise metadata.unsupported("rope.scaling.type", kind, "none")


_BERT_LAYER, _NOMIC_LAYER, _LAYER = "encoder.layer.{}", "encoder.layers.{}", "layers.{}"
_BERT_INPUT = {
    "token_embd": "embeddings.word_embeddings",
    "token_types": "embeddings.token_type_embeddings",
}
_BERT = {
    **_BERT_INPUT,
    "position_embd": "embeddings.position_embeddings",
    "token_embd_norm": "embeddings.LayerNorm",
    "blk.attn_q": f"{_BERT_LAYER}.attention.self.query",
    "blk.attn_k": f"{_BERT_LAYER}.attention.self.key",
    "blk.attn_v": f"{_BERT_LAYER}.attention.self.value",
    "blk.attn_output": f"{_BERT_LAYER}.attention.output.dense",
    "blk.attn_output_norm": f"{_BERT_LAYER}.attention.output.LayerNorm",
    "blk.ffn_up": f"{_BERT_LAYER}.intermediate.dense",
    "blk.ffn_down": f"{_BERT_LAYER}.output.dense",
    "blk.layer_output_norm": f"{_BERT_LAYER}.output.LayerNorm",
    "cls": "bert.pooler.dense",
    "cls.output": "classifier",
}
_NOMIC = {
    **_BERT_INPUT,
    "token_embd_norm": "emb_ln",
    "blk.attn_qkv": f"{_NOMIC_LAYER}.attn.Wqkv",
    "blk.attn_output": f"{_NOMIC_LAYER}.attn.out_proj",
    "blk.attn_output_norm": f"{_NOMIC_LAYER}.norm1",
    "blk.ffn_up": f"{_NOMIC_LAYER}.mlp.fc11",
    "blk.ffn_gate": f"{_NOMIC_LAYER}.mlp.fc12",
    "blk.ffn_down": f"{_NOMIC_LAYER}.mlp.fc2",
    "blk.layer_output_norm": f"{_NOMIC_LAYER}.norm2",
}
_MODERN_BERT = {
    "token_embd": "embeddings.tok_embeddings",
    "token_embd_norm": "embeddings.norm",
    "output_norm": "final_norm",
    "blk.attn_norm": f"{_LAYER}.attn_norm",
    "blk.attn_qkv": f"{_LAYER}.attn.Wqkv",
    "blk.attn_output": f"{_LAYER}.attn.Wo",
    "blk.ffn_norm": f"{_LAYER}.mlp_norm",
    "blk.ffn_up": f"{_LAYER}.mlp.Wi",
    "blk.ffn_down": f"{_LAYER}.mlp.Wo",
    "cls": "head.dense",
    "cls.norm": "head.norm",
}
_LLAMA = {
    "token_embd": "embed_tokens",
    "output_norm": "norm",
    "output": "lm_head",
    "blk.attn_norm": f"{_LAYER}.input_layernorm",
    "blk.attn_q": f"{_LAYER}.self_attn.q_proj",
    "blk.attn_k": f"{_LAYER}.self_attn.k_proj",
    "blk.attn_v": f"{_LAYER}.self_attn.v_proj",
    "blk.attn_q_norm": f"{_LAYER}.self_attn.q_norm",
    "blk.attn_k_norm": f"{_LAYER}.self_attn.k_norm",
    "blk.attn_output": f"{_LAYER}.self_attn.o_proj",
    "blk.ffn_norm": f"{_LAYER}.post_attention_layernorm",
    "blk.ffn_gate": f"{_LAYER}.mlp.gate_proj",
    "blk.ffn_up": f"{_LAYER}.mlp.up_proj",
    "blk.ffn_down": f"{_LAYER}.mlp.down_proj",
}
_GEMMA = {
    **_LLAMA,
    "blk.post_attention_norm": f"{_LAYER}.post_attention_layernorm",
    "blk.ffn_norm": f"{_LAYER}.pre_feedforward_layernorm",
    "blk.post_ffw_norm": f"{_LAYER}.post_feedforward_layernorm",
}
ARCHITECTURES: Mapping[str, Architecture] = {
    "bert": Architecture(_bert, _BERT),
    "nomic-bert": Architecture(_nomic, _NOMIC),
    "modern-bert": Architecture(_modern_bert, _MODERN_BERT),
    "eurobert": Architecture(_eurobert, _LLAMA),
    "qwen2": Architecture(_decoder("qwen2", "Qwen2Model"), _LLAMA, decoder=True),
    "qwen3": Architecture(_decoder("qwen3", "Qwen3Model"), _LLAMA, decoder=True),
    "llama": Architecture(_decoder("llama", "LlamaModel"), _LLAMA, interleaved=True, decoder=True),
    "gemma3": Architecture(_gemma3, _GEMMA, norm_shift=1.0, decoder=True),
    "gemma-embedding": Architecture(_embedding_gemma, _GEMMA, norm_shift=1.0),
}
"""Architectures that are served, by `general.architecture`."""


def find(metadata: Metadata) -> Architecture:
    """Return the architecture of a file; raises ModelError for one that is not served."""
    if metadata.architecture not in ARCHITECTURES:
        raise ModelError(
            f"{metadata.file.path}: GGUF files of the architecture {metadata.architecture!r} are "
            f"not read; supported: {', '.join(ARCHITECTURES)}. Give the folder of the original "
            "model, with its config.json and model.safetensors, or its name on the hub"
        )
    return ARCHITECTURES[metadata.architecture]


def arrays(path: Path) -> Iterator[tuple[str, str, Stored]]:
    """Map a file, and yield name, type and numbers of each tensor of the encoder.

    Raises ModelError for a file that cannot be read.
    """
    file = GgufFile.read(path)
    metadata = Metadata(file)
    architecture = find(metadata)
    for name, numbers in file.arrays():
        if name == ANSWERS and has_answers(metadata):
            yes, no = decoded(numbers)
            yield _SCORE, "F32", yes[None] - no  # whose sigmoid is the probability of yes
        elif name not in DENSE:
            original = _original(name, numbers, architecture, metadata)
            yield architecture.rename(name), file.tensors[name].kind, original


def infos(path: Path) -> Iterator[tuple[str, TensorInfo]]:
    """Yield name, shape and type of each tensor of the encoder; raises ModelError as `arrays`."""
    file = GgufFile.read(path)
    metadata = Metadata(file)
    architecture = find(metadata)
    for name, info in file.tensors.items():
        if name == ANSWERS and has_answers(metadata):
            yield _SCORE, replace(info, shape=(1, *info.shape[1:]), kind="F32")
        elif name not in DENSE:
            yield architecture.rename(name), info


def _original(name: str, numbers: Stored, architecture: Architecture, metadata: Metadata) -> Stored:
    if architecture.norm_shift and name.endswith("norm.weight"):
        return decoded(numbers) - np.float32(architecture.norm_shift)
    key = _ROTATED.get(name.split(".", 2)[-1])
    if not (architecture.interleaved and key):
        return numbers
    heads = metadata.size("attention.head_count")
    return _in_halves(numbers, heads if key.endswith("count") else metadata.optional(key, heads))


def _in_halves(numbers: Stored, heads: int) -> Stored:
    # The converter alternates the rows of the two halves of each head.
    order = np.arange(len(numbers)).reshape(heads, -1, 2).swapaxes(1, 2).ravel()
    if isinstance(numbers, BlockMatrix):
        return BlockMatrix(numbers.blocks[order], numbers.kind)
    return np.ascontiguousarray(numbers[order])
