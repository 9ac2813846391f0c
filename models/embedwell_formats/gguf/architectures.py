"""Architectures of GGUF files: config.json, names and values of the original checkpoint.

The names and values are those that llama.cpp's converter writes.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from embedwell_formats.gguf import tensor_names
from embedwell_formats.gguf.file import Metadata
from embedwell_models.errors import ModelError

DENSE = ("dense_2.weight", "dense_3.weight")
"""Layers after the pooling, which the folder of a model has in files of their own."""

ANSWERS = "cls.output.weight"
"""Rows of the answers that a language model that reranks gives; in a BERT, its last layer."""

_LAYERS_OF_27B = 62

Config = dict[str, Any]
"""Content of config.json."""


@dataclass(frozen=True)
class Architecture:
    """Architecture of a file.

    config: builds config.json. names: llama.cpp's name of a layer's tensor, or one outside the
    layers -> the original's, both without the ending or both with it. norm_shift: what the file
    adds to the weights of norms. interleaved: whether the rows of queries and keys are ordered for
    rotary positions of neighbouring features. decoder: whether a token attends to earlier ones
    alone, unless the file says otherwise. delta_net: whether layers are Gated DeltaNets.
    gated_first: whether the gate's rows precede the others in the original's joined matrix; None
    for an architecture that never joins them.
    """

    config: Callable[[Metadata], Config]
    names: Mapping[str, str]
    norm_shift: float = 0.0
    interleaved: bool = False
    decoder: bool = False
    delta_net: bool = False
    gated_first: bool | None = None

    def rename(self, name: str) -> str:
        """Return the original name of a tensor; an unknown name stays as it is."""
        layer = re.fullmatch(r"blk\.(\d+)\.(.+)", name)
        ours, number = (f"blk.{layer[2]}", layer[1]) if layer else (name, "")
        if ours in self.names:
            return self.names[ours].format(number)
        stem, _, ending = ours.rpartition(".")
        return f"{self.names[stem].format(number)}.{ending}" if stem in self.names else name


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


def _jina_bert(metadata: Metadata) -> Config:
    code = {"_name_or_path": "jinaai/jina-bert-v2-qk-post-norm"} if _is_code(metadata) else {}
    return {
        "model_type": "bert",
        "architectures": ["JinaBertModel"],
        **code,
        **_common(metadata),
        "max_position_embeddings": metadata.size("context_length"),
        "type_vocab_size": metadata.rows("token_types.weight"),
        "layer_norm_eps": metadata.number("attention.layer_norm_epsilon"),
        "position_embedding_type": "alibi",
        "feed_forward_type": "geglu",
    }


def _is_code(metadata: Metadata) -> bool:
    # The JinaBERT for programming languages normalises the states after the attention once more.
    return "blk.0.attn_norm_2.weight" in metadata.tensors


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


def _qwen35(metadata: Metadata) -> Config:
    value_heads, inner = metadata.size("ssm.time_step_rank"), metadata.size("ssm.inner_size")
    sizes = _of_decoder(metadata)
    rotation = {
        "rope_type": "default",
        **_rope_scaling(metadata).get("rope_scaling", {}),
        "rope_theta": metadata.number("rope.freq_base", 10_000.0),
        "partial_rotary_factor": metadata.size("rope.dimension_count") / sizes["head_dim"],
    }
    return {
        "model_type": "qwen3_5_text",
        "architectures": ["Qwen3_5TextModel"],
        **sizes,
        "num_hidden_layers": number_of_layers(metadata),
        "is_causal": metadata.optional("attention.causal", True),
        "rope_parameters": rotation,
        "hidden_act": "silu",
        "full_attention_interval": metadata.optional("full_attention_interval", 4),
        "linear_num_key_heads": metadata.size("ssm.group_count"),
        "linear_num_value_heads": value_heads,
        "linear_key_head_dim": metadata.size("ssm.state_size"),
        "linear_value_head_dim": inner // value_heads,
        "linear_conv_kernel_dim": metadata.size("ssm.conv_kernel"),
    }


def number_of_layers(metadata: Metadata) -> int:
    """Return the number of layers without those that predict further tokens."""
    return metadata.size("block_count") - metadata.optional("nextn_predict_layers", 0)


def _eurobert(metadata: Metadata) -> Config:
    _refuse_scaling(metadata)
    return {
        "model_type": "eurobert",
        "architectures": ["EuroBertModel"],
        **_of_decoder(metadata),
        "rope_theta": metadata.number("rope.freq_base", 10_000.0),
        "hidden_act": "silu",
    }


def _gemma3(metadata: Metadata) -> Config:
    pattern = metadata.optional("attention.sliding_window_pattern", 6)
    return {
        "model_type": "gemma3_text",
        "architectures": ["Gemma3TextModel"],
        **_of_decoder(metadata),
        **_rope_scaling(metadata),
        "use_bidirectional_attention": metadata.architecture == "gemma-embedding",
        "sliding_window": metadata.size("attention.sliding_window"),
        "sliding_window_pattern": pattern,
        "query_pre_attn_scalar": _query_scalar(metadata),
        "rope_theta": metadata.number("rope.freq_base", 1_000_000.0),
        "rope_local_base_freq": metadata.number("rope.freq_base_swa", 10_000.0),
        "hidden_activation": "gelu_pytorch_tanh",
    }


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
        "num_key_value_heads": metadata.size("attention.head_count_kv", heads),
        "head_dim": metadata.size(
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


ARCHITECTURES: Mapping[str, Architecture] = {
    "bert": Architecture(_bert, tensor_names.BERT),
    "jina-bert-v2": Architecture(_jina_bert, tensor_names.JINA_BERT, gated_first=True),
    "nomic-bert": Architecture(_nomic, tensor_names.NOMIC),
    "modern-bert": Architecture(_modern_bert, tensor_names.MODERN_BERT),
    "eurobert": Architecture(_eurobert, tensor_names.LLAMA),
    "qwen2": Architecture(_decoder("qwen2", "Qwen2Model"), tensor_names.LLAMA, decoder=True),
    "qwen3": Architecture(_decoder("qwen3", "Qwen3Model"), tensor_names.LLAMA, decoder=True),
    "qwen3vl": Architecture(
        _decoder("qwen3_vl_text", "Qwen3VLTextModel"), tensor_names.LLAMA, decoder=True
    ),
    "qwen35": Architecture(
        _qwen35, tensor_names.QWEN35, norm_shift=1.0, decoder=True, delta_net=True
    ),
    "llama": Architecture(
        _decoder("llama", "LlamaModel"), tensor_names.LLAMA, interleaved=True, decoder=True
    ),
    "gemma3": Architecture(_gemma3, tensor_names.GEMMA, norm_shift=1.0, decoder=True),
    "gemma-embedding": Architecture(_gemma3, tensor_names.GEMMA, norm_shift=1.0),
}
"""Architectures that are served, by `general.architecture`."""

_JINA_OF_CODE = Architecture(_jina_bert, tensor_names.JINA_CODE, gated_first=False)


def find(metadata: Metadata) -> Architecture:
    """Return the architecture of a file; raises ModelError for one that is not served."""
    if metadata.architecture not in ARCHITECTURES:
        raise ModelError(
            f"{metadata.file.path}: GGUF files of the architecture {metadata.architecture!r} are "
            f"not read; supported: {', '.join(ARCHITECTURES)}. Give the folder of the original "
            "model, with its config.json and model.safetensors, or its name on the hub"
        )
    if metadata.architecture == "jina-bert-v2" and _is_code(metadata):
        return _JINA_OF_CODE
    return ARCHITECTURES[metadata.architecture]
