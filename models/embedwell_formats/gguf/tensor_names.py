"""llama.cpp's names of tensors in GGUF files, each with the original checkpoint's."""

_BERT_LAYER, _NOMIC_LAYER, _LAYER = "encoder.layer.{}", "encoder.layers.{}", "layers.{}"
_BERT_INPUT = {
    "token_embd": "embeddings.word_embeddings",
    "token_types": "embeddings.token_type_embeddings",
}
BERT = {
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
JINA_BERT = {
    **BERT,
    "blk.ffn_up": f"{_BERT_LAYER}.mlp.gated_layers",
    "blk.ffn_down": f"{_BERT_LAYER}.mlp.wo",
    "blk.layer_output_norm": f"{_BERT_LAYER}.mlp.layernorm",
}
JINA_CODE = {
    **BERT,
    "blk.attn_q_norm": f"{_BERT_LAYER}.attention.self.layer_norm_q",
    "blk.attn_k_norm": f"{_BERT_LAYER}.attention.self.layer_norm_k",
    "blk.attn_norm_2": f"{_BERT_LAYER}.layer_norm_1",
    "blk.ffn_up": f"{_BERT_LAYER}.mlp.up_gated_layer",
    "blk.ffn_down": f"{_BERT_LAYER}.mlp.down_layer",
    "blk.layer_output_norm": f"{_BERT_LAYER}.layer_norm_2",
}
NOMIC = {
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
MODERN_BERT = {
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
LLAMA = {
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
QWEN35 = {
    **LLAMA,
    "blk.post_attention_norm": f"{_LAYER}.post_attention_layernorm",
    "blk.attn_qkv": f"{_LAYER}.linear_attn.in_proj_qkv",
    "blk.attn_gate": f"{_LAYER}.linear_attn.in_proj_z",
    "blk.ssm_a": f"{_LAYER}.linear_attn.A_log",
    "blk.ssm_alpha": f"{_LAYER}.linear_attn.in_proj_a",
    "blk.ssm_beta": f"{_LAYER}.linear_attn.in_proj_b",
    "blk.ssm_conv1d": f"{_LAYER}.linear_attn.conv1d",
    "blk.ssm_dt.bias": f"{_LAYER}.linear_attn.dt_bias",
    "blk.ssm_norm": f"{_LAYER}.linear_attn.norm",
    "blk.ssm_out": f"{_LAYER}.linear_attn.out_proj",
}
GEMMA = {
    **LLAMA,
    "blk.post_attention_norm": f"{_LAYER}.post_attention_layernorm",
    "blk.ffn_norm": f"{_LAYER}.pre_feedforward_layernorm",
    "blk.post_ffw_norm": f"{_LAYER}.post_feedforward_layernorm",
}
