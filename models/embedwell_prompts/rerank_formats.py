"""Formats of rerankers that are language models, for models whose files do not contain them."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from embedwell_models.config.json_config import KALM_RERANKER, JsonConfig
from embedwell_models.tokenizer.formats import (
    DecoderFormat,
    PairFormat,
    PromptSlot,
    Segments,
    SeparateFormat,
)
from embedwell_models.tokenizer.lists import ListwiseFormat


@dataclass(frozen=True, kw_only=True)
class RerankFormat:
    """A format with the placeholders {query}, {document} and, if it has one, {instruction}.

    text: the format, or its parts if they are tokenized one by one, with the default instruction.
    instruction: the default instruction. plain: the format without an instruction, if it differs.
    answers: next tokens for a relevant and an irrelevant document. The score is the difference of
    their logits, or the logit of the first answer if there is no second. Empty for models with a
    head.
    """

    text: str | SeparateFormat
    instruction: str = ""
    plain: str | None = None
    answers: tuple[str, ...] = ()

    def pair_format(self) -> PairFormat | SeparateFormat:
        """Parse the text into segments and slots, unless its parts are separate."""
        if isinstance(self.text, SeparateFormat):
            return self.text
        instructed = _segments(self.text)
        if PromptSlot.INSTRUCTION not in instructed:
            return PairFormat(instructed, None)
        if self.plain is not None:
            return PairFormat(_segments(self.plain), instructed)
        default = PairFormat(instructed, instructed).segments(self.instruction)
        return PairFormat(default, instructed)


_SYSTEM = (
    "Judge whether the Document meets the requirements based on the Query and the Instruct "
    'provided. Note that the answer can only be "yes" or "no".'
)
_QWEN3_SYSTEM = f"<|im_start|>system\n{_SYSTEM}<|im_end|>\n<|im_start|>user\n"
_MXBAI_SYSTEM = "You are Qwen, created by Alibaba Cloud. You are a helpful assistant."
_MXBAI_INSTRUCTION = "instruction: {instruction}\n"
_MXBAI = (
    f"<|im_start|>system\n{_MXBAI_SYSTEM}<|im_end|>\n<|im_start|>user\n{_MXBAI_INSTRUCTION}"
    "query: {query}\ndocument: {document}\n"
    "You are a search relevance expert who evaluates how well documents match search queries. For "
    "each query-document pair, carefully analyze the semantic relationship between them, then "
    "provide your binary relevance judgment (0 for not relevant, 1 for relevant).\nRelevance:"
    "<|im_end|>\n<|im_start|>assistant\n"
)
_BGE = SeparateFormat(
    query="A: ",
    document="B: ",
    separator="\n",
    instruction="Given a query A and a passage B, determine whether the passage contains an answer "
    "to the query by providing a prediction of either 'Yes' or 'No'.",
)
FORMATS: Mapping[str, RerankFormat] = {  # published formats by model
    "qwen3-reranker": RerankFormat(  # Zhang et al. 2025, arXiv 2506.05176
        text=f"{_QWEN3_SYSTEM}<Instruct>: {{instruction}}\n<Query>: {{query}}\n"
        "<Document>: {document}<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n",
        instruction="Given a web search query, retrieve relevant passages that answer the query",
        answers=("yes", "no"),
    ),
    "qwen3-vl-reranker": RerankFormat(  # from github.com/QwenLM/Qwen3-VL-Embedding
        text=f"{_QWEN3_SYSTEM}<Instruct>: {{instruction}}<Query>:{{query}}\n<Document>:{{document}}"
        "<|im_end|>\n<|im_start|>assistant\n",
        instruction="Given a search query, retrieve relevant candidates that answer the query.",
        answers=("yes", "no"),
    ),
    "bge-reranker-v2-gemma": RerankFormat(  # Chen et al. 2024, arXiv 2402.03216
        text=_BGE,
        answers=("Yes",),
    ),
    "bge-reranker-v2.5-gemma2-lightweight": RerankFormat(  # has heads
        text=replace(_BGE, instruction="Predict whether passage B contains an answer to query A."),
    ),
    "mxbai-rerank-v2": RerankFormat(
        text=_MXBAI,
        plain=_MXBAI.replace(_MXBAI_INSTRUCTION, ""),
        answers=("1", "0"),
    ),
    "llama-nemotron-rerank": RerankFormat(  # has a head
        text="<|begin_of_text|>question:{query} \n \n passage:{document}"
    ),
}
JINA = ListwiseFormat(  # Wang et al. 2025, arXiv 2509.25085
    start="<|im_start|>system\nYou are a search relevance expert who can determine a ranking of "
    "the passages based on how relevant they are to the query. If the query is a question, how "
    "relevant a passage is depends on how well it answers the question. If not, try to analyze the "
    "intent of the query and assess how well each passage satisfies the intent. If an instruction "
    "is provided, you should follow the instruction when determining the ranking.<|im_end|>\n"
    "<|im_start|>user\nI will provide you with {count} passages, each indicated by a numerical "
    "identifier. Rank the passages based on their relevance to query: {query}\n",
    instruction="<instruct>\n{instruction}\n</instruct>\n",
    document='<passage id="{index}">\n{document}<|embed_token|>\n</passage>\n',
    end="<query>\n{query}<|rerank_token|>\n</query><|im_end|>\n<|im_start|>assistant\n"
    "<think>\n\n</think>\n\n",
    markers=("<|embed_token|>", "<|rerank_token|>"),
    max_query=512,
    max_document=2048,
    max_documents=125,
)


def read_decoder_format(encoder: Path) -> DecoderFormat:
    """Read the format of a model whose encoder reads documents, and whose decoder reads queries.

    A folder without the file of options has the defaults of the authors' code. Raises ModelError
    for an option that is not known.
    """
    options = JsonConfig.optional(encoder / KALM_RERANKER)
    lengths = {"query_max_length": 512, "document_max_length": 1024}
    options.refuse_unknown({*lengths, "encoder_chunk_size", "system_instruction"})
    system = options.get("system_instruction", _SYSTEM)
    max_query, max_document = (options.get(key, default) for key, default in lengths.items())
    return DecoderFormat(  # Zhao et al. 2026, arXiv 2606.22807
        document="<Document>: ",
        prompt=(
            f"<bos><start_of_turn>user\n{system}\n\n<Instruct>: ",
            PromptSlot.INSTRUCTION,
            "\n<Query>: ",
            PromptSlot.QUERY,
            "<end_of_turn>\n<start_of_turn>model\n\n\n\n",
        ),
        instruction="Given a query, retrieve documents that answer the query.",
        max_query=max_query,
        max_document=max_document,
    )


def _segments(text: str) -> Segments:
    slots = {f"{{{slot.value}}}": slot for slot in PromptSlot}
    parts = re.split(f"({'|'.join(map(re.escape, slots))})", text)
    return tuple(slots.get(part, part) for part in parts if part)
