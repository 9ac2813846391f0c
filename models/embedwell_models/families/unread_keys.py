"""Keys of config.json that change no vector, and those that nothing reads.

A key of a later version of transformers may change vectors, so the log names it.
"""

from collections.abc import Sequence
from fnmatch import fnmatchcase

from embedwell_models.config.json_config import JsonConfig

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
