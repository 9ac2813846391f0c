"""Options of a sentence model, which sentence-transformers stores next to an encoder."""

import pkgutil
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from embedwell_models import families
from embedwell_models.config.encoder_config import EncoderConfig
from embedwell_models.config.json_config import JsonConfig
from embedwell_models.config.model_options import AUTO
from embedwell_models.config.model_spec import ModelSpec
from embedwell_models.errors import ModelError
from embedwell_models.families.family import Family
from embedwell_models.model_files import modules
from embedwell_models.model_files.card import default_prompt, read_card, read_prompts
from embedwell_models.model_files.modules import TABLES, WORD_WEIGHTS, ModuleEntry
from embedwell_models.model_files.pooling import (
    MODES_WITHOUT_WORD_WEIGHTS,
    SPLADE,
    LayerMix,
    PoolingChoice,
    Source,
    choose_pooling,
    has_pooling,
    read_layer_weights,
)
from embedwell_models.model_files.sparse import Sparse, read_sparse
from embedwell_models.model_files.transformer import Output, TransformerOptions
from embedwell_models.model_files.vector_modules import (
    Dense,
    LogitScore,
    Module,
    Normalize,
    Truncate,
    projection_modules,
)
from embedwell_models.tokenizer.tokens import Side

if TYPE_CHECKING:  # imported for a model that has them, and where texts are tokenized
    from embedwell_models.model_files.classifier import ClassifierOptions
    from embedwell_models.model_files.multi_vector import MultiVectorOptions
    from embedwell_models.tokenizer.formats import TextFormat
    from embedwell_models.tokenizer.tokenizer import Tokenizer


