"""ColIdefics3 of random weights, with its processor and a tokenizer of bytes."""

from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from transformers import (
    Idefics3Config,
    Idefics3ImageProcessorPil,
    Idefics3Model,
    Idefics3Processor,
    PreTrainedTokenizerFast,
)

from tests.models import kinds
from tests.models.colmodernvbert import SIDE, TOKENS
from tests.models.families.exact import exactly
from tests.models.families.files import edit
from tests.models.random_weights import randomize

_MARKS = [
    *("<fake_token_around_image>", "<image>", "<end_of_utterance>", "<global-img>"),
    *("<|im_start|>", "<pad>"),
    *(f"<row_{row}_col_{column}>" for row in (1, 2, 3) for column in (1, 2, 3)),
]
_VISION = {
    **{"image_size": SIDE, "patch_size": 16, "hidden_size": 64, "num_hidden_layers": 2},
    **{"num_attention_heads": 2, "intermediate_size": 128},
}


class ColIdefics3(torch.nn.Module):
    """The published model: an Idefics3, and a projection of each token's state."""

    def __init__(self, config: Any) -> None:
        super().__init__()
        self.model: Any = Idefics3Model(config)
        self.linear = torch.nn.Linear(config.text_config.hidden_size, 128)

    @exactly
    def vectors(self, inputs: Any) -> Any:
        """The vectors of one text or image: (tokens, 128)."""
        states = self.model(**inputs).last_hidden_state[0]
        return torch.nn.functional.normalize(self.linear(states), dim=-1)


def write_processor(folder: Path, max_length: int = 256) -> Any:
    """Save a processor, and return it."""
    rust = kinds.gpt2()
    rust.add_special_tokens(_MARKS)
    fast: Any = PreTrainedTokenizerFast
    tokenizer = fast(tokenizer_object=rust, model_max_length=max_length, pad_token="<pad>")
    sizes: dict[str, Any] = {"size": {"longest_edge": 2 * SIDE}}
    images = Idefics3ImageProcessorPil(**sizes, max_image_size={"longest_edge": SIDE})
    processor: Any = Idefics3Processor(images, tokenizer, image_seq_len=TOKENS)
    processor.save_pretrained(folder)
    return processor


def write_config(processor: Any, folder: Path) -> Any:
    """Save a configuration, and return it."""
    text = {
        **{"model_type": "llama", "vocab_size": len(processor.tokenizer), "hidden_size": 64},
        **{"num_hidden_layers": 3, "num_attention_heads": 2, "num_key_value_heads": 1},
        **{"intermediate_size": 96, "rms_norm_eps": 0.05, "max_position_embeddings": 512},
    }
    parts: dict[str, Any] = {"text_config": text, "vision_config": _VISION}
    config = Idefics3Config(**parts, scale_factor=2, image_token_id=processor.image_token_id)
    config.save_pretrained(folder)
    edit(folder, architectures=["ColIdefics3"])
    return config


def write_colidefics3(folder: Path, **options: Any) -> tuple[ColIdefics3, Any]:
    """Save a model and its processor, and return both. options: of the processor."""
    processor = write_processor(folder, **options)
    model = ColIdefics3(write_config(processor, folder))
    model.train(False)
    randomize(model)
    save_file(model.state_dict(), folder / "model.safetensors")
    return model, processor
