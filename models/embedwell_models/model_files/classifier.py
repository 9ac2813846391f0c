"""Labels, classification head and activation of a reranker or classifier, from its files."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from embedwell_models import families
from embedwell_models.checkpoint import weights
from embedwell_models.config.encoder_config import EncoderConfig
from embedwell_models.config.json_config import JsonConfig
from embedwell_models.config.model_options import AUTO, PAIR
from embedwell_models.errors import ModelError
from embedwell_models.model_files import chat_template
from embedwell_models.model_files.card import default_prompt, has_modules, read_card, read_kind
from embedwell_models.model_files.heads import (
    LANGUAGE_MODEL_SUFFIXES,
    ClassificationHead,
    classification_head,
    decoder_head,
    listwise_head,
    next_token_head,
)
from embedwell_models.model_files.modules import ModuleEntry
from embedwell_models.model_files.rerank_formats import list_format, published, read_decoder_format
from embedwell_models.model_files.transformer import (
    ChatTemplateOptions,
    Output,
    TransformerOptions,
)
from embedwell_models.outputs.names import Task
from embedwell_models.tokenizer.formats import AnyPairFormat, PairFormat, SeparateFormat
from embedwell_models.tokenizer.lists import ListEncoder, ListwiseFormat, list_encoder
from embedwell_models.tokenizer.loading import loader
from embedwell_models.tokenizer.loading.tokenizer_config import returns_segments
from embedwell_models.tokenizer.tokenizer import Tokenizer

_CLASSIFIER_SUFFIX = "ForSequenceClassification"
_RELEVANCE = ("relevance",)
_OLD_ACTIVATION = "sbert_ce_default_activation_function"

Activation = Literal["sigmoid", "identity", "tanh"]
_ACTIVATIONS: dict[str, Activation] = {
    "Sigmoid": "sigmoid",
    "Identity": "identity",
    "Tanh": "tanh",
}


@dataclass(frozen=True)
class ListwiseOptions:
    """Format and limits of the lists of documents that a listwise reranker reads.

    marker_ids: ids of the tokens whose states become vectors. max_length: tokens of a block's
    texts, see `list_encoder`.
    """

    format: ListwiseFormat
    marker_ids: tuple[int, ...]
    max_length: int

    @classmethod
    def read(cls, folder: Path, path: str, config: EncoderConfig) -> "ListwiseOptions":
        """Read the options of a folder; raises ModelError for markers that the model lacks.

        path: the encoder's folder, relative to the model's.
        """
        rust, markers = loader.load(folder / path).rust, list_format().markers
        marker_ids = [rust.token_to_id(marker) for marker in markers]
        ids = [id for id in marker_ids if id is not None and id < config.vocab_size]
        if len(ids) < len(marker_ids):
            raise ModelError(f"{folder / path}: the model lacks one of the tokens {markers}")
        length = TransformerOptions.read(folder, path, config).max_length
        return cls(list_format(), tuple(ids), length)

    def tokenizer(self, tokenizer: Tokenizer) -> ListEncoder:
        """Return the tokenizer of lists. tokenizer: that of the model."""
        return list_encoder(tokenizer, self.format, self.max_length)


@dataclass(frozen=True)
class ClassifierOptions:
    """Labels, head and activation of a classifier; with a single label it is a reranker.

    activation: the activation that sentence-transformers' CrossEncoder applies to the logits.
    multi_label: whether several labels can apply to a text, with independent probabilities. output:
    the output of the encoder's module. pair_format: the format in which the model reads pairs; None
    if the tokenizer joins two texts. listwise: set for a reranker that reads all documents of a
    query at once, and has vectors in place of logits; None for other models.
    """

    labels: tuple[str, ...]
    head: ClassificationHead
    activation: Activation
    multi_label: bool = False
    output: Output = "logits"
    pair_format: AnyPairFormat | None = None
    listwise: ListwiseOptions | None = None

    @property
    def reranks(self) -> bool:
        """Whether there is a single score: the relevance of a pair."""
        return len(self.labels) == 1

    @property
    def task(self) -> Task:
        """Whether the model reranks or classifies."""
        return "rerank" if self.reranks else "classify"

    @classmethod
    def read(
        cls,
        folder: Path,
        entries: Sequence[ModuleEntry],
        config: EncoderConfig,
        rerank_format: str = AUTO,
    ) -> "ClassifierOptions | None":
        """Read the classifier of a folder; return None for other kinds of models.

        rerank_format: format of pairs, one of CHOICES; auto is the format of the files.

        Raises ModelError for a head, an activation or a format that is not supported.
        """
        path = entries[0].path
        family = families.named(config.family)
        if (family.reads_lists or family.decodes_queries) and rerank_format != AUTO:
            raise ModelError(
                f"{folder}: the model reads texts in a format of its own; leave rerank_format "
                f"{AUTO!r}"
            )
        if family.reads_lists:
            return _listwise(folder, path, config)
        if family.decodes_queries:
            return _encoder_decoder(folder, path, config)
        options = JsonConfig(folder / path / "config.json")
        read = _head(folder, entries, options, config, rerank_format)
        if read is None:
            return None
        output, labels, head = read
        return cls(
            labels,
            head,
            _activation(folder, options, len(labels)),
            options.get("problem_type", "") == "multi_label_classification",
            output,
            _pair_format(folder, path, config, output, rerank_format, len(labels) == 1),
        )


def _encoder_decoder(folder: Path, path: str, config: EncoderConfig) -> ClassifierOptions:
    options = JsonConfig(folder / path / "config.json")
    return ClassifierOptions(
        _RELEVANCE,
        decoder_head(folder, path, config),
        _activation(folder, options, 1),
        output="next_token",
        pair_format=read_decoder_format(folder / path),
    )


def _listwise(folder: Path, path: str, config: EncoderConfig) -> ClassifierOptions:
    return ClassifierOptions(
        _RELEVANCE,
        listwise_head(path, config.hidden_size),
        "identity",
        output="states",
        listwise=ListwiseOptions.read(folder, path, config),
    )


def _head(
    folder: Path,
    entries: Sequence[ModuleEntry],
    options: JsonConfig,
    config: EncoderConfig,
    rerank_format: str,
) -> tuple[Output, tuple[str, ...], ClassificationHead] | None:
    # The output of the encoder, the labels and the head; None for a model that embeds.
    class_name = next(iter(options.get("architectures", ())), "")
    has_head = class_name in families.named(config.family).head_classes
    if has_head or class_name.endswith(_CLASSIFIER_SUFFIX):
        labels = _labels(options, config)
        head = classification_head(options, config, entries[0].path, len(labels))
        return "logits", labels, head
    if class_name.endswith(LANGUAGE_MODEL_SUFFIXES):
        next_token = next_token_head(folder, entries, config, rerank_format)
        return ("next_token", _RELEVANCE, next_token) if next_token else None
    if read_kind(folder) == "CrossEncoder":
        raise ModelError(
            f"{options.path}: a CrossEncoder of the class {class_name} is not supported; "
            f"supported: classes that end in {_CLASSIFIER_SUFFIX} or {LANGUAGE_MODEL_SUFFIXES[0]}"
        )
    return None


def _pair_format(  # noqa: PLR0913, PLR0917 - called once
    folder: Path,
    path: str,
    config: EncoderConfig,
    output: Output,
    rerank_format: str,
    reranks: bool,
) -> PairFormat | SeparateFormat | None:
    """Return the format of pairs, or None if the tokenizer joins two texts."""
    if chosen := published(rerank_format):
        return chosen.pair_format()
    own = families.named(config.family).rerank_format
    encoder = folder / path
    template = TransformerOptions.read(folder, path, config, output).chat_template
    if rerank_format == AUTO and template is None and (own_format := published(own)):
        return own_format.pair_format()
    # Without modules.json, sentence-transformers uses any chat template.
    if reranks and not has_modules(folder) and chat_template.has_template(encoder):
        template = ChatTemplateOptions()
    card = read_card(folder)
    if rerank_format == PAIR or template is None:
        card.require("default_prompt_name", None)
        return None
    prompt = default_prompt(card)
    return chat_template.read_pair_format(encoder, template.variables, template.format, prompt)


def _labels(options: JsonConfig, config: EncoderConfig) -> tuple[str, ...]:
    names = options.get("id2label", {})
    count = options.get("num_labels", len(names)) or _rows_of_output(options, config)
    return tuple(str(names.get(str(index), f"LABEL_{index}")) for index in range(count))


def _rows_of_output(options: JsonConfig, config: EncoderConfig) -> int:
    # The files of jina-reranker-v1 state no labels; transformers would assume two.
    read = families.named(config.family).classification_head
    name = f"{read(options).output.name}.weight" if read else ""
    header = weights.headers(options.path.parent).get(name)
    return header.shape[0] if header else 2


def _activation(folder: Path, options: JsonConfig, num_labels: int) -> Activation:
    stated = [
        (read_card(folder), "activation_fn"),
        (options.nested("sentence_transformers"), "activation_fn"),
        (options, _OLD_ACTIVATION),
    ]
    for source, key in stated:
        name = source.get(key, "")
        if name:
            kind = name.rpartition(".")[2]
            if not name.startswith("torch.nn.") or kind not in _ACTIVATIONS:
                raise source.unsupported(key, name, sorted(_ACTIVATIONS))
            return _ACTIVATIONS[kind]
    return "sigmoid" if num_labels == 1 else "identity"


def has_second_segment(encoder: Path, config: EncoderConfig) -> bool:
    """Whether texts of a pair can be in the second segment.

    This requires a model with several segments, and a tokenizer that returns them.
    """
    default = families.named(config.family).default_segments
    segments = JsonConfig(encoder / "config.json").get("type_vocab_size", default)
    return config.segments and segments > 1 and returns_segments(encoder)
