"""Rules of a multi-vector model for ids of its tokenizer: lengths, expansion, skipped tokens."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from embedwell_models.config.json_config import JsonConfig
from embedwell_models.errors import ModelError
from embedwell_models.model_files.multi_vector import ROLES, MultiVectorOptions, TextRole
from embedwell_models.tokenizer.steps import run_to_completion
from embedwell_models.tokenizer.tokenizer import Tokenizer
from embedwell_models.vectors import Floats

Ids = npt.NDArray[np.int32]
Mask = npt.NDArray[np.bool_]


class MultiVectorRules:
    """Lengths, expansion and skipped tokens of a multi-vector model, for ids of its tokenizer.

    unattended_id: id that no token attends to at the end of a sequence; None if there is none.
    """

    def __init__(self, options: MultiVectorOptions, tokenizer: Tokenizer, encoder: Path) -> None:
        """encoder: the folder of the tokenizer. Raises ModelError for a missing token."""
        self.options, self._tokenizer = options, tokenizer
        skipped = map(tokenizer.token_id, options.skipped_words)
        self._skipped = np.array([id for id in skipped if id is not None], dtype=np.int64)
        expansion = options.expansion
        self._expansion_id = _expansion_id(options, tokenizer, encoder) if expansion else None
        attended = expansion is None or expansion.attended
        self.unattended_id = None if attended else self._expansion_id
        suffix = tokenizer.special_tokens.suffix
        self._query_suffix = _query_suffix(options, tokenizer, encoder)
        self._num_special = len(suffix)
        if not attended and (not suffix or suffix[-1] == self._expansion_id):
            raise ModelError(
                f"{encoder}: an expansion without attention needs a special token at the end of a "
                "text, which this tokenizer does not add"
            )
        for role in ROLES:
            if self.max_length(role) <= len(tokenizer.special_tokens):
                raise ModelError(
                    f"{encoder}: {role}_length, or the length of query_expansion, leaves no room "
                    "for a text"
                )

    def max_length(self, role: TextRole) -> int:
        """Return the number of tokens of a text that are read, special tokens included."""
        most = self._tokenizer.max_length
        return min(self.options.max_length(role, most), most) - len(self._suffix(role))

    def expand(self, ids: Sequence[int], role: TextRole) -> list[int]:
        """Fill a query up to the length of the expansion, or add the suffix of the role.

        Other ids are returned unchanged.
        """
        expansion, id = self.options.expansion, self._expansion_id
        if suffix := self._suffix(role):
            end = len(ids) - self._num_special
            return [*ids[:end], *suffix, *ids[end:]]
        if expansion is None or id is None or role != "query":
            return [*ids]
        return [*ids, *[id] * (expansion.length - len(ids))]

    def _suffix(self, role: TextRole) -> Sequence[int]:
        suffix = self.options.query_suffix
        return self._query_suffix if suffix and role in suffix.roles else ()

    def has_vector(self, ids: Sequence[int] | Ids, role: TextRole) -> Mask:
        """Return whether each token has a vector, as the role does not skip it: (T,)."""
        if role not in self.options.skipped_roles:
            return np.ones(len(ids), dtype=np.bool_)
        return np.isin(np.asarray(ids), self._skipped, invert=True)

    def select(self, vectors: Floats, ids: Ids, role: TextRole) -> tuple[Floats, Ids]:
        """Return the vectors and ids of tokens that the role does not skip: (n, D), (n,).

        vectors: vectors of all tokens of a text, or of all but the first. ids: (T,).
        """
        last = ids[len(ids) - len(vectors) :]
        mask = self.has_vector(last, role)
        return vectors[mask], last[mask]


def _query_suffix(options: MultiVectorOptions, tokenizer: Tokenizer, encoder: Path) -> list[int]:
    suffix = options.query_suffix
    if suffix is None:
        return []
    token = suffix.token
    id = tokenizer.special_id("pad") if token is None else tokenizer.token_id(token)
    if id is None:
        raise ModelError(
            f"{encoder}: queries end with {token or 'the token of padding'!r}, which the tokenizer "
            "lacks"
        )
    end = run_to_completion(tokenizer.ids_without_special(suffix.end)) if suffix.end else ()
    return [*[id] * suffix.count, *end]


def _expansion_id(options: MultiVectorOptions, tokenizer: Tokenizer, encoder: Path) -> int:
    assert options.expansion is not None
    if JsonConfig.optional(encoder / "tokenizer_config.json").get("padding_side") == "left":
        raise ModelError(f"{encoder}: expansion on the left side of queries is not supported")
    token = options.expansion.token
    ids = (
        map(tokenizer.special_id, ("mask", "eos")) if token is None else [tokenizer.token_id(token)]
    )
    id = next((id for id in ids if id is not None), None)
    if id is None:
        raise ModelError(
            f"{encoder}: queries are expanded with {token or 'the mask token'!r}, "
            "which the tokenizer lacks"
        )
    return id
