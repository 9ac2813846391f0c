"""A Jina Reranker v3 of random weights, and its scores by the steps that its authors published."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from tokenizers import AddedToken, Tokenizer
from transformers import AutoTokenizer, Qwen3Model

from tests.models.decoder_reranker import write_reranker

DOCUMENT, QUERY = "<|embed_token|>", "<|rerank_token|>"
SYSTEM = (
    "You are a search relevance expert who can determine a ranking of the passages based on how "
    "relevant they are to the query. If the query is a question, how relevant a passage is depends "
    "on how well it answers the question. If not, try to analyze the intent of the query and "
    "assess how well each passage satisfies the intent. If an instruction is provided, you should "
    "follow the instruction when determining the ranking."
)


def write_listwise_reranker(folder: Path, max_length: int = 16384, **options: Any) -> Path:
    """Save a model that reads as many tokens at once, with the files of the authors' class."""
    sizes = {"max_position_embeddings": max_length, "vocab_size": 520}
    write_reranker(folder, template=None, max_length=max_length, **{**sizes, **options})
    path = folder / "tokenizer.json"
    rust = Tokenizer.from_file(str(path))
    rust.add_special_tokens([AddedToken(each, normalized=False) for each in (DOCUMENT, QUERY)])
    rust.save(str(path))
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    code = {
        "architectures": ["JinaForRanking"],
        "auto_map": {"AutoModel": "modeling.JinaForRanking"},
    }
    (folder / "config.json").write_text(json.dumps(config | code), encoding="utf-8")
    tensors, width = load_file(folder / "model.safetensors"), config["hidden_size"]
    noise = torch.Generator().manual_seed(11)
    shapes = {"0": (width // 2, width), "2": (512, width // 2)}
    layers = {
        f"projector.{name}.weight": torch.randn(shape, generator=noise) * 0.3
        for name, shape in shapes.items()
    }
    tensors.pop("lm_head.weight", None)
    save_file(tensors | layers, folder / "model.safetensors", {"format": "pt"})
    return folder


class Published:
    """The steps of the authors' class, on the Qwen3 of transformers."""

    def __init__(self, folder: Path) -> None:
        self.tokenizer: Any = AutoTokenizer.from_pretrained(folder)
        model: Any = Qwen3Model
        self.model = model.from_pretrained(folder, dtype=torch.float32).eval()
        tensors = load_file(folder / "model.safetensors")
        self.layers = [tensors[f"projector.{name}.weight"] for name in ("0", "2")]
        self.blocks: list[int] = []  # documents of each block of the last list

    def scores(
        self,
        query: str,
        documents: Sequence[str],
        instruction: str | None = None,
        max_document: int = 2048,
    ) -> torch.Tensor:
        """Score documents: (B,)."""
        query, query_length = self._cut(query, 512)
        whole = self.tokenizer.model_max_length - 2 * query_length
        blocks, block, left = list[list[str]](), list[str](), whole
        for document in documents:
            text, length = self._cut(document, max_document)
            block.append(text)
            left -= length
            if len(block) >= 125 or left <= max_document:
                blocks.append(block)
                block, left = [], whole
        blocks += [block] if block else []
        self.blocks = [*map(len, blocks)]
        queries, vectors, weights = [], [], []
        for texts in blocks:
            of_query, of_documents = self._vectors(query, texts, instruction)
            cosines = torch.nn.functional.cosine_similarity(of_documents, of_query, dim=-1)
            queries.append(of_query[0])
            vectors.append(of_documents)
            weights.append(((1.0 + cosines) / 2.0).max())
        mean = torch.stack(weights) @ torch.stack(queries) / torch.stack(weights).sum()
        return torch.nn.functional.cosine_similarity(torch.cat(vectors), mean[None])

    def _cut(self, text: str, limit: int) -> tuple[str, int]:
        ids = self.tokenizer(text, truncation=True, max_length=limit)["input_ids"]
        return self.tokenizer.decode(ids) if len(ids) >= limit else text, len(ids)

    def _vectors(self, query: str, documents: Sequence[str], instruction: str | None) -> Any:
        query, documents = _plain(query), [*map(_plain, documents)]
        told = f"<instruct>\n{instruction}\n</instruct>\n" if instruction else ""
        passages = "\n".join(
            f'<passage id="{number}">\n{text}{DOCUMENT}\n</passage>'
            for number, text in enumerate(documents)
        )
        prompt = (
            f"<|im_start|>system\n{SYSTEM}<|im_end|>\n<|im_start|>user\n"
            f"I will provide you with {len(documents)} passages, each indicated by a numerical "
            f"identifier. Rank the passages based on their relevance to query: {query}\n"
            f"{told}{passages}\n<query>\n{query}{QUERY}\n</query>"
            "<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n"
        )
        ids = self.tokenizer(prompt, return_tensors="pt")["input_ids"]
        with torch.no_grad():
            states = self.model(input_ids=ids).last_hidden_state[0]
            first, last = self.layers
            vectors = torch.relu(states @ first.T) @ last.T
        of_query, of_documents = map(self.tokenizer.convert_tokens_to_ids, (QUERY, DOCUMENT))
        return vectors[ids[0] == of_query], vectors[ids[0] == of_documents]


def _plain(text: str) -> str:
    return text.replace(QUERY, "").replace(DOCUMENT, "")
