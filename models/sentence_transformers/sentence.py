"""How a sentence vector is made: the files that sentence-transformers lays beside an encoder."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from models.config.blueprint import Blueprint, Projection
from models.config.json_config import JsonConfig
from models.sentence_transformers import modules
from models.sentence_transformers.modules import STATIC, Dense, Entry, Module, Normalize
from models.sentence_transformers.pooling import AUTO, Source, choose_pooling
from models.sentence_transformers.transformer import TransformerOptions
from models.tokenizer.tokenizer import Tokenizer
from models.tokenizer.truncation import Side


@dataclass(frozen=True, kw_only=True)
class SentenceConfig:
    """Everything between a text and its vector that is not the encoder.

    max_length: tokens, special ones included. side: where a longer text is cut, None: as the
    tokenizer's own files say. pooling: names, concatenated when several; pooling_source: who says
    so, see PoolingChoice. include_prompt: whether the prompt's tokens are pooled. modules: what
    follows the pooling, in order. normalize: whether vectors get unit length at last.
    bare: whether texts get no special tokens, and only tokenizer.json says what others they get.
    unknown: whether tokens that the vocabulary lacks are read. end: see Projection; None for none.
    """

    max_length: int
    pooling: tuple[str, ...] = ("mean",)
    pooling_source: Source = "model"
    include_prompt: bool = True
    modules: tuple[Module, ...] = ()
    normalize: bool = False
    lowercase: bool = False
    side: Side | None = None
    bare: bool = False
    unknown: bool = True
    end: int | None = None
    prompts: dict[str, str] = field(default_factory=dict)
    default_prompt: str = ""

    @classmethod
    def read(
        cls, folder: Path, entries: Sequence[Entry], blueprint: Blueprint, pooling: str = AUTO
    ) -> "SentenceConfig":
        """Read the files of the modules of a folder. pooling: in place of theirs, unless AUTO.

        Raises ModelError on a module, pooling or option that is not implemented.
        """
        encoder = blueprint.config
        chosen = choose_pooling(folder, entries, pooling, blueprint.projection)
        projected = _projected(entries[0].path, encoder.hidden_size, chosen.projection)
        width = projected[0].outputs if projected else encoder.hidden_size * len(chosen.modes)
        after = [*projected, *modules.following(folder, entries, width)]
        normalize = after[-1:] == [Normalize()]
        card = JsonConfig.optional(folder / "config_sentence_transformers.json")
        prompts: dict[str, str] = card.get("prompts", {})
        static, home = entries[0].kind == STATIC, folder / entries[0].path
        read, longest = TransformerOptions.read, encoder.max_positions
        options = TransformerOptions(longest) if static else read(home, encoder, bool(projected))
        return cls(
            max_length=options.max_length,
            pooling=chosen.modes,
            pooling_source=chosen.source,
            include_prompt=chosen.include_prompt,
            modules=tuple(after[:-1] if normalize else after),
            normalize=normalize,
            end=chosen.projection.end if chosen.projection else None,
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


def _projected(path: str, hidden: int, projection: Projection | None) -> list[Dense]:
    if projection is None:
        return []
    return [
        Dense(
            path=path,
            inputs=hidden,
            outputs=projection.width,
            bias=False,
            activation="Identity",
            tensor=projection.tensor,
        )
    ]


def _default(card: JsonConfig, prompts: dict[str, str]) -> str:
    stated = card.get("default_prompt_name") is not None
    return card.among("default_prompt_name", prompts) if stated else ""
