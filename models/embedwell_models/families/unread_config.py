"""Find the keys and the code of a config.json that no family reads.

Remote code (`auto_map`) is never run: a family replaces it, or it is refused. Code of decoders is
also known by its name to be bidirectional. A key of a later version of transformers may change
vectors, so the log names it.
"""

import re
import tomllib
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path

from embedwell_models.config.json_config import JsonConfig
from embedwell_models.errors import ModelError

_BIDIRECTIONAL = Path(__file__).with_name("bidirectional_code.toml")
_PLAMO = (
    "what PLaMo-Embedding-1B computes, which tokens it pools, and how its tokenizer splits words"
)
_COLEMBED = "into how many tiles it cuts an image, and which text it puts around them"
_ONLY_CODE: Mapping[str, str] = {  # model_type or class -> facts that only the code tells
    "jasper_vl": "how Jasper reads texts and images, and which of its matrices follow the pooling",
    "LlamaNemotronColEmbedVLModel": _COLEMBED,
    "llama_NemoRetrieverColEmbed": _COLEMBED,
    "plamo": _PLAMO,
    "PlamoBiModel": _PLAMO,
}


def refuse_undescribed(options: JsonConfig) -> None:
    """Raise ModelError, with the reason, for a model that only its own code describes."""
    names = [options.get("model_type", ""), *options.get("architectures", [])]
    for name in names:
        if name in _ONLY_CODE:
            raise ModelError(
                f"{options.path}: {name} is not supported: only code of the model, which is not "
                f"run, says {_ONLY_CODE[name]}"
            )


def refuse_unknown_code(options: JsonConfig, replaced: Sequence[str]) -> None:
    """Raise ModelError if config.json names remote code that is not among the replaced classes.

    A decoder with `is_causal` in config.json is accepted, and one whose code is known to be
    bidirectional.
    """
    code = options.get("auto_map", {}).get("AutoModel")
    if code is None or "is_causal" in options or bidirectional_code(options):
        return
    if str(code).rpartition(".")[2] not in replaced:
        raise options.unsupported(
            "auto_map", {"AutoModel": code}, f"{replaced}; code of a model is not run"
        )


def bidirectional_code(options: JsonConfig) -> str:
    """Name a decoder's own code if it is known to let each token see the whole text; "" otherwise.

    Examples are LLM2Vec (BehnamGhader et al. 2024, arXiv 2404.05961) and DRAMA (Ma et al. 2025,
    arXiv 2502.18460). It is "" as well if config.json has `is_causal`.
    """
    if "is_causal" in options:
        return ""
    known_class, repositories = _known_code()
    code = str(options.get("auto_map", {}).get("AutoModel", ""))
    named, _, path = code.rpartition("--")
    for name in (path.rpartition(".")[2], *options.get("architectures", ())):
        if known_class.fullmatch(name):
            return str(name)
    known = (each for each in repositories if each == named or _is_of(each, options.path, code))
    return min(known, default="")


def _is_of(repository: str, config: Path, code: str) -> bool:
    # Whether the path of a config.json has a folder of a repository: models--organisation--name of
    # the hub's cache, organisation--name, organisation/name, or name if the file names own code.
    parts = (
        part.removeprefix("models--").replace("--", "/", 1) for part in config.absolute().parts
    )
    path = "/".join(parts)
    names = (repository, repository.rpartition("/")[2]) if code else (repository,)
    return any(f"/{name}/" in path for name in names)


@cache
def _known_code() -> tuple[re.Pattern[str], frozenset[str]]:
    # The classes and the repositories in the data file.
    known = tomllib.loads(_BIDIRECTIONAL.read_text(encoding="utf-8"))
    return re.compile("|".join(known["classes"])), frozenset(known["repositories"])


