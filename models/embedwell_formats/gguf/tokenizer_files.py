"""tokenizer.json and tokenizer_config.json from the metadata of a GGUF file."""

import base64
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from embedwell_formats.gguf.file import LAST_TOKEN, Metadata
from embedwell_formats.gguf.pre_tokenizers import pre_tokenizer
from embedwell_models.errors import ModelError

Json = dict[str, Any]
_NORMAL, _UNKNOWN, _CONTROL, _USER_DEFINED, _BYTE = 1, 2, 3, 4, 6  # types of tokens
_WORD = "▁"  # llama.cpp marks the start of a word, WordPiece the continuation
_CONTINUATION = "##"
_ROLES = {  # role -> key of its id
    "bos": "bos_token_id",
    "eos": "eos_token_id",
    "unk": "unknown_token_id",
    "sep": "seperator_token_id",
    "pad": "padding_token_id",
    "cls": "cls_token_id",
    "mask": "mask_token_id",
}
_END_OF_MESSAGE, _END_OF_TEXT = "<|im_end|>", "<|endoftext|>"


def files(metadata: Metadata) -> dict[str, Json]:
    """Return the two files by name; raises ModelError for a tokenizer that is not read."""
    build = _MODELS.get(kind := metadata.tokenizer("model", ""))
    if build is None:
        raise metadata.unsupported("tokenizer.ggml.model", kind, tuple(_MODELS))
    tokens = metadata.token_list("tokens", str)
    special = _special(metadata, tokens)
    config: Json = {f"{role}_token": token for role, token in special.items()}
    # A class of transformers would override what the file says.
    config |= {"tokenizer_class": "PreTrainedTokenizerFast"}
    if build is _word_piece:
        config["model_input_names"] = ["input_ids", "token_type_ids", "attention_mask"]
    added = _added(metadata, tokens)
    return {
        "tokenizer.json": {"version": "1.0", "added_tokens": added, **build(metadata)},
        "tokenizer_config.json": config,
    }


def _word_piece(metadata: Metadata) -> Json:
    tokens, kinds = metadata.token_list("tokens", str), _kinds(metadata)
    pieces = [_word_piece_of(token, kind) for token, kind in zip(tokens, kinds, strict=True)]
    special = _special(metadata, tokens)
    # Few files say whether texts are lowercased and lose their accents: the vocabulary does.
    words = [token for token, kind in zip(pieces, kinds, strict=True) if kind == _NORMAL]
    lowercase = metadata.tokenizer("normalizer.lowercase", not any(map(_has_capital, words)))
    strips_accents = lowercase and not any(map(_has_accent, words))
    first, last = special.get("cls", "[CLS]"), special.get("sep", "[SEP]")
    return {
        "normalizer": {
            "type": "BertNormalizer",
            "clean_text": True,
            "handle_chinese_chars": True,
            "strip_accents": metadata.tokenizer("normalizer.strip_accents", strips_accents),
            "lowercase": lowercase,
        },
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "post_processor": _template(
            tokens, [first], [last], pair=[first, "A", last, "B1", f"{last}1"]
        ),
        "decoder": {"type": "WordPiece", "prefix": _CONTINUATION, "cleanup": True},
        "model": {
            "type": "WordPiece",
            "unk_token": special.get("unk", "[UNK]"),
            "continuing_subword_prefix": _CONTINUATION,
            "max_input_chars_per_word": 100,
            "vocab": _ids(pieces),
        },
    }


def _word_piece_of(token: str, kind: int) -> str:
    is_bracketed = token.startswith("[") and token.endswith("]")
    if kind in (_CONTROL, _UNKNOWN) or (is_bracketed and len(token) > 2):
        return token
    word = token.removeprefix(_WORD)
    return word if word and word != token else _CONTINUATION + token


def _has_capital(word: str) -> bool:
    # Not of tokens such as [MASK] that older files do not mark as special.
    return word != word.lower() and not word.startswith("[")


def _has_accent(word: str) -> bool:
    return any(unicodedata.category(mark) == "Mn" for mark in unicodedata.normalize("NFD", word))


