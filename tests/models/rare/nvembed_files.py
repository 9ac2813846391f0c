"""The folder of a small NV-Embed: files as those on the hub, with random weights."""

import json
import string
from pathlib import Path
from typing import Any

from safetensors.torch import save_file
from tokenizers import AddedToken, Tokenizer, models, normalizers, processors
from transformers import PreTrainedTokenizerFast

from tests.models.model_files.options import NORMALIZE, POOLING, TRANSFORMER
from tests.models.rare.nvembed import Reference, Sizes, tensors

_WORDS = "▁the ▁license ▁work ▁of ▁you Query ▁Instruct ▁Find"
_PIECES = ["<unk>", "<s>", "</s>", "▁", "\n", *string.ascii_letters, *".,:?", *_WORDS.split()]
INSTRUCTION = "Instruct: Find the work\nQuery: "
TEXTS = ["the license", "a copyright of this work, such as it is", "x", "you " * 30]
SIZES = Sizes(vocabulary=len(_PIECES))


def write(folder: Path, with_modules: bool = True, sizes: Sizes = SIZES) -> Reference:
    """Save a model. with_modules: whether sentence-transformers' files are among its own."""
    weights = tensors(sizes)
    save_file(weights, folder / "model.safetensors")
    files: dict[str, Any] = {"config.json": config(sizes)}
    if with_modules:
        (folder / "1_Pooling").mkdir()
        files |= {
            "modules.json": [TRANSFORMER, POOLING, NORMALIZE],
            "1_Pooling/config.json": {"pooling_mode_mean_tokens": True, "include_prompt": False},
            "config_sentence_transformers.json": {"prompts": {"query": INSTRUCTION}},
        }
    for name, content in files.items():
        (folder / name).write_text(json.dumps(content), encoding="utf-8")
    _write_tokenizer(folder)
    return Reference(weights, sizes)


def config(sizes: Sizes) -> dict[str, Any]:
    """The content of config.json, as that of nvidia/NV-Embed-v2."""
    text = {
        **{"model_type": "bidir_mistral", "architectures": ["MistralModel"]},
        **{"vocab_size": sizes.vocabulary, "hidden_size": sizes.width, "hidden_act": "silu"},
        **{"num_hidden_layers": sizes.layers, "num_attention_heads": sizes.heads},
        **{"num_key_value_heads": sizes.key_heads, "intermediate_size": sizes.inner},
        **{"rms_norm_eps": sizes.eps, "rope_theta": 10_000.0, "max_position_embeddings": 4096},
        "sliding_window": 4,
    }
    latents = {
        **{"model_type": "latent_attention", "num_latents_value": sizes.latents},
        **{"num_cross_heads": sizes.latent_heads, "cross_dim_head": sizes.latent_head},
        **{"hidden_dim": sizes.width, "latent_dim": sizes.width, "output_normalize": True},
    }
    return {
        **{"model_type": "nvembed", "architectures": ["NVEmbedModel"], "add_eos": True},
        **{"padding_side": "right", "is_mask_instruction": True, "mask_type": "b"},
        **{"text_config": text, "latent_attention_config": latents, "hidden_size": sizes.width},
        "auto_map": {"AutoModel": "modeling_nvembed.NVEmbedModel"},
    }


def published_ids(folder: Path, texts: list[str], instruction: str = "") -> list[list[int]]:
    """The ids of texts as its own code has them, with the end token as a part of each text."""
    tokenizer = PreTrainedTokenizerFast.from_pretrained(folder)
    ended = [f"{instruction}{text}{tokenizer.eos_token}" for text in texts]
    ids: list[list[int]] = tokenizer(ended)["input_ids"]
    return ids


def published_instruction_length(folder: Path, instruction: str) -> int:
    """Number of a text's first tokens that the model's own code leaves out of the mean."""
    return len(PreTrainedTokenizerFast.from_pretrained(folder).tokenize(instruction))


def _write_tokenizer(folder: Path) -> None:
    # Pieces as those of SentencePiece: the space at the end of an instruction is one by itself, or
    # the beginning of the first word of a text.
    rust = Tokenizer(models.Unigram([(piece, -float(i > 3)) for i, piece in enumerate(_PIECES)], 0))
    rust.normalizer = normalizers.Sequence(
        [normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]
    )
    rust.post_processor = processors.TemplateProcessing(
        single="<s> $A", special_tokens=[("<s>", 1)]
    )
    rust.add_special_tokens(
        [AddedToken(token, normalized=False, special=True) for token in ("<s>", "</s>")]
    )
    fast: Any = PreTrainedTokenizerFast
    names = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}
    fast(tokenizer_object=rust, **names).save_pretrained(folder)
