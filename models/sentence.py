"""How a sentence vector is made: the files that sentence-transformers lays beside an encoder."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from models import modules
from models.config import EncoderConfig
from models.modules import STATIC, Dense, Entry, Module, Normalize
from models.raw import Raw
from models.tokenizer import Tokenizer
from models.transformer import TransformerOptions
from models.truncation import Side

# The booleans of the older schema of 1_Pooling/config.json -> the names of the newer one.
_BOOLEANS = {
    "pooling_mode_cls_token": "cls",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_mean_sqrt_len_tokens": "mean_sqrt_len_tokens",
    "pooling_mode_weightedmean_tokens": "weightedmean",
    "pooling_mode_lasttoken": "lasttoken",
}
_MODES = tuple(_BOOLEANS.values())


@dataclass(frozen=True, kw_only=True)
class SentenceConfig:
    """Everything between a text and its vector that is not the encoder.

    max_length: tokens, special ones included. side: where a longer text is cut, None: as the
    tokenizer's own files say. pooling: names, concatenated when several.
    include_prompt: whether the prompt's tokens are pooled. modules: what follows the pooling, in
    order. normalize: whether vectors get unit length at last.
    bare: whether texts get no special tokens, and only tokenizer.json says what others they get.
    unknown: whether tokens that the vocabulary lacks are read.
    """

    max_length: int
    pooling: tuple[str, ...] = ("mean",)
    include_prompt: bool = True
    modules: tuple[Module, ...] = ()
    normalize: bool = False
    lowercase: bool = False
    side: Side | None = None
    bare: bool = False
    unknown: bool = True
    prompts: dict[str, str] = field(default_factory=dict)
    default_prompt: str = ""

    @classmethod
    def read(
        cls, folder: Path, entries: Sequence[Entry], encoder: EncoderConfig
    ) -> "SentenceConfig":
        """Read the files of the modules of a folder; an encoder alone gets mean pooling.

        Raises ModelError on a module, pooling or option that is not implemented.
        """
        pooling, include_prompt = _pooling(folder, entries)
        after = modules.following(folder, entries, encoder.hidden_size * len(pooling))
        normalize = after[-1:] == [Normalize()]
        card = Raw.optional(folder / "config_sentence_transformers.json")
        prompts: dict[str, str] = card.get("prompts", {})
        static, home = entries[0].kind == STATIC, folder / entries[0].path
        read, longest = TransformerOptions.read, encoder.max_positions
        options = TransformerOptions(longest) if static else read(home, encoder)
        return cls(
            max_length=options.max_length,
            pooling=pooling,
            include_prompt=include_prompt,
            modules=tuple(after[:-1] if normalize else after),
            normalize=normalize,
            lowercase=options.lowercase,
            side=options.side,
            bare=static,
            unknown=encoder.family != "model2vec",
            prompts=prompts,
            default_prompt=_default(card, prompts),
        )

    def skip(self, prompt: str, tokenizer: Tokenizer) -> int:
        """How many tokens of a text after a prompt, the first ones, are not pooled."""
        return 0 if self.include_prompt or not prompt else tokenizer.prompt_length(prompt)

    def width(self, hidden: int) -> int:
        """The number of dimensions of a vector, for an encoder of some width."""
        changed = [step.outputs for step in self.modules if isinstance(step, Dense)]
        return changed[-1] if changed else hidden * len(self.pooling)


def _pooling(folder: Path, entries: Sequence[Entry]) -> tuple[tuple[str, ...], bool]:
    if "Pooling" not in [entry.kind for entry in entries]:
        return ("mean",), True
    raw = Raw(folder / entries[1].path / "config.json")
    told = [new for old, new in _BOOLEANS.items() if raw.get(old, False)]
    modes = raw.get("pooling_mode") or told or "mean"
    modes = tuple(modes) if isinstance(modes, list) else (modes,)
    if not all(mode in _MODES for mode in modes):
        raise raw.refusal("pooling_mode", modes, _MODES)
    return modes, raw.get("include_prompt", True)


def _default(card: Raw, prompts: dict[str, str]) -> str:
    stated = card.get("default_prompt_name") is not None
    return card.among("default_prompt_name", prompts) if stated else ""