def _byte_level(metadata: Metadata) -> Json:
    tokens = metadata.token_list("tokens", str)
    pre = pre_tokenizer(metadata)
    spaced = metadata.tokenizer("add_space_prefix", False)
    step: Json = {"type": "ByteLevel", "trim_offsets": False}
    step |= {"add_prefix_space": spaced, "use_regex": pre.pattern is None}
    steps = [] if pre.pattern is None else [_split({"Regex": pre.pattern}, "Isolated")]
    if pre.single_digits:
        steps.insert(0, {"type": "Digits", "individual_digits": True})
    first, last = _tokens_around(metadata, tokens, pre.begins, pre.ends)
    if metadata.architecture == "qwen3" and metadata.optional("pooling_type", 0) == LAST_TOKEN:
        last = _end_of_qwen3(metadata, tokens, last)
    return {
        "normalizer": {"type": "NFC"} if pre.nfc else None,
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [*steps, step]},
        "post_processor": _template(tokens, first, last, _pair(first, last, pre.ends)),
        "decoder": step,
        "model": {
            **_bpe(tokens, [merge.split(" ", 1) for merge in metadata.token_list("merges", str)]),
            "ignore_merges": pre.merged,
        },
    }


def _end_of_qwen3(metadata: Metadata, tokens: Sequence[str], stated: list[str]) -> list[str]:
    """Return the token after a text, whose state is its vector: in Qwen3-Embedding, <|endoftext|>.

    Older converters left it out, or named the end of a message. Raises ModelError where another
    model may have been trained with that. stated: the token by the file's own keys.
    """
    says = metadata.has_tokenizer("add_eos_token")
    if (says and stated != [_END_OF_MESSAGE]) or _END_OF_TEXT not in tokens:
        return stated
    if says and not metadata.is_named("Qwen3-Embedding"):
        raise ModelError(
            f"{metadata.file.path}: texts end with {_END_OF_MESSAGE} by this file and with "
            f"{_END_OF_TEXT} in Qwen3-Embedding, and it does not say which model it is: give the "
            "folder of the original model, or its name on the hub"
        )
    metadata.warn(
        f"each text ends with {_END_OF_TEXT}, as in Qwen3-Embedding; the file states "
        f"{_END_OF_MESSAGE if says else 'no end'}"
    )
    return [_END_OF_TEXT]


def _sentence_piece(metadata: Metadata) -> Json:
    # SentencePiece's BPE: the merge of the piece with the highest score comes first.
    tokens, scores = metadata.token_list("tokens", str), metadata.of_tokens("scores", float)
    spaced = metadata.tokenizer("add_space_prefix", True)
    first, last = _tokens_around(metadata, tokens, begins=True)
    special = _special(metadata, tokens)
    steps: list[Json] = [{"type": "Prepend", "prepend": _WORD}] if spaced else []
    strip = [{"type": "Strip", "content": " ", "start": 1, "stop": 0}] if spaced else []
    return {
        "normalizer": {"type": "Sequence", "normalizers": [*steps, _replace(" ", _WORD)]},
        "pre_tokenizer": None,
        "post_processor": _template(tokens, first, last, _pair(first, last, False)),
        "decoder": {
            "type": "Sequence",
            "decoders": [
                _replace(_WORD, " "),
                {"type": "ByteFallback"},
                {"type": "Fuse"},
                *strip,
            ],
        },
        "model": {
            **_bpe(tokens, _merges(tokens, scores, _kinds(metadata))),
            "unk_token": special.get("unk", "<unk>"),
            "fuse_unk": True,
            "byte_fallback": _BYTE in _kinds(metadata),
        },
    }


def _unigram(metadata: Metadata) -> Json:
    tokens, scores = metadata.token_list("tokens", str), metadata.of_tokens("scores", float)
    kinds = _kinds(metadata)
    unknown = kinds.index(_UNKNOWN) if _UNKNOWN in kinds else None
    table = metadata.tokenizer("precompiled_charsmap", [0])
    map_ = base64.b64encode(bytes(byte & 255 for byte in table)).decode()
    steps = [{"type": "Precompiled", "precompiled_charsmap": map_}] if len(table) > 1 else []
    first, last = _tokens_around(metadata, tokens, begins=True, ends=True)
    scheme = "always" if metadata.tokenizer("add_space_prefix", True) else "never"
    space = {"type": "Metaspace", "replacement": _WORD, "prepend_scheme": scheme}
    return {
        "normalizer": {"type": "Sequence", "normalizers": steps} if steps else None,
        "pre_tokenizer": {
            "type": "Sequence",
            "pretokenizers": [{"type": "WhitespaceSplit"}, {**space, "split": True}],
        },
        "post_processor": _template(tokens, first, last, _pair(first, last, True)),
        "decoder": {**space, "split": True},
        "model": {
            "type": "Unigram",
            "unk_id": unknown,
            "vocab": [list(pair) for pair in zip(tokens, scores, strict=True)],
            "byte_fallback": False,
        },
    }