_WITHOUT_EFFECT = (  # patterns of keys
    # Training: what is dropped, and how weights begin.
    *("*dropout*", "*_pdrop", "initializer_*", "init_*", "gradient_checkpointing"),
    *("embedding_fraction", "label_smoothing*", "position_biased_input_training"),
    # Records of who wrote the file, and of number types: the weights have their own.
    *("_name_or_path", "transformers_version", "architectures", "dtype", "torch_dtype"),
    *(
        "model_type",
        "auto_map",
        "_commit_hash",
        "custom_pipelines",
        "pipeline_tag",
        "finetuning_task",
    ),
    # Heads of other tasks; a head that is served reads its own options.
    *("id2label", "label2id", "num_labels", "problem_type", "classifier_*", "pooler_*"),
    *("summary_*", "decoder_bias", "final_logit_softcapping", "logit_scale*", "mask_token_id"),
    *("sparse_pred*", "start_n_top", "end_n_top", "projection_dim"),
    *("task_specific_params", "task_type_vocab_size"),
    # Outputs that a call asks for, ways to compute the same, memory of past keys and values.
    *("output_*", "return_dict*", "use_return_dict", "use_cache", "chunk_size_feed_forward"),
    *("slow_but_exact", "pretraining_tp", "onnx_export", "reorder_and_upcast_attn", "torchscript"),
    *("deterministic_flash_attn", "use_flash_attn", "use_memory_efficient_attention"),
    *(
        "_attn_implementation*",
        "attn_implementation",
        "attn_impl",
        "unpad_inputs",
        "use_bfloat16",
        "block_size",
    ),
    *("mem_len", "reuse_len", "same_length", "use_mems*", "cache_implementation"),
    *("use_xformers", "fused_*", "mlp_checkpoint_lvl", "logn_attention_clip*"),
    # Generation of texts, and decoders.
    *("is_decoder", "is_encoder_decoder", "add_cross_attention", "cross_attention_hidden_size"),
    *("decoder_start_token_id", "num_decoder_layers", "scale_decoder_outputs", "tie_*"),
    *("max_length", "min_length", "do_sample", "early_stopping", "num_beam*", "temperature"),
    *("top_k", "top_p", "typical_p", "repetition_penalty", "length_penalty", "*no_repeat_ngram*"),
    *("bad_words_ids", "num_return_sequences", "forced_*", "remove_invalid_values", "prefix"),
    *("exponential_decay_length_penalty", "suppress_tokens", "begin_suppress_tokens"),
    *("diversity_penalty", "encoder_no_repeat*", "generation_*"),
    # Tokens, which the tokenizer's files state.
    *("*_token_id", "*_token_index", "tokenizer_class", "legacy"),
    # Stated by other keys, too, from which the families read them.
    *("learned_pos_emb", "type_vocab_size", "sliding_window", "position_embedding_type"),
    *("_sliding_window_pattern", "pruned_heads", "true_hidden_size"),
    # Read with the weights.
    *("quantization_config", "compression_config"),
    # Encoders of images and sounds, next to one of texts.
    *("vision_config", "audio_config"),
)

_ROTARY = (  # settings of other schemes than the stated one, and of images
    *("type", "factor", "*_factor", "mscale*", "beta_*", "truncate", "rope_theta"),
    *("*max_position_embeddings", "llama_4_scaling_beta", "mrope_*"),
)


def unread_keys(options: JsonConfig, ignored: Sequence[str]) -> tuple[str, ...]:
    """Return keys that were not read and are not known to change nothing, sorted.

    ignored: patterns of further keys that change nothing in the family.
    """
    return tuple(sorted(key for key in options.unread if not _is_without_effect(key, ignored)))


def _is_without_effect(key: str, ignored: Sequence[str]) -> bool:
    above, _, name = key.rpartition(".")
    known = (*_WITHOUT_EFFECT, *ignored, *(_ROTARY if ".rope_" in f".{above}" else ()))
    patterns = (pattern for pattern in known if "*" in pattern)  # each is compiled: 0.1 ms
    return name in known or any(fnmatchcase(name, pattern) for pattern in patterns)
