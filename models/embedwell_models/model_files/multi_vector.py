"""Options of a multi-vector model (ColBERT, late interaction), from its files.

Such a model has a vector for each token of a query and of a document (Khattab and Zaharia 2020,
arXiv 2004.12832). Supported folders: sentence-transformers' MultiVectorEncoder, PyLate, and
Stanford's ColBERT.
"""

import pkgutil
import string
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from embedwell_models import families, vision
from embedwell_models.checkpoint import safetensors_files
from embedwell_models.config.json_config import JsonConfig
from embedwell_models.config.model_options import AUTO
from embedwell_models.config.model_spec import ModelSpec
from embedwell_models.errors import ModelError
from embedwell_models.model_files import modules
from embedwell_models.model_files.card import (
    MULTI_VECTOR,
    STANFORD_METADATA,
    has_modules,
    has_prefixes,
    read_card,
    read_prompts,
)
from embedwell_models.model_files.modules import TOKENS, ModuleEntry
from embedwell_models.model_files.transformer import read_options
from embedwell_models.model_files.vector_modules import Dense, Module, Normalize
from embedwell_models.positions.schemes import Disentangled

TextRole = Literal["query", "document"]
ROLES: tuple[TextRole, TextRole] = ("query", "document")

_TENSOR = "linear.weight"  # Stanford's projection, in the encoder's file
_PUNCTUATION = tuple(string.punctuation)
_KINDS = {"Dense", "Normalize", "MultiVectorMask"}
_LENGTH = 32  # default number of tokens of an expanded query


@dataclass(frozen=True)
class QueryExpansion:
    """Expansion of queries by a repeated token, whose vectors add terms to the query.

    length: number of tokens to which a query is filled. fixed: whether longer queries are truncated
    to it. attended: whether tokens attend to the expansion. token: text of the repeated token; None
    for the mask token.
    """

    length: int
    fixed: bool = True
    attended: bool = False
    token: str | None = None


@dataclass(frozen=True)
class QuerySuffix:
    """Tokens that follow each query and have vectors, too.

    token: repeated `count` times; None for the token of padding. end: text after them. roles: of
    the texts that these tokens follow.
    """

    token: str | None
    count: int
    end: str = ""
    roles: Sequence[TextRole] = ROLES[:1]


@dataclass(frozen=True, kw_only=True)
class MultiVectorOptions:
    """Options of a model that computes vectors of tokens.

    modules: modules that are applied to each token's state, in order. normalize: whether vectors
    are normalised at the end. query_length, document_length: maximum number of tokens, special
    tokens included; None for the encoder's maximum. expansion: expansion of queries; None for none.
    query_suffix: what follows each query; None for nothing. skipped_words: tokens without a vector
    in texts of skipped_roles. prompts: name -> text before queries, documents and other texts.
    markers: prompts that begin with a token of their own.
    mean_scores: whether a score is divided by the number of the query's vectors.
    skips_first: whether the first token of a text has no vector.
    """

    modules: tuple[Module, ...]
    normalize: bool
    query_length: int | None = None
    document_length: int | None = None
    expansion: QueryExpansion | None = None
    query_suffix: QuerySuffix | None = None
    skipped_words: tuple[str, ...] = ()
    skipped_roles: tuple[str, ...] = ("document",)
    prompts: Mapping[str, str] = field(default_factory=dict)
    markers: tuple[str, ...] = ()
    mean_scores: bool = False
    skips_first: bool = False

    @property
    def tensors_in_encoder_file(self) -> list[str]:
        """Names of the modules' tensors that are stored in the encoder's file."""
        dense = (module for module in self.modules if isinstance(module, Dense))
        return [module.tensor for module in dense if not module.has_own_file]

    def max_length(self, role: TextRole, default: int) -> int:
        """Return the maximum number of tokens of a text. default: used without an option."""
        if role == "document":
            return self.document_length or default
        if self.expansion is None:
            return self.query_length or default
        if self.expansion.fixed:
            return self.expansion.length
        return max(self.query_length or default, self.expansion.length)

    @classmethod
    def read(
        cls, folder: Path, entries: Sequence[ModuleEntry], spec: ModelSpec
    ) -> "MultiVectorOptions | None":
        """Read the options of a folder of such a model, see `card.has_token_vectors`.

        A model with a format of pages need not be one: then return None.

        Raises ModelError for an option or a module that is not supported.
        """
        hidden_size = spec.config.hidden_size
        if spec.page_format is not None:
            of_pages: MultiVectorOptions | None
            of_pages = pkgutil.resolve_name(vision.PAGE_OPTIONS)(folder, entries, spec)
            return of_pages
        if not has_modules(folder):
            return _read_stanford(folder, hidden_size)
        return _read_modules(folder, entries, hidden_size)


BGE_M3 = MultiVectorOptions(modules=(), normalize=True, mean_scores=True, skips_first=True)
"""BGE-M3: every token but the first has a vector, in queries and documents (arXiv 2402.03216)."""


NEXT_TO_DENSE = MultiVectorOptions(modules=(), normalize=True)
"""A projection of every token's state, next to the dense vector of a text."""


