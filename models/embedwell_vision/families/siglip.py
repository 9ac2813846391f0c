"""SigLIP and SigLIP 2, which embed texts and images in one space.

Zhai et al. 2023 (arXiv 2303.15343), Tschannen et al. 2025 (arXiv 2502.14786).
"""

from collections.abc import Callable
from functools import partial

from embedwell_models.config.encoder_config import EncoderConfig, plain_config
from embedwell_models.config.json_config import JsonConfig
from embedwell_models.config.layer_spec import ACTIVATIONS
from embedwell_models.config.model_spec import ModelSpec, Projection
from embedwell_models.errors import ModelError
from embedwell_models.families.family import DocsRow, Family
from embedwell_models.positions.schemes import Learned
from embedwell_vision.families import clip, vision
from embedwell_vision.specs import ImageSpec

_HEAD = "text_model.head.weight"
UNUSED = ("embeddings.position_ids", "head.*", "vision_model.*", "logit_scale", "logit_bias")


def read(read_images: Callable[[JsonConfig], ImageSpec], options: JsonConfig) -> ModelSpec:
    """Build the spec of a model of texts and images.

    Raises ModelError if text and image vectors have different widths.
    """
    text, images = options.nested("text_config"), read_images(options.nested("vision_config"))
    config = _text_config(text)
    width = text.get("projection_size", config.hidden_size)
    if width != images.width:
        raise ModelError(
            f"{options.path}: vectors of texts have {width} dimensions (projection_size), those of "
            f"images {images.width} (hidden_size): they cannot be compared"
        )
    projection = Projection(tensor=_HEAD, width=width, bias=True, padded=True)
    return ModelSpec(
        config=config,
        tensors=clip.TENSORS,
        unused=UNUSED,
        prefixes=("text_model.",),
        projection=projection,
        images=images,
    )


def _text_config(options: JsonConfig) -> EncoderConfig:
    # The defaults fit the smallest published model.
    return plain_config(
        vocab_size=options.get("vocab_size", 32_000),
        hidden_size=options.get("hidden_size", 768),
        num_layers=options.get("num_hidden_layers", 12),
        num_heads=options.get("num_attention_heads", 12),
        intermediate_size=options.get("intermediate_size", 3072),
        max_positions=options.get("max_position_embeddings", 64),
        activation=options.choice("hidden_act", ACTIVATIONS, "gelu_pytorch_tanh"),
        norm_eps=options.get("layer_norm_eps", 1e-6),
        input_positions=Learned(),
        arrangement="pre",
    )


FAMILIES = (
    Family(
        model_types=("siglip",),
        read=partial(read, vision.siglip),
        row=DocsRow(
            "SigLIP, SigLIP 2 with a fixed resolution, [texts and images](image-inputs.md)",
            "siglip-base-patch16-224",
            positions="learned",
            layers="pre-norm; images pooled by attention",
        ),
    ),
    Family(
        model_types=("siglip2",),
        read=partial(read, vision.siglip2),
        row=DocsRow(
            "SigLIP 2 with images of any proportions (NaFlex), [texts and images](image-inputs.md)",
            "siglip2-base-patch16-naflex",
            positions="learned, stretched to the image",
            layers="as SigLIP",
        ),
    ),
)