@dataclass(frozen=True, kw_only=True)
class VectorRecipe:
    """Everything between a text and its vector except the encoder.

    max_length: maximum number of tokens, special tokens included. side: the side on which a longer
    text is truncated; None for the side of the tokenizer's files. pooling, pooling_source,
    include_prompt: see PoolingChoice; the pooling is () for a model without text vectors. modules:
    modules after the pooling, in order. normalize: whether vectors are normalised at the end.
    prefix_in_prompt: whether special tokens before a text count as tokens of the prompt.
    file_only: whether only tokenizer.json is read, and texts get no special tokens.
    keep_unknown: whether unknown tokens remain. end, padded: see Projection. pad_id: id that is not
    read at the end of a text; None if every id is.
    layer_weights: weights of the states of several layers; None for the last states alone.
    sparse: options of sparse vectors; None for a model without them. word_weights: the folder,
    relative to the model's, with a weight for each word of a table; None without weights.
    text_format: the text around a text, in which the prompt is an instruction; None if a text just
    follows its prompt. role: query or document if the modules are for texts of this role alone.
    """

    max_length: int
    pooling: tuple[str, ...] = ("mean",)
    pooling_source: Source = "model"
    include_prompt: bool = True
    prefix_in_prompt: bool = True
    modules: tuple[Module, ...] = ()
    normalize: bool = False
    lowercase: bool = False
    side: Side | None = None
    file_only: bool = False
    keep_unknown: bool = True
    end: int | None = None
    padded: bool = False
    pad_id: int | None = None
    layer_weights: LayerMix | None = None
    sparse: Sparse | None = None
    word_weights: str | None = None
    prompts: dict[str, str] = field(default_factory=dict)
    default_prompt: str = ""
    text_format: "TextFormat | None" = None
    role: str | None = None

    @classmethod
    def read(
        cls,
        folder: Path,
        entries: Sequence[ModuleEntry],
        spec: ModelSpec,
        pooling: str = AUTO,
    ) -> "VectorRecipe":
        """Read a folder's modules. pooling: overrides the files' pooling, unless AUTO.

        Raises ModelError for a module, pooling or option that is not supported.
        """
        encoder, card = spec.config, read_card(folder)
        family = families.named(encoder.family)
        as_code = family.published_pooling if pooling == AUTO and not has_pooling(entries) else ""
        choice = choose_pooling(folder, entries, as_code or pooling, spec.projection)
        if as_code:
            choice = replace(choice, source="model")
        following = _following(folder, entries, spec, choice, card)
        normalize = following[-1:] == [Normalize()]
        # Without modules.json, the options are those in the model's own code.
        own = spec.state_layers if choice.source == "assumed" else None
        options = _encoder_options(folder, entries[0], encoder, choice)
        published = family if modules.by_own_code(folder, entries[0]) else None
        with_format = published if family.instruction or family.text_format else None
        text_format = _text_format(folder / entries[0].path, options, with_format)
        instruction = published.instruction if published and text_format else ""
        return cls(
            max_length=options.max_length,
            pooling=choice.modes,
            pooling_source=choice.source,
            include_prompt=own.include_prompt if own else choice.include_prompt,
            prefix_in_prompt=spec.state_layers is None,
            modules=tuple(following[:-1] if normalize else following),
            normalize=own.normalize if own else normalize or bool(instruction or as_code),
            end=choice.projection.end if choice.projection else None,
            padded=choice.projection is not None and choice.projection.padded,
            layer_weights=read_layer_weights(folder, entries, encoder),
            sparse=read_sparse(folder, entries, encoder, choice),
            lowercase=options.lowercase,
            side=options.side,
            file_only=entries[0].kind in TABLES,
            word_weights=_word_weights(folder, entries, choice),
            keep_unknown=family.keeps_unknown_tokens,
            prompts=_prompts(card, family, published, spec),
            default_prompt=default_prompt(card) or instruction or _published_prompt(published),
            text_format=text_format,
        )

    @classmethod
    def of_classifier(
        cls, folder: Path, path: str, encoder: EncoderConfig, classifier: "ClassifierOptions"
    ) -> "VectorRecipe":
        """Read the options of a classifier, whose logits are the vector of a text.

        path: the encoder's folder, relative to the model's.
        """
        from embedwell_models.tokenizer.formats import DecoderFormat

        options = TransformerOptions.read(folder, path, encoder, classifier.output)
        listwise, pairs, length = classifier.listwise, classifier.pair_format, options.max_length
        if listwise:
            length = listwise.format.max_document
        elif isinstance(pairs, DecoderFormat):
            length = pairs.max_length
        return cls(
            max_length=length,
            pooling=(classifier.head.pooling,),
            modules=classifier.head.modules,
            lowercase=options.lowercase,
            side=options.side,
            pad_id=classifier.head.pad_id,
        )

    @classmethod
    def of_multi_vector(
        cls, folder: Path, path: str, spec: ModelSpec, multi_vector: "MultiVectorOptions"
    ) -> "VectorRecipe":
        """Read the options of a multi-vector model, which has no pooling.

        path: the encoder's folder, relative to the model's.
        """
        from embedwell_models.model_files.multi_vector import ROLES

        encoder = spec.config
        if spec.page_format:
            options = TransformerOptions.of_pages(folder, path, encoder)
        else:
            options = TransformerOptions.read(folder, path, encoder, multi_vector=True)
        lengths = [multi_vector.max_length(role, options.max_length) for role in ROLES]
        prompts = dict(multi_vector.prompts)
        return cls(
            max_length=min(max(lengths), encoder.max_tokens),
            pooling=(),
            modules=multi_vector.modules,
            normalize=multi_vector.normalize,
            lowercase=options.lowercase,
            side=options.side,
            prompts=prompts,
            default_prompt=prompts["document"],
        )

    @property
    def has_late_chunking(self) -> bool:
        """Whether the mean of a chunk's hidden states is a vector as that of a text is."""
        return self.pooling == ("mean",) and not self.modules

    def before_text(self, prompt: str) -> str:
        """Return the text before a text with this prompt."""
        return prompt if self.text_format is None else self.text_format.before(prompt)

    def prompt_token_count(self, prompt: str, tokenizer: "Tokenizer") -> int:
        """Return the number of first tokens of a text that the pooling leaves out with a prompt.

        The text of a chat template is never left out, as in sentence-transformers.
        """
        if self.include_prompt or not prompt or self.text_format is not None:
            return 0
        length = tokenizer.prompt_length(prompt)
        return length if self.prefix_in_prompt else length - len(tokenizer.special_tokens.prefix)

    def vector_width(self, encoder: EncoderConfig, truncated: bool = True) -> int:
        """Return the number of dimensions of a vector. truncated: after `truncate_dim`."""
        if self.pooling == (SPLADE,):
            return encoder.vocab_size
        steps = [step for step in self.modules if truncated or not isinstance(step, Truncate)]
        return _last_width(steps, encoder.hidden_size * (len(self.pooling) or 1))  # or of a token


