"""Rerankers that read a query and a list of documents as one sequence, by their publications."""

from dataclasses import dataclass
from pathlib import Path

from embedwell_models.config.encoder_config import EncoderConfig
from embedwell_models.errors import ModelError
from embedwell_models.model_files.classification_heads import ClassificationHead
from embedwell_models.model_files.transformer import TransformerOptions
from embedwell_models.model_files.vector_modules import Dense
from embedwell_models.tokenizer.listwise import ListwiseFormat, ListwiseTokenizer
from embedwell_models.tokenizer.loading import loader
from embedwell_models.tokenizer.tokenizer import Tokenizer

_WIDTH = 512  # of a vector
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


@dataclass(frozen=True)
class ListwiseOptions:
    """Format and limits of the lists of documents that a listwise reranker reads.

    marker_ids: ids of the tokens whose states become vectors. max_length: tokens of a block's
    texts, see ListwiseTokenizer.
    """

    format: ListwiseFormat
    marker_ids: tuple[int, ...]
    max_length: int

    @classmethod
    def read(cls, folder: Path, path: str, config: EncoderConfig) -> "ListwiseOptions":
        """Read the options of a folder; raises ModelError for markers that the model lacks.

        path: the encoder's folder, relative to the model's.
        """
        rust = loader.load(folder / path).rust
        marker_ids = [rust.token_to_id(marker) for marker in JINA.markers]
        ids = [id for id in marker_ids if id is not None and id < config.vocab_size]
        if len(ids) < len(marker_ids):
            raise ModelError(f"{folder / path}: the model lacks one of the tokens {JINA.markers}")
        return cls(JINA, tuple(ids), TransformerOptions.read(folder, path, config).max_length)

    def tokenizer(self, tokenizer: Tokenizer) -> ListwiseTokenizer:
        """Return the tokenizer of lists. tokenizer: that of the model."""
        return ListwiseTokenizer(tokenizer, self.format, self.max_length)


def listwise_head(path: str, width: int) -> ClassificationHead:
    """Return the two layers after the state of a marker.

    path: the encoder's folder, relative to the model's. width: size of a state.
    """
    inner = width // 2
    return ClassificationHead(
        "lasttoken",
        (
            _layer(path, "projector.0.weight", width, inner, "ReLU"),
            _layer(path, "projector.2.weight", inner, _WIDTH, "Identity"),
        ),
    )


def _layer(path: str, tensor: str, inputs: int, outputs: int, activation: str) -> Dense:
    return Dense(
        path=path,
        inputs=inputs,
        outputs=outputs,
        bias=False,
        activation=activation,
        tensor=tensor,
    )
