"""Folders with the vocabulary files of older checkpoints, and no tokenizer.json."""

import io
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import sentencepiece
from tokenizers import Tokenizer

from tests.models import kinds

Write = Callable[[Path], None]

COMPOSED = [
    *("한국어 문장을 읽습니다", "tiếng việt là ngôn ngữ của người việt"),
    *("がぎぐげご パピプペポ ヴ", "é ö ñ č", "й ё ї"),
]
"""Texts of composed letters, which the SentencePiece files have pieces for."""

ANGLED = ["<s>", "<pad>", "</s>", "<unk>", "[UNK]", "<mask>"]
BRACKETED = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
QWEN = {
    "bos_token": None,
    "eos_token": "<|im_end|>",
    "pad_token": "<|endoftext|>",
    "additional_special_tokens": ["<|im_start|>", "<|im_end|>"],
    "added_tokens_decoder": {
        "500": {"content": "<|im_start|>", "special": True},
        "501": {"content": "<|im_end|>", "special": True, "lstrip": True},
        "502": {"content": "<tool>", "special": False, "normalized": True},
    },
}
T5 = {"vocab_size": 300, "pad_id": 0, "eos_id": 1, "unk_id": 2, "bos_id": -1}
ALBERT = {
    "vocab_size": 300,
    "pad_id": 0,
    "unk_id": 1,
    "bos_id": -1,
    "eos_id": -1,
    "control_symbols": ["[CLS]", "[SEP]", "[MASK]"],
}
XLNET = {"vocab_size": 300, "control_symbols": ["<sep>", "<pad>", "<cls>", "<mask>", "<eop>"]}
DEBERTA = {
    "vocab_size": 300,
    **{"pad_id": 0, "bos_id": 1, "eos_id": 2, "unk_id": 3},
    **{"pad_piece": "[PAD]", "bos_piece": "[CLS]", "eos_piece": "[SEP]", "unk_piece": "[UNK]"},
}
LLAMA = {
    "vocab_size": 500,
    "model_type": "bpe",
    "byte_fallback": True,
    "normalization_rule_name": "identity",
    "split_digits": True,
    "allow_whitespace_only_pieces": True,
    "remove_extra_whitespaces": False,
}
GEMMA = {
    **LLAMA,
    **{"pad_id": 0, "eos_id": 1, "bos_id": 2, "unk_id": 3},
    **{"pad_piece": "<pad>", "eos_piece": "<eos>", "bos_piece": "<bos>"},
    "add_dummy_prefix": False,
    "user_defined_symbols": ["<mask>", "\n\n", "▁▁", "<start_of_turn>"],
}


def vocabulary(special: list[str]) -> Write:
    """vocab.txt: special tokens, then the pieces of a trained one."""

    def write(folder: Path) -> None:
        ids = Tokenizer.from_str(kinds.text("wordpiece")).get_vocab()
        pieces = sorted(ids.keys() - {*BRACKETED}, key=ids.__getitem__)
        (folder / "vocab.txt").write_text("\n".join([*special, *pieces]) + "\n", encoding="utf-8")

    return write


def merges(kind: str) -> Write:
    """vocab.json and merges.txt of a kind."""

    def write(folder: Path) -> None:
        Tokenizer.from_str(kinds.text(kind)).model.save(str(folder))

    return write


_WITHOUT_MARKS = ["かきくけこ ハヒフヘホ ウ", "e o n c", "и е і", "1 2 1⁄2"]


def pieces(name: str, **training: Any) -> Write:
    """A SentencePiece file trained on the licence, COMPOSED and their bare letters."""

    def write(folder: Path) -> None:
        file = io.BytesIO()
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter([*kinds.PROSE.splitlines(), *[*COMPOSED, *_WITHOUT_MARKS] * 20]),
            model_writer=file,
            character_coverage=1.0,
            minloglevel=2,
            **training,
        )
        (folder / name).write_bytes(file.getvalue())

    return write


