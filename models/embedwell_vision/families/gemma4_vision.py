"""The image encoder of Gemma 4, whose vectors are tokens of a text.

A patch holds the three channels of each pixel side by side, and has a learned vector of its column
and one of its row. The first half of a head's features is rotated by the column, the second by the
row, each half for itself. A token is the mean of a block of patches, normalised and projected.
"""

from embedwell_models.config.encoder_config import EncoderConfig, plain_config
from embedwell_models.config.json_config import JsonConfig
from embedwell_models.config.layer_spec import ACTIVATIONS
from embedwell_models.config.model_spec import ModelSpec
from embedwell_models.config.tensor_names import linear
from embedwell_models.families import gemma, qwen
from embedwell_models.positions.schemes import Rotary
from embedwell_vision.specs import ImageTokenSpec

PLACEHOLDER = "<|image|>"
AROUND = ("<|image>", "<image|>")
_CHANNELS = 3
_TENSORS = {
    "patch_embedder.input_proj.weight": "patch.weight",
    "patch_embedder.position_embedding_table": "patch.columns|rows.weight",
    **{
        f"encoder.{theirs}": ours
        for theirs, ours in {
            **linear("layers.{}.self_attn.q_proj.linear", "layers.{}.query"),
            **linear("layers.{}.self_attn.k_proj.linear", "layers.{}.key"),
            **linear("layers.{}.self_attn.v_proj.linear", "layers.{}.value"),
            **linear("layers.{}.self_attn.o_proj.linear", "layers.{}.output"),
            **qwen.NORMS,
            **linear("layers.{}.input_layernorm", "layers.{}.attention_norm"),
            **gemma.SANDWICH,
            **linear("layers.{}.mlp.gate_proj.linear", "layers.{}.gate"),
            **linear("layers.{}.mlp.up_proj.linear", "layers.{}.up"),
            **linear("layers.{}.mlp.down_proj.linear", "layers.{}.down"),
        }.items()
    },
}
# Options of the file that transformers' encoder does not read.
_UNREAD = ("attention_bias", "default_output_length", "global_head_dim", "max_position_embeddings")


def image_tokens(
    vision: JsonConfig, width: int, id: int, *, embedder: str, unused: tuple[str, ...]
) -> ImageTokenSpec:
    """Build the spec from vision_config.

    width: of the text encoder's states. id: the token id that stands for one vector. embedder: name
    of the projection to the text's width. unused: see ModelSpec.

    Raises ModelError for an option that is not supported.
    """
    vision.require("model_type", "gemma4_vision")
    for key in ("use_clipped_linears", "standardize"):
        vision.require(key, False)
    for key in _UNREAD:
        vision.get(key)
    config = _config(vision)
    patch, rows = vision.get("patch_size", 16), vision.get("position_embedding_size", 10_240)
    names = linear(f"{embedder}.embedding_projection", "connector")
    encoder = ModelSpec(
        config=config,
        tensors=_TENSORS | names,
        unused=unused,
        prefixes=("vision_tower.",),
        shapes={
            "patch.weight": (config.hidden_size, _CHANNELS * patch**2),
            "patch.columns.weight": (1, rows * config.hidden_size),
            "patch.rows.weight": (1, rows * config.hidden_size),
            "connector.weight": (width, config.hidden_size),
        },
    )
    return ImageTokenSpec(
        encoder=encoder,
        patch_size=patch,
        frames=1,
        merge=vision.get("pooling_kernel_size", 3),
        grid=rows,
        deepstack=(),
        id=id,
        sections=None,
        placeholder=PLACEHOLDER,
        around=AROUND,
        of_gemma=True,
    )


def _config(vision: JsonConfig) -> EncoderConfig:
    size, heads = vision.get("head_dim", 64), vision.get("num_attention_heads", 12)
    if size % 4:
        raise vision.unsupported("head_dim", size, "a multiple of 4")
    rotation = vision.nested("rope_parameters")
    rotation.require("rope_type", "axial", "default")  # an older name of the same
    return plain_config(
        vocab_size=0,
        hidden_size=vision.get("hidden_size", 768),
        num_layers=vision.get("num_hidden_layers", 16),
        num_heads=heads,
        num_kv_heads=vision.get("num_key_value_heads", 12),
        head_size=size,
        normed_values=True,
        intermediate_size=vision.get("intermediate_size", 3072),
        max_positions=1,  # the tables are outside
        activation=vision.choice("hidden_activation", ACTIVATIONS, "gelu_pytorch_tanh"),
        gated=True,
        norm="rms",
        norm_eps=vision.get("rms_norm_eps", 1e-6),
        scale=1.0,
        positions=Rotary(dim=size, base=float(rotation.get("rope_theta", 100.0))),
        arrangement="sandwich",
    )
