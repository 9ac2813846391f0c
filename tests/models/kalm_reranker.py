"""A KaLM-Reranker of random weights, and its scores by the steps that its authors published."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers import AutoTokenizer, T5Gemma2Config, T5Gemma2ForConditionalGeneration
from transformers.modeling_outputs import BaseModelOutput

from embedwell_models.vectors import Floats
from tests.models.decoder_reranker import write, write_tokenizer

SYSTEM = (
    "Judge whether the Document meets the requirements based on the Query and the Instruct "
    'provided. Note that the answer can only be "yes" or "no".'
)
INSTRUCTION = "Given a query, retrieve documents that answer the query."
ANGLES = {
    "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 5000.0},
    "sliding_attention": {"rope_type": "default", "rope_theta": 50.0},
}
TEXT: dict[str, Any] = {
    **{"hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 3, "head_dim": 24},
    **{"num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 4096},
    **{"query_pre_attn_scalar": 20, "sliding_window": 6, "rms_norm_eps": 1e-3},
    "layer_types": ["sliding_attention", "full_attention", "sliding_attention"],
    "rope_parameters": ANGLES,
}
VISION = {
    **{"hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 1},
    **{"num_attention_heads": 2, "image_size": 28, "patch_size": 14},
}


def write_kalm_reranker(folder: Path, **options: Any) -> Path:
    """Save a model with a tokenizer of bytes. options: of the encoder and of the decoder."""
    text = {**TEXT, "vocab_size": write_tokenizer(folder, 4096) + 3, **options}
    encoder = {"text_config": text, "vision_config": VISION, "mm_tokens_per_image": 4}
    model = T5Gemma2ForConditionalGeneration(T5Gemma2Config(encoder=encoder, decoder={**text}))
    noise = torch.Generator().manual_seed(7)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(0.0, 0.3, generator=noise)
    model.save_pretrained(folder)
    return folder


def write_modules(folder: Path, **options: Any) -> Path:
    """Add the files of the authors' module for CrossEncoder. options: of the module."""
    kind = "kalm_cross_encoder.KaLMCrossEncoderModule"
    write(folder / "modules.json", [{"idx": 0, "name": "0", "path": "", "type": kind}])
    write(folder / "config_sentence_transformers.json", {"model_type": "CrossEncoder"})
    write(folder / "kalm_cross_encoder_config.json", options)
    return folder


def configure(folder: Path, part: str, **changed: Any) -> None:
    """Change options of a part of config.json: decoder, or "" for the whole."""
    path = folder / "config.json"
    config = json.loads(path.read_text(encoding="utf-8"))
    (config[part] if part else config).update(changed)
    path.write_text(json.dumps(config), encoding="utf-8")


class Published:
    """The steps of the authors' code, on the T5Gemma 2 of transformers, for one pair at a time."""

    def __init__(
        self,
        folder: Path,
        *,
        max_query: int = 512,
        max_document: int = 1024,
        chunk_size: int = 4,
        system: str = SYSTEM,
    ) -> None:
        self.tokenizer: Any = AutoTokenizer.from_pretrained(folder)
        model: Any = T5Gemma2ForConditionalGeneration
        self.model = model.from_pretrained(folder, attn_implementation="eager").eval()
        self.max_query, self.max_document = max_query, max_document
        self.chunk_size, self.system = chunk_size, system

    def scores(self, pairs: Sequence[tuple[str, str]], instruction: str = INSTRUCTION) -> Floats:
        """Compute the difference of the logits of yes and no: (B,)."""
        yes, no = self.tokenizer.convert_tokens_to_ids(["yes", "no"])
        logits = torch.stack([self.logits(*pair, instruction) for pair in pairs])
        scores: Floats = (logits[:, yes] - logits[:, no]).numpy()
        return scores

    @torch.inference_mode()
    def logits(self, query: str, document: str, instruction: str = INSTRUCTION) -> Tensor:
        """Compute the logits of the next token: (V,)."""
        ids = self._ids(f"<Document>: {document}", self.max_document)
        states = self.model.get_encoder()(input_ids=ids).last_hidden_state[0]
        means = torch.stack([part.mean(dim=0) for part in states.split(self.chunk_size)])
        (shorter,) = self.tokenizer.batch_decode(self._ids(query, self.max_query))
        prompt = (
            f"<bos><start_of_turn>user\n{self.system}\n\n<Instruct>: {instruction}\n"
            f"<Query>: {shorter}<end_of_turn>\n<start_of_turn>model\n\n\n\n"
        )
        outputs = self.model(
            encoder_outputs=BaseModelOutput(last_hidden_state=means[None]),
            decoder_input_ids=self._ids(prompt),
        )
        logits: Tensor = outputs.logits[0, -1]
        return logits

    def _ids(self, text: str, limit: int | None = None) -> Tensor:
        rows = self.tokenizer(text, add_special_tokens=False)["input_ids"][:limit]
        return torch.tensor([rows], dtype=torch.long)