XLM = pieces("sentencepiece.bpe.model", vocab_size=300, user_defined_symbols=["<x>"])

# name -> what is written, model_type, tokenizer_config.json and other files.
CASES: Mapping[str, tuple[Write, str, Any, Mapping[str, Any]]] = {
    "bert": (vocabulary(BRACKETED), "bert", None, {}),
    "bert_cased": (
        vocabulary(BRACKETED),
        "bert",
        {"do_lower_case": False, "tokenize_chinese_chars": False, "strip_accents": True},
        {},
    ),
    "bert_accents": (vocabulary(BRACKETED), "bert", {"strip_accents": False}, {}),
    "distilbert": (vocabulary(BRACKETED), "distilbert", {"tokenizer_class": "BertTokenizer"}, {}),
    "electra": (
        vocabulary(BRACKETED),
        "electra",
        None,
        {"special_tokens_map.json": {"mask_token": {"content": "[MASK]", "lstrip": True}}},
    ),
    "mpnet": (vocabulary(ANGLED), "mpnet", None, {}),
    "roberta": (merges("roberta"), "roberta", None, {}),
    "roberta_prefix": (
        merges("roberta"),
        "roberta",
        {"add_prefix_space": True},
        {"special_tokens_map.json": {"mask_token": {"content": "<mask>", "lstrip": True}}},
    ),
    "gpt2": (merges("gpt2"), "gpt2", None, {}),
    "gpt2_framed": (
        merges("gpt2"),
        "gpt2",
        {"add_bos_token": True, "add_eos_token": True},
        {"added_tokens.json": {"<tool>": 500}},
    ),
    "clip": (merges("clip"), "clip", None, {}),
    "qwen": (merges("qwen"), "qwen2", QWEN, {}),
    "xlm_roberta": (XLM, "xlm-roberta", None, {}),
    "bert_of_pieces": (XLM, "bert", {"tokenizer_class": "XLMRobertaTokenizerFast"}, {}),
    "camembert": (XLM, "camembert", None, {}),
    "t5": (pieces("spiece.model", **T5), "t5", None, {}),
    "mt5": (
        pieces("spiece.model", **T5, user_defined_symbols=["<x>"]),
        "mt5",
        {"extra_ids": 0},
        {},
    ),
    "albert": (pieces("spiece.model", **ALBERT), "albert", None, {}),
    "albert_cased": (
        pieces("spiece.model", **ALBERT),
        "albert",
        {"do_lower_case": False, "keep_accents": True},
        {},
    ),
    "xlnet": (pieces("spiece.model", **XLNET), "xlnet", None, {}),
    "deberta": (
        pieces("spm.model", **DEBERTA),
        "deberta-v2",
        {"do_lower_case": False, "vocab_type": "spm"},
        {"added_tokens.json": {"[MASK]": 300}},
    ),
    "deberta_split": (
        pieces("spm.model", **DEBERTA),
        "deberta-v2",
        {"do_lower_case": True, "split_by_punct": True},
        {},
    ),
    "llama": (
        pieces("tokenizer.model", **LLAMA),
        "llama",
        {"add_bos_token": True, "add_eos_token": True, "legacy": False},
        {},
    ),
    "llama_legacy": (
        pieces("tokenizer.model", **LLAMA, user_defined_symbols=["<x>"]),
        "llama",
        {"add_bos_token": True, "legacy": True, "tokenizer_class": "LlamaTokenizer"},
        {},
    ),
    "gemma": (pieces("tokenizer.model", **GEMMA), "gemma2", None, {}),
}


def write(name: str, folder: Path) -> Path:
    """Write the files of a case to a folder, and return the folder."""
    make, kind, options, files = CASES[name]
    make(folder)
    written = {"config.json": {"model_type": kind}, **files}
    if options is not None:
        written["tokenizer_config.json"] = options
    for file, content in written.items():
        (folder / file).write_text(json.dumps(content), encoding="utf-8")
    return folder
