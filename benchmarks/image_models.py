"""Models of images with the shapes of published ones and random weights, for the benchmark."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
_OF_IMAGES = ("<|vision_start|>", "<|vision_end|>", "<|image_pad|>")
# The parts of Qwen3-VL's template that an image needs.
_TEMPLATE = """{%- for message in messages %}
    {{- '<|im_start|>' + message.role + '\\n' }}
    {%- if message.content is string %}{{- message.content }}
    {%- else %}{%- for part in message.content %}
        {%- if part.type == 'image' %}{{- '<|vision_start|><|image_pad|><|vision_end|>' }}
        {%- elif 'text' in part %}{{- part.text }}{%- endif %}
    {%- endfor %}{%- endif %}
    {{- '<|im_end|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- endif %}"""
_METHOD = {"method": "forward", "method_output_name": "last_hidden_state"}
_MODULES = "sentence_transformers.models"


@dataclass(frozen=True)
class Shape:
    """A model of the benchmark.

    title: in the report. write: saves it in a folder. sizes: numbers of images of a request, the
    largest first, for which images are drawn. open_clip: its name in OpenCLIP, if that has it.
    """

    title: str
    write: Callable[[Path], None]
    sizes: Sequence[int]
    open_clip: str | None = None


def folder(home: Path, name: str) -> Path:
    """Return the folder of a model, which the first call writes."""
    target = home / "models" / name
    if not (target / "model.safetensors").exists():
        target.mkdir(parents=True, exist_ok=True)
        SHAPES[name].write(target)
    return target


def _clip(target: Path) -> None:
    from transformers import CLIPConfig, CLIPImageProcessorPil, CLIPModel, CLIPTokenizer

    letters = _letters()
    words = [*letters, *(f"{letter}</w>" for letter in letters)]
    words += [f"<{number}>" for number in range(49406 - len(words))]
    vocabulary = {word: i for i, word in enumerate([*words, "<|startoftext|>", "<|endoftext|>"])}
    CLIPTokenizer(vocab=vocabulary, merges=[]).save_pretrained(target)
    CLIPImageProcessorPil().save_pretrained(target)
    CLIPModel(CLIPConfig()).save_pretrained(target)


def _siglip(target: Path) -> None:
    from transformers import SiglipConfig, SiglipImageProcessorPil, SiglipModel

    _save_tokenizer(target, _SPECIAL)
    SiglipImageProcessorPil(image_mean=[0.5] * 3, image_std=[0.5] * 3).save_pretrained(target)
    text = {"vocab_size": 256_000, "pad_token_id": 0, "bos_token_id": 2, "eos_token_id": 1}
    SiglipModel(SiglipConfig(text_config=text)).save_pretrained(target)


def _qwen3_vl(target: Path) -> None:
    import torch
    from transformers import Qwen3VLConfig, Qwen3VLForConditionalGeneration

    tokens = _save_tokenizer(target, (*_SPECIAL, *_OF_IMAGES))
    text = {
        **{"vocab_size": len(tokens), "hidden_size": 2048, "num_hidden_layers": 4},
        **{"intermediate_size": 6144, "num_attention_heads": 16, "num_key_value_heads": 8},
        **{"head_dim": 128, "tie_word_embeddings": True},
        "rope_parameters": {
            **{"rope_type": "default", "rope_theta": 5e6},
            **{"mrope_section": [24, 20, 20], "mrope_interleaved": True},
        },
    }
    vision = {
        **{"depth": 24, "hidden_size": 1024, "num_heads": 16, "intermediate_size": 4096},
        **{"out_hidden_size": 2048, "deepstack_visual_indexes": [5, 11, 17]},
    }
    start, end, image = (tokens[token] for token in _OF_IMAGES)
    config = Qwen3VLConfig(
        text_config=text,
        vision_config=vision,
        image_token_id=image,
        vision_start_token_id=start,
        vision_end_token_id=end,
        tie_word_embeddings=True,
    )
    torch.set_default_dtype(torch.bfloat16)  # as it is published
    try:
        Qwen3VLForConditionalGeneration(config).save_pretrained(target)
    finally:
        torch.set_default_dtype(torch.float32)
    _save_layout(target)


def _save_layout(target: Path) -> None:
    """Add the files of sentence-transformers, and the options of the processor."""
    processor = {
        **{"image_processor_type": "Qwen2VLImageProcessorFast", "merge_size": 2},
        **{"size": {"shortest_edge": 1 << 16, "longest_edge": 1 << 24}, "patch_size": 16},
        **{"temporal_patch_size": 2, "image_mean": [0.5] * 3, "image_std": [0.5] * 3},
        "processor_class": "Qwen3VLProcessor",
    }
    named = enumerate([("", "Transformer"), ("1_Pooling", "Pooling"), ("2_Normalize", "Normalize")])
    modules = [
        {"idx": i, "name": str(i), "path": path, "type": f"{_MODULES}.{name}"}
        for i, (path, name) in named
    ]
    layout = {
        "modality_config": {
            **{"text": _METHOD, "image": _METHOD},
            "message": {**_METHOD, "format": "structured"},
        },
        "processing_kwargs": {"chat_template": {"add_generation_prompt": True}},
        "module_output_name": "token_embeddings",
    }
    pooling = {"pooling_mode": "lasttoken", "embedding_dimension": 2048}
    (target / "1_Pooling").mkdir(exist_ok=True)
    for name, content in {
        "preprocessor_config.json": processor,
        "video_preprocessor_config.json": {"video_processor_type": "Qwen3VLVideoProcessor"},
        "chat_template.json": {"chat_template": _TEMPLATE},
        "modules.json": modules,
        "sentence_bert_config.json": layout,
        "1_Pooling/config.json": pooling,
        "config_sentence_transformers.json": {},
    }.items():
        (target / name).write_text(json.dumps(content), encoding="utf-8")


def _save_tokenizer(target: Path, special: Sequence[str]) -> dict[str, int]:
    """Save a tokenizer of bytes; return the ids of its tokens."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    names = [*special, *_letters()]
    rust = Tokenizer(models.BPE({name: i for i, name in enumerate(names)}, []))
    rust.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    rust.decoder = decoders.ByteLevel()
    rust.add_special_tokens([*special])
    rust.post_processor = processors.TemplateProcessing(
        single=f"$A {special[0]}", special_tokens=[(special[0], 0)]
    )
    roles = {"pad_token": special[0], "eos_token": special[0]}
    fast: Any = PreTrainedTokenizerFast
    fast(tokenizer_object=rust, model_max_length=8192, **roles).save_pretrained(target)
    file = target / "tokenizer_config.json"
    named = {"tokenizer_class": "PreTrainedTokenizerFast"}  # a name that transformers 4 knows, too
    file.write_text(json.dumps(json.loads(file.read_text()) | named), encoding="utf-8")
    return rust.get_vocab()


def _letters() -> list[str]:
    from transformers.convert_slow_tokenizer import bytes_to_unicode

    return [*bytes_to_unicode().values()]  # type: ignore[no-untyped-call]


SHAPES: Mapping[str, Shape] = {
    "clip": Shape("CLIP ViT-B/32", _clip, (32, 1), "ViT-B-32-quickgelu"),
    "siglip": Shape("SigLIP 2 base, patches of 16 at 224", _siglip, (16, 1), "ViT-B-16-SigLIP2"),
    "qwen3-vl": Shape("Qwen3-VL-2B with 4 of its 28 layers for tokens", _qwen3_vl, (2, 1)),
}