def _following(
    folder: Path,
    entries: Sequence[ModuleEntry],
    spec: ModelSpec,
    choice: PoolingChoice,
    card: JsonConfig,
) -> list[Module]:
    # The modules after the pooling.
    pooled = spec.config.hidden_size * len(choice.modes)
    projected = projection_modules(entries[0].path, spec.config.hidden_size, choice.projection)
    width = _last_width(projected, pooled)
    following = [*projected, *modules.read_vector_modules(folder, entries, width)]
    if choice.modes == (SPLADE,):
        return following
    return following + _truncation(card, spec, _last_width(following, pooled))


def _prompts(
    card: JsonConfig, family: Family, published: Family | None, spec: ModelSpec
) -> dict[str, str]:
    # published: the family, if its own code says how a text is read.
    prompts = {**(published.prompts if published else {}), **read_prompts(card)}
    if spec.adapters and spec.adapters.name in spec.adapters.symmetric:
        prompts |= dict.fromkeys(family.prompts, family.prompts["query"])
    return prompts


def _published_prompt(published: Family | None) -> str:
    return published.prompts.get(published.default_prompt, "") if published else ""


def _text_format(
    encoder: Path, options: TransformerOptions, published: Family | None
) -> "TextFormat | None":
    """Read the format of texts. published: the family that states it in place of the files."""
    template = options.chat_template
    if published and published.text_format:
        text_format: TextFormat = pkgutil.resolve_name(published.text_format)
        return text_format
    if template is None and published is None:
        return None
    from embedwell_models.model_files.chat_template import TEXT_VARIABLES, read_text_format

    if published or template is None:
        return read_text_format(encoder, TEXT_VARIABLES, None)
    return read_text_format(encoder, template.variables, template.format)


def _word_weights(
    folder: Path, entries: Sequence[ModuleEntry], choice: PoolingChoice
) -> str | None:
    paths = [entry.path for entry in entries if entry.kind == WORD_WEIGHTS]
    refused = [mode for mode in choice.modes if mode in MODES_WITHOUT_WORD_WEIGHTS]
    if paths and refused:
        raise ModelError(f"{folder}: {WORD_WEIGHTS} with the pooling {refused[0]} is not supported")
    return paths[0] if paths else None


def _encoder_options(
    folder: Path, entry: ModuleEntry, encoder: EncoderConfig, choice: PoolingChoice
) -> TransformerOptions:
    if entry.kind in TABLES:
        return TransformerOptions(encoder.max_positions)
    output: Output = "token_logits" if choice.modes == (SPLADE,) else "states"
    if choice.projection is not None and choice.projection.pooling is None:
        output = "projection"
    return TransformerOptions.read(folder, entry.path, encoder, output)


def _last_width(steps: Sequence[Module], width: int) -> int:
    """Return the number of dimensions after some modules. width: before them."""
    widths = [step.outputs for step in steps if isinstance(step, Dense | LogitScore | Truncate)]
    return widths[-1] if widths else width


def _truncation(card: JsonConfig, spec: ModelSpec, width: int) -> list[Truncate]:
    # sentence-transformers truncates after all modules, and does not normalise again.
    dimensions = card.get("truncate_dim")
    if dimensions is not None and spec.images:
        raise card.unsupported("truncate_dim", dimensions, "null for texts and images")
    return [] if dimensions is None or dimensions >= width else [Truncate(dimensions)]