def _read_modules(
    folder: Path, entries: Sequence[ModuleEntry], hidden_size: int
) -> MultiVectorOptions:
    # A folder of sentence-transformers, or of PyLate, which writes no modules for the last two
    # steps.
    card = read_card(folder)
    native = card.get("model_type", "") == MULTI_VECTOR
    check_kinds(folder, entries, _KINDS)
    kinds = [entry.kind for entry in entries[1:]]
    following = modules.read_vector_modules(folder, entries[1:], hidden_size, TOKENS)
    normalize = following[-1:] == [Normalize()]
    options = read_options(folder, entries[0].path)
    expansion = _expansion(options if "query_expansion" in options else card)
    if expansion and native and "MultiVectorMask" not in kinds:
        raise ModelError(
            f"{options.path}: query_expansion without a MultiVectorMask is not supported"
        )
    words, roles = skipped_words(folder, entries) if native else (_words(card), ("document",))
    return MultiVectorOptions(
        modules=tuple(following[:-1] if normalize else following),
        normalize=normalize or not native,
        query_length=_length(options, "query_length") or _length(card, "query_length"),
        document_length=_length(options, "document_length") or _length(card, "document_length"),
        expansion=expansion,
        skipped_words=words,
        skipped_roles=roles,
        prompts=_prompts(card),
        markers=tuple(_prefixes(card).values()),
        mean_scores=str(card.get("similarity_fn_name")).lower() == "meanmaxsim",
    )


def check_kinds(folder: Path, entries: Sequence[ModuleEntry], following: set[str]) -> None:
    """Raise ModelError for other modules. following: allowed kinds of all but the first."""
    kinds = [entry.kind for entry in entries]
    if kinds[0] != "Transformer" or not {*kinds[1:]} <= following:
        raise ModelError(
            f"{folder / 'modules.json'}: modules {kinds} of a multi-vector model are not "
            f"supported; supported: a Transformer, then {sorted(following)}"
        )


def _read_stanford(folder: Path, hidden_size: int) -> MultiVectorOptions:
    metadata = JsonConfig.optional(folder / STANFORD_METADATA)
    header = safetensors_files.headers(folder).get(_TENSOR)
    if header is None:
        raise ModelError(f"{folder}: the checkpoint lacks {_TENSOR!r}")
    dense = Dense(
        path="",
        inputs=hidden_size,
        outputs=header.shape[0],
        bias=False,
        activation="Identity",
        tensor=_TENSOR,
    )
    prompts = {
        "query": metadata.get("query_token_id", "[unused0]") + " ",
        "document": metadata.get("doc_token_id", "[unused1]") + " ",
    }
    return MultiVectorOptions(
        modules=(dense,),
        normalize=True,
        document_length=_length(metadata, "doc_maxlen"),
        expansion=QueryExpansion(
            _length(metadata, "query_maxlen") or _LENGTH,
            attended=metadata.get("attend_to_mask_tokens", False),
        ),
        skipped_words=_PUNCTUATION if metadata.get("mask_punctuation", True) else (),
        prompts=prompts,
        markers=tuple(prompts.values()),
    )


def _prefixes(card: JsonConfig) -> dict[str, str]:
    roles = ("query", "document")
    return {role: card.get(f"{role}_prefix", "") for role in roles if f"{role}_prefix" in card}


def _prompts(card: JsonConfig) -> dict[str, str]:
    prompts: dict[str, str] = {"document": "", "query": "", **read_prompts(card)}
    for role, prefix in _prefixes(card).items():
        prompts[role] = prefix + prompts[role].removeprefix(prefix)
    return prompts


def _expansion(options: JsonConfig) -> QueryExpansion | None:
    # The keys of sentence-transformers, or the older keys of PyLate.
    if "query_expansion" in options:
        if options.get("query_expansion") is None:
            return None
        nested = options.nested_only("query_expansion", ("strategy", "attend", "token", "length"))
        return QueryExpansion(
            nested["length"],
            nested.choice("strategy", {"fixed": True, "min": False}),
            nested.get("attend", False),
            nested.get("token"),
        )
    older = ("do_query_expansion", "attend_to_expansion_tokens", "query_length", "document_length")
    marked = has_prefixes(options) or any(key in options for key in older)
    if not marked or not options.get("do_query_expansion", True):
        return None
    attended = options.get(
        "attend_to_expansion_tokens", options.get("attend_to_mask_tokens", False)
    )
    return QueryExpansion(_length(options, "query_length") or _LENGTH, attended=attended)


def _length(options: JsonConfig, key: str) -> int | None:
    length: int | None = options.get(key)
    return length


def _words(card: JsonConfig) -> tuple[str, ...]:
    return tuple(card.get("skiplist_words", _PUNCTUATION))


def skipped_words(
    folder: Path, entries: Sequence[ModuleEntry]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the words whose tokens have no vector, and the roles of texts with such tokens."""
    words: tuple[str, ...] = ()
    roles: tuple[str, ...] = ("document",)
    for entry in entries:
        if entry.kind == "MultiVectorMask":
            options = JsonConfig(folder / entry.path / "config.json")
            options.require("keep_only_token_ids", None, [])
            words = tuple(options.get("skiplist_words", ()))
            named = options.get("skiplist_tasks", ["document"])
            roles = (named,) if isinstance(named, str) else tuple(named)
    return words, roles


def refuse_unsupported(
    path: Path, options: MultiVectorOptions, spec: ModelSpec, pooling: str
) -> None:
    """Raise ModelError for a pooling of the operator, and for an expansion too long or different.

    The reference code of some families does more to tokens that are not attended to. DeBERTa and
    Longformer let them attend to nothing, DeBERTa also clears their vectors, and CANINE masks whole
    downsampled positions.
    """
    if pooling != AUTO:
        raise ModelError(f"{path}: a multi-vector model has no pooling; leave it {AUTO!r}")
    expansion, most = options.expansion, spec.config.max_tokens
    if expansion and expansion.length > most:
        raise ModelError(
            f"{path}: queries are expanded to {expansion.length} tokens, but the encoder has "
            f"{most} positions; lower the length of query_expansion"
        )
    family = spec.config.family
    differs = (
        isinstance(spec.config.attention.positions, Disentangled)
        or families.named(family).states_need_attention
    )
    if expansion and not expansion.attended and differs:
        raise ModelError(
            f"{path}: {family} without attention to the expansion of queries is not supported"
        )
