"""How each family's tokenizer is put together from vocabulary files: the table of families."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tokenizers import AddedToken, Tokenizer

from models.vocabulary import pieces, words
from models.vocabulary.added import Added
from models.vocabulary.template import surround

Special = Mapping[str, str | AddedToken]


def _keep(rust: Tokenizer, added: Added) -> None:
    """A tokenizer.json as it is."""


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """files: of the vocabulary. build: from their paths, all but the special tokens.

    special: role -> token, unless the checkpoint names another. template: the roles around a
    text, $A. optional: role of the template -> whether it is there, unless the checkpoint says.
    override: puts the checkpoint's options in place of those of a tokenizer.json.
    """

    files: tuple[str, ...]
    build: Callable[[list[Path], Added], Tokenizer]
    special: Special
    template: str
    optional: Mapping[str, bool] = field(default_factory=dict)
    override: Callable[[Tokenizer, Added], None] = _keep

    def make(self, folder: Path) -> Tokenizer:
        """The tokenizer of a folder that has these files."""
        added = Added(folder, self.special)
        rust = self.build([folder / name for name in self.files], added)
        added.add(rust)
        self._frame(rust, added)
        return rust

    def _frame(self, rust: Tokenizer, added: Added) -> None:
        roles = [role for role in self.template.split() if self._stands(role, added)]
        surround(rust, [role if role == "$A" else added.name(role) for role in roles])

    def _stands(self, role: str, added: Added) -> bool:
        if role not in self.optional:
            return True
        wanted = added.options.get(f"add_{role}_token", self.optional[role])
        return bool(wanted) and role in added.special


def _mask(text: str) -> AddedToken:
    return AddedToken(text, lstrip=True, special=True)


_BERT = {
    "unk": "[UNK]",
    "sep": "[SEP]",
    "pad": "[PAD]",
    "cls": "[CLS]",
    "mask": "[MASK]",
}
_ROBERTA = {
    "bos": "<s>",
    "eos": "</s>",
    "unk": "<unk>",
    "sep": "</s>",
    "pad": "<pad>",
    "cls": "<s>",
    "mask": "<mask>",
}
_GPT2 = dict.fromkeys(("bos", "eos", "unk"), "<|endoftext|>")

BERT = Recipe(
    files=("vocab.txt",),
    build=words.wordpiece,
    special=_BERT,
    template="cls $A sep",
    override=words.letters,
)
MPNET = Recipe(
    files=("vocab.txt",),
    build=words.wordpiece,
    special={
        role: AddedToken(text, lstrip=role == "mask", special=True)
        for role, text in {**_ROBERTA, "unk": "[UNK]"}.items()
    },
    template="cls $A sep",
    override=words.letters,
)
MERGES = ("vocab.json", "merges.txt")
ROBERTA = Recipe(
    files=MERGES,
    build=words.roberta,
    special=_ROBERTA,
    template="cls $A sep",
    override=words.prefix,
)
GPT2 = Recipe(
    files=MERGES,
    build=words.bytelevel,
    special=_GPT2,
    template="bos $A eos",
    optional={"bos": False, "eos": False},
    override=words.prefix,
)
QWEN2 = Recipe(
    files=MERGES,
    build=words.qwen,
    special={"eos": "<|endoftext|>", "unk": "<|endoftext|>", "pad": "<|endoftext|>"},
    template="bos $A eos",
    optional={"bos": False, "eos": False},
)
CLIP = Recipe(
    files=MERGES,
    build=words.clip,
    special={
        "bos": "<|startoftext|>",
        "eos": "<|endoftext|>",
        "unk": "<|endoftext|>",
        "pad": "<|endoftext|>",
    },
    template="bos $A eos",
)
XLM_ROBERTA = Recipe(
    files=("sentencepiece.bpe.model",),
    build=pieces.xlm_roberta,
    special=_ROBERTA,
    template="bos $A eos",
)
CAMEMBERT = Recipe(
    files=("sentencepiece.bpe.model",),
    build=pieces.camembert,
    special={**_ROBERTA, "mask": _mask("<mask>")},
    template="bos $A eos",
)
T5 = Recipe(
    files=("spiece.model",),
    build=pieces.t5,
    special={"eos": "</s>", "unk": "<unk>", "pad": "<pad>"},
    template="$A eos",
)
ALBERT = Recipe(
    files=("spiece.model",),
    build=pieces.albert,
    special={**_BERT, "bos": "[CLS]", "eos": "[SEP]", "unk": "<unk>", "pad": "<pad>"},
    template="cls $A sep",
)
XLNET = Recipe(
    files=("spiece.model",),
    build=pieces.xlnet,
    special={**_ROBERTA, "sep": "<sep>", "cls": "<cls>", "mask": _mask("<mask>")},
    template="$A sep cls",
)
DEBERTA = Recipe(
    files=("spm.model",),
    build=pieces.deberta,
    special={**_BERT, "bos": "[CLS]", "eos": "[SEP]"},
    template="cls $A sep",
)
LLAMA = Recipe(
    files=("tokenizer.model",),
    build=pieces.llama,
    special={"bos": "<s>", "eos": "</s>", "unk": "<unk>"},
    template="bos $A eos",
    optional={"bos": True, "eos": False},
)
GEMMA = Recipe(
    files=("tokenizer.model",),
    build=pieces.gemma,
    special={
        "bos": "<bos>",
        "eos": "<eos>",
        "unk": "<unk>",
        "pad": "<pad>",
        "mask": "<mask>",
    },
    template="bos $A eos",
    optional={"bos": True, "eos": False},
)

# model_type of config.json, or the stem of a tokenizer_class, in small letters without signs.
RECIPES: Mapping[str, Recipe] = {
    **dict.fromkeys(("bert", "distilbert", "electra", "ernie", "nomicbert", "mobilebert"), BERT),
    "mpnet": MPNET,
    "roberta": ROBERTA,
    **dict.fromkeys(("gpt2", "gptj", "gptneo"), GPT2),
    **dict.fromkeys(("qwen2", "qwen3"), QWEN2),
    **dict.fromkeys(("clip", "cliptextmodel"), CLIP),
    "xlmroberta": XLM_ROBERTA,
    "camembert": CAMEMBERT,
    **dict.fromkeys(("t5", "mt5"), T5),
    "albert": ALBERT,
    "xlnet": XLNET,
    "debertav2": DEBERTA,
    **dict.fromkeys(("llama", "mistral"), LLAMA),
    **dict.fromkeys(("gemma", "gemma2", "gemma3", "gemma3text"), GEMMA),
}


def recipe(name: str) -> Recipe | None:
    """The recipe of a model_type or of a tokenizer_class, None when there is none."""
    stem = name.removesuffix("Fast").removesuffix("Tokenizer")
    return RECIPES.get(re.sub("[-_]", "", stem).lower())
