"""Model as one graph from padded token ids to vectors, for engines that convert it."""

from pathlib import Path
from typing import Any

import torch
from torch import Tensor


class Graph(torch.nn.Module):
    """Encoder with mean pooling and normalisation, as in all-MiniLM-L6-v2.

    attention: transformers' name of the implementation; engines recognise different ones.
    """

    model_class = "AutoModel"

    def __init__(self, folder: str, attention: str) -> None:
        import transformers

        super().__init__()
        loader = getattr(transformers, self.model_class)
        self.model: Any = loader.from_pretrained(folder, attn_implementation=attention)
        self.eval()

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """Run the model: (B, L) and (B, L) -> (B, D)."""
        hidden = self.model(input_ids=input_ids, attention_mask=attention_mask)[0]
        held = attention_mask.unsqueeze(-1).to(hidden.dtype)
        return torch.nn.functional.normalize((hidden * held).sum(1) / held.sum(1), dim=-1)


class StatesGraph(Graph):
    """Encoder without pooling, as fastembed expects it."""

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """Run the model: (B, L) and (B, L) -> states (B, L, D)."""
        states: Tensor = self.model(input_ids=input_ids, attention_mask=attention_mask)[0]
        return states


class PairGraph(Graph):
    """Reranker, in which ids of the second text are increased by the size of the vocabulary."""

    model_class = "AutoModelForSequenceClassification"

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """Run the model: (B, L) and (B, L) -> logits (B, 1)."""
        features = split_pairs(input_ids, self.model.config.vocab_size)
        logits: Tensor = self.model(**features, attention_mask=attention_mask)[0]
        return logits


def split_pairs(ids: Tensor, vocab_size: int) -> dict[str, Tensor]:
    """Split increased ids into plain ids and segment numbers."""
    second = (ids >= vocab_size).to(ids.dtype)
    return {"input_ids": ids - vocab_size * second, "token_type_ids": second}


class SpladeGraph(Graph):
    """Masked language model; the weights of a text are its largest logits over all tokens."""

    model_class = "AutoModelForMaskedLM"

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """Run the model: (B, L) and (B, L) -> weights (B, V)."""
        logits = self.model(input_ids=input_ids, attention_mask=attention_mask)[0]
        held = attention_mask.unsqueeze(-1).to(logits.dtype)
        return torch.log1p((torch.relu(logits) * held).amax(1))


class ColbertGraph(Graph):
    """Encoder with the projection of Stanford's ColBERT for each token, normalised."""

    def __init__(self, folder: str, attention: str) -> None:
        from safetensors.torch import load_file
        from transformers import AutoTokenizer

        super().__init__(folder, attention)
        self.mask_id = AutoTokenizer.from_pretrained(folder).mask_token_id
        self.projection = load_file(str(Path(folder) / "model.safetensors"))["linear.weight"]

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """Run the model: (B, L) and (B, L) -> (B, L, D)."""
        attended = attention_mask * (input_ids != self.mask_id)  # without expansion
        hidden = self.model(input_ids=input_ids, attention_mask=attended)[0]
        return torch.nn.functional.normalize(hidden @ self.projection.T, dim=-1)


GRAPHS = {"mean": Graph, "pair": PairGraph, "splade": SpladeGraph, "colbert": ColbertGraph}


def example() -> dict[str, Tensor]:
    """Return inputs for the tracing of the graph; one row is padded."""
    mask = torch.ones(3, 17, dtype=torch.int64)
    mask[1, 9:] = 0
    return {"input_ids": torch.full_like(mask, 1000), "attention_mask": mask}