_MODELS: Mapping[str, Callable[[Metadata], Json]] = {
    "bert": _word_piece,
    "gpt2": _byte_level,
    "llama": _sentence_piece,
    "t5": _unigram,
}


def _special(metadata: Metadata, tokens: Sequence[str]) -> dict[str, str]:
    # Role -> token. A BERT's first and last token are also bos and eos, the only ones of old files.
    ids = {role: metadata.tokenizer(key, -1) for role, key in _ROLES.items()}
    special = {role: tokens[id] for role, id in ids.items() if 0 <= id < len(tokens)}
    if metadata.tokenizer("model", "") == "bert":
        for role, other in (("cls", "bos"), ("sep", "eos")):
            if other in special:
                special.setdefault(role, special[other])
    return special


def _kinds(metadata: Metadata) -> list[int]:
    if metadata.has_tokenizer("token_type"):
        return metadata.of_tokens("token_type", int)
    return [_NORMAL] * len(metadata.token_list("tokens", str))


def _added(metadata: Metadata, tokens: Sequence[str]) -> list[Json]:
    options = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    unknown = _special(metadata, tokens).get("unk")
    return [
        {"id": id, "content": token, **options, "special": kind != _USER_DEFINED}
        for id, (token, kind) in enumerate(zip(tokens, _kinds(metadata), strict=True))
        if kind in (_CONTROL, _USER_DEFINED) or token == unknown
    ]


def _tokens_around(
    metadata: Metadata, tokens: Sequence[str], begins: bool = False, ends: bool = False
) -> tuple[list[str], list[str]]:
    # The tokens before and after a text. begins, ends: defaults of files that do not say.
    special = _special(metadata, tokens)
    parts = []
    for role, default in (("bos", begins), ("eos", ends)):
        stated = metadata.tokenizer(f"add_{role}_token", default)
        parts.append([special[role]] if stated and role in special else [])
    return parts[0], parts[1]


def _pair(first: list[str], last: list[str], separated: bool) -> list[str]:
    # separated: with the last token also before the second text, as in RoBERTa.
    return [*first, "A", *last, *(last if separated else first), "B", *last]


def _template(
    tokens: Sequence[str], first: list[str], last: list[str], pair: Sequence[str]
) -> Json | None:
    # pair: "A" and "B" are the texts; a 1 at the end means the second segment.
    if not first and not last:
        return None
    ids = {token: tokens.index(token) for token in (*first, *last)}

    def part(name: str) -> Json:
        segment = int(name.endswith("1") and name not in ids)
        plain = name[:-1] if segment else name
        if plain in ids:
            return {"SpecialToken": {"id": plain, "type_id": segment}}
        return {"Sequence": {"id": plain, "type_id": segment}}

    return {
        "type": "TemplateProcessing",
        "single": [part(name) for name in (*first, "A", *last)],
        "pair": [part(name) for name in pair],
        "special_tokens": {
            token: {"id": token, "ids": [id], "tokens": [token]} for token, id in ids.items()
        },
    }


def _bpe(tokens: Sequence[str], merges: Sequence[Sequence[str]]) -> Json:
    ids = _ids(tokens)
    known = [[*pair] for pair in merges if {*pair, "".join(pair)} <= ids.keys()]
    return {"type": "BPE", "vocab": ids, "merges": known}


def _merges(
    tokens: Sequence[str], scores: Sequence[float], kinds: Sequence[int]
) -> list[tuple[str, str]]:
    # Gemma's lines and runs of spaces are symbols of the user, and merged like other pieces.
    merged = (_NORMAL, _USER_DEFINED)
    ids = {token: id for id, token in enumerate(tokens) if kinds[id] in merged}
    ranked = []
    for token, id in ids.items():
        halves = ((token[:at], token[at:]) for at in range(1, len(token)))
        known = [(left, right) for left, right in halves if left in ids and right in ids]
        known.sort(key=lambda pair: (ids[pair[0]], ids[pair[1]]))
        ranked += [(scores[id], len(left), len(right), left, right) for left, right in known]
    ranked.sort(key=lambda merge: merge[:3], reverse=True)
    return [(left, right) for *_, left, right in ranked]


def _ids(tokens: Sequence[str]) -> dict[str, int]:
    # Of equal tokens, the first counts.
    return {token: id for id, token in reversed([*enumerate(tokens)])}


def _replace(pattern: str, content: str) -> Json:
    return {"type": "Replace", "pattern": {"String": pattern}, "content": content}


def _split(pattern: Json, behavior: str) -> Json:
    return {"type": "Split", "pattern": pattern, "behavior": behavior, "invert": False}
