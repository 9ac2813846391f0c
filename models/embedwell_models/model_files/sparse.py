"""Kind and options of a model's sparse vectors, from its files."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Literal

from embedwell_models import families
from embedwell_models.config.encoder_config import EncoderConfig
from embedwell_models.config.json_config import JsonConfig
from embedwell_models.errors import ModelError
from embedwell_models.families.heads import MaskedLMHead
from embedwell_models.model_files import modules
from embedwell_models.model_files.card import read_card, read_kind
from embedwell_models.model_files.modules import ModuleEntry
from embedwell_models.model_files.pooling import SPLADE, PoolingChoice

TOKEN_WEIGHTS = "sparse_linear.safetensors"  # noqa: S105 - a file
"""File of BGE-M3 with the linear layer from a token's state to its weight."""

TOKEN_VECTORS = "colbert_linear.safetensors"  # noqa: S105 - a file
"""File of BGE-M3 with the linear layer from a token's state to its vector."""

_CLASS_SUFFIX = "ForMaskedLM"


@dataclass(frozen=True)
class QueryWeights:
    """A weight for each entry of the vocabulary; a query's vector has the weights of its tokens.

    path: the module's folder, relative to the model's. json_file: name of a file in this folder
    with token -> weight; None if a tensor holds the weights.
    """

    path: str
    json_file: str | None = None

    def file(self, folder: Path) -> Path:
        """Return the file of the weights in a model's folder."""
        return folder / self.path / (self.json_file or "model.safetensors")


@dataclass(frozen=True)
class Splade:
    """SPLADE (Formal et al. 2021, arXiv 2109.10086), from the logits of a masked language model.

    The weight of a vocabulary entry is log(1 + relu(logit)), pooled over the tokens of the text.
    pooling: max, or sum as in the first SPLADE. log_twice: whether log(1 + x) is applied once more,
    as in OpenSearch's models (arXiv 2504.14839). query: weights for queries without an encoder, or
    None.
    """

    head: MaskedLMHead
    pooling: Literal["max", "sum"] = "max"
    log_twice: bool = False
    query: QueryWeights | None = None


@dataclass(frozen=True)
class BgeM3Sparse:
    """Sparse vectors of BGE-M3 (Chen et al. 2024, arXiv 2402.03216), from the state of each token.

    The weight of a vocabulary entry is the maximum of relu(w x + b) over its occurrences.
    """


Sparse = Splade | BgeM3Sparse


def read_sparse(
    folder: Path, entries: Sequence[ModuleEntry], encoder: EncoderConfig, choice: PoolingChoice
) -> Sparse | None:
    """Read the options of a folder's sparse vectors; return None if it has none.

    Raises ModelError for an unsupported option or class of model.
    """
    if choice.modes != (SPLADE,):
        read_kind(folder, "SentenceTransformer", "CrossEncoder")
        return BgeM3Sparse() if (folder / TOKEN_WEIGHTS).is_file() else None
    read_card(folder).require("max_active_dims", None)
    options = JsonConfig(folder / entries[0].path / "config.json")
    class_name = next(iter(options.get("architectures", ())), "")
    if not class_name.endswith(_CLASS_SUFFIX):
        raise ModelError(
            f"{options.path}: sparse vectors need a masked language model: a class that ends in "
            f"{_CLASS_SUFFIX}, not {class_name or 'none'}"
        )
    pooling = JsonConfig.optional(folder / entries[-1].path / "config.json")
    if len(entries) == 1:  # without SpladePooling, its defaults apply
        pooling = JsonConfig(folder, {})
    activation = pooling.require("activation_function", "relu", "log1p_relu")
    return Splade(
        _masked_lm_head(options, encoder),
        pooling.require("pooling_strategy", "max", "sum"),
        activation == "log1p_relu",
        _query_weights(folder),
    )


def _masked_lm_head(options: JsonConfig, encoder: EncoderConfig) -> MaskedLMHead:
    read = families.named(encoder.family).masked_lm_head
    if read is None:
        supported = families.names(lambda family: family.masked_lm_head is not None)
        raise ModelError(
            f"{options.path}: sparse vectors of {encoder.family} are not supported; supported: "
            f"{', '.join(supported)}"
        )
    return read(options, encoder)


def _query_weights(folder: Path) -> QueryWeights | None:
    entry = modules.read_query_weights(folder)
    if entry is None:
        return None
    path = entry.path
    file = JsonConfig.optional(folder / path / "config.json").get("path", "")
    return QueryWeights(path, PurePath(file).name or None)


def sparse_files(folder: Path, entries: Sequence[ModuleEntry], sparse: Sparse | None) -> list[Path]:
    """List the files that only sparse vectors and token vectors need; files may be missing."""
    if isinstance(sparse, BgeM3Sparse):
        return [folder / TOKEN_WEIGHTS, folder / TOKEN_VECTORS]
    if sparse is None:
        return []
    options = [folder / entry.path / "config.json" for entry in entries]
    query = []
    if sparse.query:
        query = [folder / sparse.query.path / "config.json", sparse.query.file(folder)]
    return [*options, *query]
