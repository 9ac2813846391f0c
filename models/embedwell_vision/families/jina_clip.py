"""Jina CLIP v1 and v2, which embed texts and images in one space.

Koukounas et al. 2024 (arXiv 2405.20204, arXiv 2412.08802). Texts: a JinaBERT, or a Jina v3 with its
adapter for queries. Images: an EVA-02 (Fang et al. 2023, arXiv 2303.11331).
"""

from collections.abc import Callable, Mapping
from dataclasses import replace

from embedwell_models.config.encoder_config import EncoderConfig, plain_config
from embedwell_models.config.json_config import JsonConfig
from embedwell_models.config.model_spec import Adapters, ModelSpec
from embedwell_models.config.tensor_names import affine
from embedwell_models.errors import ModelError
from embedwell_models.families import bert, jina_v3, roberta
from embedwell_models.families.family import DocsRow, Family
from embedwell_models.families.unread_config import unread_keys
from embedwell_models.positions.schemes import Alibi, GridRotary, Learned, Scheme
from embedwell_vision.families import vision
from embedwell_vision.specs import ImageSpec

"""File with the config.json of the model that `hf_model_name_or_path` of the texts names."""

TEXT_CONFIG = "text_config.json"
"""File with the options of the text encoder."""
_EPS = 1e-6  # of every norm of images
_BERT = {
    "embeddings.word_embeddings.weight": "token_table",
    "embeddings.token_type_embeddings.weight": "segment_table",
    **{theirs: ours for theirs, ours in roberta.FLASH_TENSORS.items() if ".mlp." not in theirs},
    "encoder.layers.{}.mlp.gated_layers.weight": "layers.{}.gate|up.weight",
    **affine("encoder.layers.{}.mlp.wo", "layers.{}.down"),
}
"""Names in Jina's later code of the model, as in jina-clip-v1."""
_BERT_REQUIRED = {  # the supported values of options of that code
    "last_layer_subset": False,
    "pad_vocab_size_multiple": 1,
    "use_qk_norm": False,
    "window_size": [-1, -1],
}
_MAX_POSITIONS_OF_BERT = 8192  # if config.json does not state it
_IMAGE_REQUIRED = {  # the supported values of options of the image encoder
    "ls_init_value": None,
    "post_norm": False,
    "proj_type": None,
    "qkv_bias": True,
}
_IMAGE_STATED = ("naive_swiglu", "rope_embeddings", "subln")  # must be true
_BLOCK, _LAYER = "blocks.{}", "layers.{}"
IMAGE_TENSORS = {
    "cls_token": "token_table",
    "pos_embed": "position_table",
    **affine("patch_embed.proj", "patch"),
    **affine(f"{_BLOCK}.norm1", f"{_LAYER}.attention_norm"),
    f"{_BLOCK}.attn.q_proj.weight": f"{_LAYER}.query.weight",
    f"{_BLOCK}.attn.q_bias": f"{_LAYER}.query.bias",
    f"{_BLOCK}.attn.k_proj.weight": f"{_LAYER}.key.weight",
    f"{_BLOCK}.attn.v_proj.weight": f"{_LAYER}.value.weight",
    f"{_BLOCK}.attn.v_bias": f"{_LAYER}.value.bias",
    **affine(f"{_BLOCK}.attn.inner_attn_ln", f"{_LAYER}.mixed_norm"),
    **affine(f"{_BLOCK}.attn.proj", f"{_LAYER}.output"),
    **affine(f"{_BLOCK}.norm2", f"{_LAYER}.ffn_norm"),
    **affine(f"{_BLOCK}.mlp.w1", f"{_LAYER}.gate"),
    **affine(f"{_BLOCK}.mlp.w2", f"{_LAYER}.up"),
    **affine(f"{_BLOCK}.mlp.ffn_ln", f"{_LAYER}.inner_norm"),
    **affine(f"{_BLOCK}.mlp.w3", f"{_LAYER}.down"),
    **affine("norm", "final_norm"),
}
_IMAGE_UNUSED = ("text_model.*", "logit_scale", "rope.*", f"{_BLOCK}.attn.rope.*")
_TEXT_UNUSED = ("vision_model.*", "logit_scale")
_TEXT_PREFIX = "text_model.transformer."
_TEXT_IGNORED = (  # of adapters, of training, or of heads that the model does not have
    *("dense_seq_output", "emb_pooler", "load_trained_adapters", "lora_main_params_trainable"),
    *("matryoshka_dimensions", "num_loras", "task_instructions", "truncate_dim", "use_reentrant"),
)


def read(options: JsonConfig) -> ModelSpec:
    """Build the spec of both encoders; raises ModelError for an option that is not supported."""
    options.require("add_projections", False)
    options.require("truncate_dim", None)
    texts, images = options.nested("text_config"), _images(options.nested("vision_config"))
    for key in ("default_instruction_task", "proj_type"):
        texts.require(key, None)
    texts.choice("pooler_type", {"mean_pooler": "mean"})
    spec = _texts(texts)
    widths = [spec.config.hidden_size, texts["embed_dim"], images.width]
    if len({*widths}) != 1:
        raise ModelError(
            f"{options.path}: hidden_size of {TEXT_CONFIG}, embed_dim of texts and embed_dim of "
            f"images are {widths}: they must be equal"
        )
    return replace(spec, images=images)


