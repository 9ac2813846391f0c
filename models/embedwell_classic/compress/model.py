"""Compression of a model that is a table of vectors, and the forms in which it is stored."""

import json
import shutil
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from embedwell_classic.compress.forms import (
    Band,
    as_parts,
    fit_pool,
    principal_directions,
    product_quantize,
    quantize_rows,
    split_rows,
)
from embedwell_classic.compressed_tables import Tier
from embedwell_classic.families import word_vectors
from embedwell_classic.tokenizers.vocabulary import Vocabulary
from embedwell_classic.tokenizers.words import WordTokenizer
from embedwell_classic.words.table import WordTable
from embedwell_models import families
from embedwell_models.checkpoint import safetensors_files
from embedwell_models.checkpoint.new_folder import new_folder
from embedwell_models.checkpoint.tables import (
    CODEBOOKS,
    CODES,
    IMPORTANCE,
    POOL,
    SCALES,
    TABLE,
    Array,
    blocks,
)
from embedwell_models.config.json_config import JsonConfig, read_json
from embedwell_models.description.model_description import ModelDescription
from embedwell_models.errors import ModelError
from embedwell_models.model_files.vector_modules import Normalize
from embedwell_models.tokenizer.loading.tokenizer_kind import LISTED, MAPPED
from embedwell_models.vectors import Floats

Ids = npt.NDArray[np.int64]
_NewIds = Mapping[int, int]
"""New ids by old ids of the tokens that remain."""


@dataclass(frozen=True)
class Compression:
    """Options of the compression of a table.

    corpus: texts whose words remain; None for all words. dimensions: None for all. int8: whether
    rows are 8-bit integers, with a scale for each row. codes: bytes of a row, each an index into a
    codebook; None for no codes. tiers: bands of rows, the most frequent first; None for no tiers.
    hash_rows: size of the pool that all rows share; None for no pool.

    Raises ModelError for options that exclude each other.
    """

    corpus: Sequence[str] | None = None
    dimensions: int | None = None
    int8: bool = False
    codes: int | None = None
    tiers: Sequence[Band] | None = None
    hash_rows: int | None = None

    def __post_init__(self) -> None:
        forms = {"codes": self.codes, "hash rows": self.hash_rows, "tiers": self.tiers}
        chosen = [name for name, value in forms.items() if value]
        if len(chosen) > 1 or (self.int8 and chosen not in ([], ["tiers"])):
            names = " and ".join([*chosen, *["int8"] * self.int8])
            raise ModelError(f"{names} exclude each other; choose one form (int8 goes with tiers)")

    def parts(self, rows: Floats) -> dict[str, Array]:
        """Return the stored parts of rows (V, D), by our names."""
        if self.codes:
            codes, codebooks = product_quantize(rows, self.codes)
            return {CODES: codes, CODEBOOKS: codebooks}
        if self.hash_rows:
            return dict(zip((POOL, IMPORTANCE), fit_pool(rows, self.hash_rows), strict=True))
        if self.tiers:
            return self._tiers(split_rows(rows, self.tiers))
        if self.int8:
            return dict(zip((TABLE, SCALES), quantize_rows(rows), strict=True))
        return {TABLE: np.ascontiguousarray(rows)}

    def _tiers(self, tiers: Sequence[Tier]) -> dict[str, Array]:
        if not self.int8:
            return as_parts(tiers)
        integers, scales = zip(*(quantize_rows(tier.values) for tier in tiers), strict=True)
        directions = [tier.directions for tier in tiers]
        parts = as_parts([*map(Tier, integers, directions)])
        return parts | {SCALES: np.concatenate(scales)}


