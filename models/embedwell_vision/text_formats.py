"""Formats of texts and images in the code of a model's authors."""

from embedwell_models.tokenizer.formats import TextFormat

DESCRIBED_IMAGE = (
    "<|im_start|>user\n<|vision_start|><|image_pad|><|vision_end|>Describe the image.<|im_end|>"
)
"""Text of an image in the code of the authors of ColPali's Qwen2-VL models, and of Jina v4."""
GME = TextFormat(
    plain="<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n<|im_start|>user\n",
    instructed=("<|im_start|>system\n", "<|im_end|>\n<|im_start|>user\n"),
    after="<|im_end|>\n<|im_start|>assistant\n<|endoftext|>",
    image="<|vision_start|><|image_pad|><|vision_end|>",
)
"""That of gme_inference.py next to the weights of GME."""
BIQWEN = TextFormat(
    plain="",
    instructed=("", ""),
    after="<|endoftext|>",
    image=DESCRIBED_IMAGE,
    instructs_images=False,
)
"""That of colpali-engine 0.3.10."""
JINA_V4 = TextFormat(
    plain="",
    instructed=("", ""),
    after="",
    image=f"{DESCRIBED_IMAGE}\n",
    instructs_images=False,
    single_images=True,
)
"""That of the code next to the weights of Jina v4."""
