"""Nomic Embed Vision (arXiv 2406.18587): images in the space of Nomic's texts.

An EVA-02 (Fang et al. 2023, arXiv 2303.11331) whose patches are pooled by attention.
"""

from dataclasses import replace

from embedwell_models.config.encoder_config import EncoderConfig, plain_config
from embedwell_models.config.json_config import JsonConfig
from embedwell_models.config.tensor_names import affine
from embedwell_models.families import nomic
from embedwell_models.positions.schemes import GridRotary, Learned
from embedwell_vision.families import vision
from embedwell_vision.specs import ImageSpec

_INNER_EPS = 1e-5  # whatever layer_norm_epsilon is
_LAYER = "layers.{}"
_REQUIRED = {  # the supported values of options, which are also the defaults of Nomic's code
    "causal": False,
    "eva_qkv_bias": False,
    "global_pool": None,
    "layer_scale": False,
    "learned_pos_embedding": False,
    "mask_token": False,
    "mlp_fc1_bias": True,
    "mlp_fc2_bias": True,
    "no_cls_token": False,
    "no_embed_class": False,
    "num_channels": vision.CHANNELS,
    "parallel_block": False,
    "parallel_block_tied_norm": False,
    "patch_embed_bias": True,
    "prepre_layernom": False,
    "qkv_proj_bias": True,
    "register_tokens": 0,
    "rotary_emb_fraction": 0,
    "rotary_scaling_factor": None,
    "scale_attn_by_inverse_layer_idx": False,
    "scale_attn_weights": True,
    "sinusoidal_pos_embedding": False,
    "use_pos_embed": True,
    "use_rms_norm": False,
}
_STATED = ("no_last_ln", "norm_mlp", "prenorm", "use_rotary_pos_emb")  # must be true
IGNORED = (  # of texts, of training, or without effect on images
    *("dense_seq_output", "drop_path_rate", "hidden_features_scaling_factor", "layer_scale_init"),
    *("max_trained_positions", "n_positions", "pad_vocab_size_multiple", "rotary_emb_base"),
    *("rotary_emb_interleaved", "rotary_emb_scale_base", "use_xentropy", "vocab_size"),
)


def read(options: JsonConfig) -> ImageSpec:
    """Build the spec of an image encoder; raises ModelError for an option that is not supported."""
    for key, value in _REQUIRED.items():
        options.require(key, value)
    for key in _STATED:
        if not options[key]:
            raise options.unsupported(key, False, True)
    size, side = options["img_size"], options["patch_size"]
    spec = vision.of_squares(_config(options, size // side), TENSORS, size, side)
    return replace(spec, adds_class_token=True)


def _config(options: JsonConfig, grid: int) -> EncoderConfig:
    width, heads = options["n_embd"], options["n_head"]
    if width % (4 * heads):
        raise options.unsupported("n_embd", width, f"multiples of 4 * n_head = {4 * heads}")
    trained = options.get("ref_feat_shape") or [grid, grid]
    if len({*trained}) != 1:
        raise options.unsupported("ref_feat_shape", trained, "a square")
    positions = GridRotary(dim=width // heads, interleaved=True, side=grid, step=trained[0] / grid)
    return plain_config(
        vocab_size=1,
        hidden_size=width,
        num_layers=options["n_layer"],
        num_heads=heads,
        intermediate_size=nomic.intermediate_size(options, width, gated=True),
        max_positions=grid**2 + 1,
        activation=options.choice("activation_function", nomic.GATES),
        gated=True,
        inner_norm_eps=_INNER_EPS,
        norm_eps=options.get("layer_norm_epsilon", 1e-5),
        input_positions=Learned(),
        positions=positions,
        arrangement="pre",
    )


def _network(theirs: str, ours: str) -> dict[str, str]:
    return {
        **affine(f"{theirs}.fc11", f"{ours}.up"),
        **affine(f"{theirs}.fc12", f"{ours}.gate"),
        **affine(f"{theirs}.fc2", f"{ours}.down"),
    }


TENSORS = {
    "embeddings.cls_token": "token_table",
    "embeddings.pos_embed": "position_table",
    **affine("embeddings.proj", "patch"),
    **affine(f"{_LAYER}.attn.Wqkv", "layers.{}.query|key|value"),
    **affine(f"{_LAYER}.attn.out_proj", "layers.{}.output"),
    **affine(f"{_LAYER}.norm1", "layers.{}.attention_norm"),
    **affine(f"{_LAYER}.norm2", "layers.{}.ffn_norm"),
    **_network(f"{_LAYER}.mlp", "layers.{}"),
    **affine(f"{_LAYER}.mlp.norm", "layers.{}.inner_norm"),
    "selector.attn.latent": "pool.probe",
    **affine("selector.attn.Wq", "pool.query"),
    **affine("selector.attn.Wkv", "pool.key|value"),
    **affine("selector.attn.out_proj", "pool.output"),
    **affine("selector.norm1", "pool.norm"),
    **_network("selector.mlp", "pool"),
}
