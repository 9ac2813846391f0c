"""EmbeddingGemma 2 of random weights for texts and images, as it is published."""

from collections.abc import Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

import torch
from PIL import Image
from torch import Tensor
from transformers.models.gemma4.image_processing_pil_gemma4 import Gemma4ImageProcessorPil

from tests.models import kinds
from tests.models.families.checkpoint import Case, write
from tests.models.families.exact import exactly
from tests.models.model_files.options import NORMALIZE, POOLING, TRANSFORMER
from tests.models.qwen3_vl import save, tokenized

Parts = Sequence[str | bytes]
MARKS = ["<|image|>", "<|image>", "<image|>", "<|audio|>", "<|video|>"]
TEXT: dict[str, Any] = {
    **{"hidden_size": 64, "num_hidden_layers": 3, "num_attention_heads": 4, "rms_norm_eps": 0.05},
    **{"intermediate_size": 96, "head_dim": 24, "global_head_dim": 32, "sliding_window": 30},
    **{"sliding_window_pattern": 3, "hidden_size_per_layer_input": 40, "embedding_dim": 48},
}
# Sizes that the kernels compute; those above are torch's.
OF_KERNELS: dict[str, Any] = {
    **{"intermediate_size": 128, "head_dim": 32, "global_head_dim": 64},
    **{"hidden_size_per_layer_input": 64},
}
PATCH = 4
VISION: dict[str, Any] = {
    **{"model_type": "gemma4_vision", "hidden_size": 64, "intermediate_size": 80},
    **{"num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2},
    **{"head_dim": 32, "patch_size": PATCH, "position_embedding_size": 300},
    **{"global_head_dim": 32, "default_output_length": 280, "rms_norm_eps": 0.02},
    "rope_parameters": {"rope_type": "axial", "rope_theta": 100.0},
}
PROCESSOR: dict[str, Any] = {
    "processor_class": "EmbeddingGemma2Processor",
    "image_seq_length": 280,
    "image_processor": {
        **{"do_convert_rgb": True, "do_normalize": False, "do_rescale": True, "do_resize": True},
        **{"image_mean": [0.0, 0.0, 0.0], "image_processor_type": "Gemma4ImageProcessor"},
        **{"image_seq_length": 280, "image_std": [1.0, 1.0, 1.0], "max_soft_tokens": 70},
        **{"patch_size": PATCH, "pooling_kernel_size": 3, "resample": 3},
        "rescale_factor": 1 / 255,
    },
    "feature_extractor": {"feature_extractor_type": "Gemma4AudioFeatureExtractor"},
    "video_processor": {"max_soft_tokens": 140},
}
# The published template: the prompt, then texts and media in order.
TEMPLATE = (
    "{%- for msg in messages if msg.get('role') == 'system' -%}"
    "{%- for item in msg['content'] if item.get('type') == 'text' -%}{{ item['text'] }}"
    "{%- endfor -%}{%- endfor -%}"
    "{%- for msg in messages if msg.get('role') != 'system' -%}"
    "{%- for item in msg['content'] -%}"
    "{%- if item.get('type') == 'text' -%}{{ item['text'] }}"
    "{%- elif item.get('type') == 'image' -%}<|image|>"
    "{%- elif item.get('type') == 'audio' -%}<|audio|>{%- endif -%}"
    "{%- endfor -%}{%- endfor -%}"
)


def write_images_model(
    folder: Path, *, max_length: int = 512, std: float = 0.3, vision: Any = (), **text: Any
) -> Any:
    """Save a model with its tokenizer, and the files of sentence-transformers."""
    rust = kinds.gemma()
    rust.add_special_tokens(MARKS)
    folder.mkdir(exist_ok=True)
    rust.save(str(folder / "tokenizer.json"))
    special = {"image_token": "<|image|>", "boi_token": "<|image>", "eoi_token": "<image|>"}
    save(folder, "tokenizer_config.json", {"model_max_length": max_length, **special})
    save(folder, "processor_config.json", PROCESSOR)
    save(folder, "preprocessor_config.json", {"feature_size": 128})  # of sounds
    (folder / "chat_template.jinja").write_text(TEMPLATE, encoding="utf-8")
    method = {"method": "forward", "method_output_name": "last_hidden_state"}
    message = {**method, "format": "structured"}
    modalities = {"text": method, "image": method, "message": message}
    save(folder, "sentence_bert_config.json", {"modality_config": modalities})
    save(folder, "modules.json", [TRANSFORMER, POOLING, NORMALIZE])
    (folder / "1_Pooling").mkdir(exist_ok=True)
    pooling = {"pooling_mode": "mean", "embedding_dimension": 48, "include_prompt": True}
    save(folder, "1_Pooling/config.json", pooling)
    prompts = {"query": "task: search result | query: ", "document": "title: none | text: "}
    save(folder, "config_sentence_transformers.json", {"prompts": prompts})
    sizes = {**TEXT, **text, "vocab_size": rust.get_vocab_size() + 3}
    ids = {
        f"{name}_token_id": rust.token_to_id(f"<|{name}|>") for name in ("image", "audio", "video")
    }
    whole = {"text_config": sizes, "vision_config": {**VISION, **dict(vision)}, **ids}
    case = Case("embedding_gemma2", {"audio_config": None}, whole, std=std)
    return write(case, folder)


def processed(folder: Path, data: bytes, tokens: int = 70) -> Any:
    """The pixels and places of an image by transformers' processor."""
    processor = Gemma4ImageProcessorPil(patch_size=PATCH, max_soft_tokens=tokens)
    with Image.open(BytesIO(data)) as image:
        return processor(image.convert("RGB"), return_tensors="pt")


@exactly
def theirs(folder: Path, model: Any, parts: Parts, prompt: str = "") -> Tensor:
    """The vector of an input by the steps of sentence-transformers."""
    images = [processed(folder, part) for part in parts if isinstance(part, bytes)]
    counts = iter(int(each["num_soft_tokens_per_image"][0]) for each in images)
    text = prompt + "".join(
        part if isinstance(part, str) else f"<|image>{'<|image|>' * next(counts)}<image|>"
        for part in parts
    )
    inputs: dict[str, Any] = {"input_ids": torch.tensor([tokenized(folder, text)])}
    if images:
        inputs["pixel_values"] = torch.cat([each["pixel_values"] for each in images])
        places = [each["image_position_ids"] for each in images]
        inputs["image_position_ids"] = torch.cat(places)
    states = model(**inputs).last_hidden_state[0]
    return torch.nn.functional.normalize(states.mean(dim=0), dim=0)