def compress_folder(source: Path, target: Path, compression: Compression) -> None:
    """Write a smaller copy of a model's folder; after an error, no folder is left.

    Raises ModelError for a model that is not a table, and if `target` exists.
    """
    folder = ModelDescription.read(source)
    table = WordTable.of(folder)
    if table is None:
        raise ModelError(f"{source} is not a table of vectors; only such a model can be compressed")
    if compression.dimensions and not all(isinstance(m, Normalize) for m in folder.recipe.modules):
        raise ModelError(f"{source} has modules after the mean that need all dimensions")
    try:
        with new_folder(target) as scratch:
            shutil.copytree(
                source, scratch, ignore=partial(_with_table, folder), dirs_exist_ok=True
            )
            _compress(folder, table, scratch, compression)
            ModelDescription.read(scratch).tokenizer()
    except OSError as error:
        raise ModelError(f"{target} cannot be written: {error}") from None


def _with_table(description: ModelDescription, directory: str, names: Sequence[str]) -> set[str]:
    # The files with the table and their index are left out: they are written anew.
    in_encoder = Path(directory) == description.encoder
    return {name for name in names if in_encoder and ".safetensors" in name and name != MAPPED}


def _compress(
    description: ModelDescription, table: WordTable, scratch: Path, compression: Compression
) -> None:
    encoder = scratch / description.encoder.relative_to(description.path)
    is_words = not families.named(description.spec.config.family).is_decoded_table
    words, all_rows = len(table), table.table  # n-grams follow the words
    kept_ids = np.arange(len(all_rows))
    if compression.corpus is not None:
        used = _used(description, compression.corpus, by_frequency=compression.tiers is not None)
        cut = _cut_words if is_words else _cut_tokens
        kept_ids = np.concatenate(
            [cut(description, encoder, used), np.arange(words, len(all_rows))]
        )
        _cut_weights(description, scratch, kept_ids)
    rows = np.concatenate(
        [all_rows[chunk] for chunk in np.array_split(kept_ids, len(kept_ids) // 4096 + 1)]
    )
    if compression.dimensions:
        directions = principal_directions(rows, compression.dimensions)
        rows = np.concatenate([block @ directions for block in blocks(rows)])
        _write_dimensions(scratch, compression.dimensions)
    _write_table(encoder, description, compression.parts(rows))


def _used(description: ModelDescription, corpus: Sequence[str], by_frequency: bool) -> list[int]:
    counts = Counter(id for row in description.tokenizer().encode(corpus) for id in row.ids)
    ids = sorted(id for id in counts if id < description.spec.config.num_vectors)
    return sorted(ids, key=lambda id: -counts[id]) if by_frequency else ids


def _cut_words(description: ModelDescription, encoder: Path, used: Sequence[int]) -> Ids:
    tokenizer = WordTokenizer.read(description.encoder)
    kept_ids = [id for id in used if id < len(tokenizer.vocabulary)]
    if not kept_ids:
        raise ModelError("the corpus contains no word of the table")
    words = [tokenizer.vocabulary.word(id) for id in kept_ids]
    arrays, metadata = Vocabulary.of(words).arrays, tokenizer.options.as_metadata()
    safetensors_files.write_arrays(encoder / MAPPED, arrays, metadata)
    if (encoder / LISTED).is_file():
        _update(encoder / LISTED, vocab=words)
    return np.array(kept_ids, dtype=np.int64)


def _cut_tokens(description: ModelDescription, encoder: Path, used: Sequence[int]) -> Ids:
    path = encoder / "tokenizer.json"
    tokenizer, kept_ids = _cut_tokenizer(read_json(path), used)
    path.write_text(json.dumps(tokenizer), encoding="utf-8")
    return np.array(kept_ids, dtype=np.int64)


def _cut_weights(description: ModelDescription, scratch: Path, kept_ids: Ids) -> None:
    if description.recipe.word_weights is None:
        return
    module = description.recipe.word_weights
    weights = safetensors_files.read_tensor(description.path / module, word_vectors.TABLE)
    path = scratch / module / "model.safetensors"
    safetensors_files.write_arrays(path, {word_vectors.TABLE: weights[kept_ids]})
    words = JsonConfig(description.path / module / "config.json")["vocab"]
    _update(scratch / module / "config.json", vocab=[words[i] for i in kept_ids if i < len(words)])


def _write_dimensions(scratch: Path, dimensions: int) -> None:
    for path in scratch.glob("*_Pooling/config.json"):
        options = read_json(path)
        names = {"word_embedding_dimension", "embedding_dimension"} & {*options}
        _update(path, **dict.fromkeys(names, dimensions))


def _write_table(encoder: Path, description: ModelDescription, parts: Mapping[str, Array]) -> None:
    names = families.named(description.spec.config.family).table
    assert names is not None, "only a table is compressed"
    tensors = {names.theirs(part): array for part, array in parts.items()}
    safetensors_files.write_arrays(encoder / "model.safetensors", tensors)


def _update(path: Path, **changed: Any) -> None:
    path.write_text(json.dumps(read_json(path) | changed), encoding="utf-8")


def _cut_tokenizer(
    tokenizer: dict[str, Any], used: Sequence[int]
) -> tuple[dict[str, Any], list[int]]:
    """Return a tokenizer.json without unused tokens, and the old ids of the tokens that remain.

    Used tokens come first, in the given order; tokens outside the model's vocabulary come last.
    Added tokens, the unknown token and single characters always remain. A text with only used
    tokens is split as before: WordPiece takes the longest tokens and Unigram the likeliest tokens,
    and both choices stay available. Raises ModelError for another kind of model.
    """
    kind = tokenizer["model"]["type"]
    if kind not in _CUTS:
        raise ModelError(f"a vocabulary of {kind} cannot be cut; supported: {', '.join(_CUTS)}")
    added: set[int] = {token["id"] for token in tokenizer.get("added_tokens", [])}
    names = _token_names(tokenizer["model"])
    single = {id for id, name in names.items() if len(name.removeprefix("##")) == 1}
    unknown = {id for id in names if id == _unknown_id(tokenizer["model"], names)}
    order = {id: place for place, id in enumerate(used)}
    kept_ids = sorted(
        ({*used} | added | single | unknown) & {*names, *added},
        key=lambda id: (id not in names, order.get(id, len(order)), id),
    )
    new_ids = {id: new_id for new_id, id in enumerate(kept_ids)}
    result = json.loads(json.dumps(tokenizer))
    _CUTS[kind](result["model"], new_ids)
    for token in result.get("added_tokens", []):
        token["id"] = new_ids[token["id"]]
    result["post_processor"] = None  # holds old ids; texts of a table get no special tokens
    return result, kept_ids


def _token_names(model: dict[str, Any]) -> Mapping[int, str]:
    if isinstance(model["vocab"], list):
        return dict(enumerate(name for name, _ in model["vocab"]))
    return {id: name for name, id in model["vocab"].items()}


def _unknown_id(model: dict[str, Any], names: Mapping[int, str]) -> int | None:
    if "unk_id" in model:
        id: int | None = model["unk_id"]
        return id
    return next((id for id, name in names.items() if name == model.get("unk_token")), None)


def _cut_vocabulary(model: dict[str, Any], new_ids: _NewIds) -> None:
    model["vocab"] = {name: new_ids[id] for name, id in model["vocab"].items() if id in new_ids}


def _cut_scores(model: dict[str, Any], new_ids: _NewIds) -> None:
    scored_tokens = model["vocab"]
    if any(id >= len(scored_tokens) for id in new_ids):
        raise ModelError("an added token is missing in the Unigram vocabulary, which cannot be cut")
    model["vocab"] = [scored_tokens[id] for id in new_ids]
    if model["unk_id"] is not None:
        model["unk_id"] = new_ids[model["unk_id"]]


_CUTS: Mapping[str, Callable[[dict[str, Any], _NewIds], None]] = {
    "WordPiece": _cut_vocabulary,
    "WordLevel": _cut_vocabulary,
    "Unigram": _cut_scores,
}