def _texts(options: JsonConfig) -> ModelSpec:
    name, path = options["hf_model_name_or_path"], options.path.parent / TEXT_CONFIG
    if not path.is_file():
        raise ModelError(
            f"{path} is missing: it is the config.json of {name}, which has the sizes of the text "
            "encoder; put a copy of it there"
        )
    overrides = options.get("hf_model_config_kwargs", {})
    inner = JsonConfig(path).with_values(overrides)
    spec = inner.choice("model_type", _TEXT_ENCODERS)(inner)
    adapters = _adapter(spec.adapters, options)
    unread = unread_keys(inner, _TEXT_IGNORED)
    return replace(
        spec,
        prefixes=(f"{_TEXT_PREFIX}roberta.", _TEXT_PREFIX),
        unused=(*spec.unused, *_TEXT_UNUSED),
        adapters=adapters,
        unread_keys=tuple(f"{TEXT_CONFIG}: {key}" for key in unread),
    )


def _adapter(adapters: Adapters | None, options: JsonConfig) -> Adapters | None:
    if adapters is None:
        options.require("default_lora_task", None)
        return None
    indices = {name: index for index, name in enumerate(adapters.names)}
    chosen = options.choice("default_lora_task", indices)
    return replace(adapters, chosen=chosen, always=True)


def _read_v3(options: JsonConfig) -> ModelSpec:
    options.require("position_embedding_type", "rotary")
    return jina_v3.read(options)


def _read_bert(options: JsonConfig) -> ModelSpec:
    """Build the spec of a JinaBERT from the config.json of Jina's later code."""
    for key, value in _BERT_REQUIRED.items():
        options.require(key, value)
    if options["mlp_type"] != "glu":
        raise options.unsupported("mlp_type", options["mlp_type"], "glu")
    config = bert.config(
        options.with_defaults({"max_position_embeddings": _MAX_POSITIONS_OF_BERT}),
        input_positions=Scheme(),
        positions=Alibi(),
        activation=options.choice("hidden_act", {"gelu": "gelu", "relu": "relu"}),
        gated=True,
    )
    return ModelSpec(config=config, tensors=_BERT, unused=bert.UNUSED)


_TEXT_ENCODERS: Mapping[str, Callable[[JsonConfig], ModelSpec]] = {
    "bert": _read_bert,
    "xlm-roberta": _read_v3,
}


def _images(options: JsonConfig) -> ImageSpec:
    for key, value in _IMAGE_REQUIRED.items():
        options.require(key, value)
    for key in _IMAGE_STATED:
        if options.get(key, False) is not True:
            raise options.unsupported(key, options.get(key), True)
    size, side = options["image_size"], options["patch_size"]
    config = _image_config(options, size // side)
    spec = vision.of_squares(
        config, IMAGE_TENSORS, size, side, unused=_IMAGE_UNUSED, prefixes=("vision_model.",)
    )
    return replace(spec, class_token=True)


def _image_config(options: JsonConfig, grid: int) -> EncoderConfig:
    width, head = options["width"], options["head_width"]
    if options["embed_dim"] != width:
        raise options.unsupported("embed_dim", options["embed_dim"], f"width = {width}")
    if head % 4 or width % head:
        raise options.unsupported("head_width", head, f"multiples of 4 that divide width = {width}")
    trained = options.get("pt_hw_seq_len", 16)
    if not options.get("intp_freq", False) and trained != grid:
        raise options.unsupported("pt_hw_seq_len", trained, f"{grid}, or intp_freq = true")
    return plain_config(
        vocab_size=1,
        hidden_size=width,
        num_layers=options["layers"],
        num_heads=width // head,
        intermediate_size=int(width * options["mlp_ratio"]),
        max_positions=grid**2 + 1,
        activation="silu",
        gated=True,
        inner_norm_eps=_EPS,
        norm_eps=_EPS,
        input_positions=Learned(),
        positions=GridRotary(dim=head, interleaved=True, side=grid, step=trained / grid),
        arrangement="pre",
    )


FAMILIES = (
    Family(
        model_types=("jina_clip",),
        read=read,
        published_pooling="mean",
        replaced_code=("JinaCLIPModel",),
        replaces_module=True,
        ignored_keys=(
            *("drop_path_rate", "patch_dropout", "fused_layer_norm", "x_attention"),
            *("use_text_flash_attn", "use_vision_xformers", "proj_bias"),
            "js_config",  # of transformers.js
            "matryoshka_dimensions",  # read by model_files.card
        ),
        row=DocsRow(
            "Jina CLIP, [texts and images](image-inputs.md)",
            "jina-clip-v1, -v2",
            positions="ALiBi (v1), rotary (v2)",
            layers="as JinaBERT v2, as Jina v3; images pre-norm, gated FFN",
        ),
    ),
)
