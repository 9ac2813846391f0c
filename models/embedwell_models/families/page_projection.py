"""Projection of token states in models of texts and pages, such as ColQwen2, and their format."""

from dataclasses import replace

from embedwell_models.config.checkpoint_layout import CheckpointLayout, Projection
from embedwell_models.config.page_format import PageFormat

_AUGMENTATION = "<|endoftext|>"
COLPALI_ENGINE = PageFormat(
    placeholder="<|image_pad|>",
    page="<|im_start|>user\n<|vision_start|><|image_pad|><|vision_end|>Describe the image."
    f"<|im_end|>{_AUGMENTATION}",
    query_prefix="",
    augmentation=_AUGMENTATION,
)
"""Format of colpali-engine since Qwen3-VL; its earlier one has a prefix of queries, too."""


def project_tokens(
    spec: CheckpointLayout, page_format: PageFormat, head: str, width: int, inside: str = ""
) -> CheckpointLayout:
    """Add a projection of each token's state to the spec of a model of texts and images.

    head: its name. inside: prefix of the names of all other tensors.
    """
    assert spec.image_tokens is not None
    encoder, projection = spec.image_tokens.encoder, f"{head}.*"
    prefixes = (*spec.prefixes, "") if inside else spec.prefixes
    encoder = replace(
        encoder,
        prefixes=tuple(f"{inside}{prefix}" for prefix in encoder.prefixes),
        unused=(*(f"{inside}{pattern}" for pattern in encoder.unused), projection),
    )
    return replace(
        spec,
        prefixes=tuple(f"{inside}{prefix}" for prefix in prefixes),
        unused=(*spec.unused, projection),
        image_tokens=replace(spec.image_tokens, encoder=encoder),
        page_format=page_format,
        token_projection=Projection(tensor=f"{head}.weight", width=width, bias=True),
    )
