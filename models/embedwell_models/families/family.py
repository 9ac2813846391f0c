"""Record of a family of models: its names, its reader, its heads, and its documentation."""

import pkgutil
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, Literal

from embedwell_models.checkpoint.tables import TensorNames
from embedwell_models.config.json_config import JsonConfig
from embedwell_models.config.model_spec import ModelSpec
from embedwell_models.families.heads import ClassificationLayers, MaskedLMReader

Reader = Callable[[JsonConfig], ModelSpec]
"""Function that builds the spec of a model from its config.json."""
TokenizerOverride = Literal["normalizer", "prefix_space", "nothing"]
"""The part of tokenizer.json that a tokenizer class of transformers overrides.

tokenizer.loading.tokenizer_config has a function for each.
"""


@dataclass(frozen=True)
class Variant:
    """A model_type that another family has, too, or "" for a config.json without one.

    sign: the difference between the two, for the documentation.
    """

    model_type: str
    sign: str
    applies: Callable[[JsonConfig], bool]

    @classmethod
    def by_positions(cls, model_type: str, positions: str) -> "Variant":
        """Return the variant with this position_embedding_type."""
        return cls(model_type, positions, lambda options: options.get(_POSITIONS, "") == positions)

    @classmethod
    def by_class(cls, model_type: str, name: str) -> "Variant":
        """Return the variant whose architectures name this class."""
        return cls(model_type, name, lambda options: name in options.get("architectures", ()))


_POSITIONS = "position_embedding_type"


@dataclass(frozen=True)
class DocsRow:
    """An entry of the lists of families in docs; several records can share it.

    torch: the models that need torch on every machine, or "yes" for all; empty for none.
    """

    family: str
    models: str = ""
    _: KW_ONLY
    positions: str
    layers: str
    torch: str = ""


@dataclass(frozen=True)
class NextToken:
    """Logits of the next token. tied: whether the output table is the input table by default.

    softcap: the default bound of the logits; None for no bound.
    """

    tied: bool
    softcap: float | None = None


@dataclass(frozen=True, kw_only=True)
class Family:
    """A family of models.

    model_types: values of model_type in config.json; empty for a table, which needs none.
    name: name in EncoderConfig; if empty, the model_type.
    read: builds the spec of a model; None for a table.
    table: names of the tensors of a table of word vectors without layers; None for other families.
    row: its entry in the documentation. further_rows: those of a record of several families.
    head_classes: classes besides ...ForSequenceClassification that have the classification head.
    classification_head, masked_lm_head, next_token: heads for labels, for sparse vectors and for
    generative rerankers; None if they are not supported.
    published_pooling: pooling of the family's own code, which then normalises; it applies where
    the files name no pooling. "" if there is none.
    rerank_format: name of the format of pairs (`rerank_formats`) that its rerankers read if their
    files have none; "" if the tokenizer joins two texts.
    reads_lists: whether its rerankers read a query and all documents as one sequence
    (`model_files.classifier`).
    decodes_queries: whether its rerankers read a document with an encoder, and the query with a
    decoder (`model_files.classifier`).
    default_segments: number of segments if config.json does not state it.
    tokenizer_override: the part of tokenizer.json that the family's tokenizer class overrides, or
    nothing; None if transformers has no class with the name of a model_type, so that a folder that
    names one has code of its own. tokenizer_classes: further names of the class, without
    "Tokenizer". A folder that names the class of another family has the override of that.
    ends_texts: whether the model's own code adds eos_token after each text.
    keeps_unknown_tokens: whether a text keeps its unknown tokens.
    scheme_names: further names of its position schemes in requests, each with the scheme's name.
    instruction: default instruction of models that read texts in a chat template; "" for others.
    prompts: named prompts of models whose own code reads texts. default_prompt: name of the one
    for a text without a prompt; "" for none.
    text_format: the TextFormat in which the family's own code reads texts, as "module:name"; "" for
    that of the files' chat template.
    states_need_attention: whether the reference code does more to tokens that nothing attends to
    than to ignore them.
    outputs: names of the outputs of its models (`output_names`), if they neither embed, rerank nor
    classify; output_loader: loader of what computes them, as "module:function" of a LoadedModel,
    which returns an OutputComputer (`loading.output_heads`). Empty for other families.
    encoder_loader: loader of an encoder with layers of its own, as "module:function"; "" for the
    common layers. on_torch: whether torch computes these layers.
    replaced_code: classes of remote code (`auto_map`) that the family replaces.
    replaces_module: whether it also replaces the first module of modules.json, if that is code of
    the model.
    ignored_keys: patterns of keys of config.json that change no vector of this family.
    """

    model_types: tuple[str | Variant, ...] = ()
    name: str = ""
    read: Reader | None = None
    table: TensorNames | None = None
    row: DocsRow
    further_rows: tuple[DocsRow, ...] = ()
    classification_head: Callable[[JsonConfig], ClassificationLayers] | None = None
    masked_lm_head: MaskedLMReader | None = None
    next_token: NextToken | None = None
    head_classes: tuple[str, ...] = ()
    published_pooling: str = ""
    rerank_format: str = ""
    reads_lists: bool = False
    decodes_queries: bool = False
    default_segments: int = 2
    tokenizer_override: TokenizerOverride | None = None
    tokenizer_classes: tuple[str, ...] = ()
    ends_texts: bool = False
    keeps_unknown_tokens: bool = True
    scheme_names: Mapping[str, str] = field(default_factory=dict)
    instruction: str = ""
    prompts: Mapping[str, str] = field(default_factory=dict)
    default_prompt: str = ""
    text_format: str = ""
    states_need_attention: bool = False
    outputs: tuple[str, ...] = ()
    output_loader: str = ""
    encoder_loader: str = ""
    on_torch: bool = False
    replaced_code: tuple[str, ...] = ()
    replaces_module: bool = False
    ignored_keys: tuple[str, ...] = ()

    @property
    def own_types(self) -> tuple[str, ...]:
        """Values of model_type that belong to this family unless a variant applies."""
        return tuple(each for each in self.model_types if isinstance(each, str))

    @property
    def variants(self) -> tuple[Variant, ...]:
        """Values of model_type that another family has, too."""
        return tuple(each for each in self.model_types if isinstance(each, Variant))

    @property
    def names(self) -> tuple[str, ...]:
        """Names in EncoderConfig of the family's models."""
        return (self.name,) if self.name else self.own_types

    @property
    def rows(self) -> tuple[DocsRow, ...]:
        """All its entries in the documentation."""
        return (self.row, *self.further_rows)

    @property
    def is_decoded_table(self) -> bool:
        """Whether the rows of a table are decoded when it is loaded, not when they are used."""
        return self.table is not None and not self.encoder_loader

    def import_encoder_loader(self) -> Callable[..., Any] | None:
        """Import the loader of its encoder; None for the common layers.

        Its arguments are the folder, the device and the CPU features that may be used.
        """
        return pkgutil.resolve_name(self.encoder_loader) if self.encoder_loader else None
