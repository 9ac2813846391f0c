"""Options of sentence-transformers' Transformer module, which is the encoder."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from embedwell_models import families
from embedwell_models.config.encoder_config import EncoderConfig
from embedwell_models.config.json_config import JsonConfig
from embedwell_models.model_files.card import has_modules
from embedwell_models.tokenizer.tokens import Side, read_side

# The first of these files that exists is read.
NAMES = tuple(
    f"sentence_{family}_config.json"
    for family in ("bert", "roberta", "distilbert", "camembert", "albert", "xlm-roberta", "xlnet")
)
Output = Literal["states", "projection", "logits", "token_logits", "next_token"]
"""Output of a Transformer module: states of tokens, a projected vector, or logits.

logits: logits of labels. token_logits: logits of a masked language model for each token.
next_token: logits of a language model.
"""
_OUTPUTS = {  # output -> task, name of the output, and method of the model
    "states": (
        *("feature-extraction", "token_embeddings"),
        {"method": "forward", "method_output_name": "last_hidden_state"},
    ),
    "projection": (
        *("feature-extraction", "sentence_embedding"),
        {"method": "get_text_features", "method_output_name": "pooler_output"},
    ),
    "logits": (
        *("sequence-classification", "scores"),
        {"method": "forward", "method_output_name": "logits"},
    ),
    "token_logits": (
        *("fill-mask", "token_embeddings"),
        {"method": "forward", "method_output_name": "logits"},
    ),
    "next_token": (
        *("text-generation", "causal_logits"),
        {"method": "forward", "method_output_name": "logits"},
    ),
}
_LAST_OF_STATES = {"method": "forward", "method_output_name": ["hidden_states", -1]}
"""Another name of the output "states"."""
_MULTIMODAL_TASK = "any-to-any"  # task of a language model that also reads other media
_UNSUPPORTED = ("tokenizer_name_or_path",)
_OTHER_MEDIA = ("image", "video")
_MULTI_VECTOR = ("query_length", "document_length", "query_expansion")
# Options of loading, speed and padding that do not change vectors.
_IGNORED = {
    *("cache_dir", "code_revision", "local_files_only", "revision", "subfolder", "token"),
    *("add_pooling_layer", "attn_implementation", "device_map", "dtype", "low_cpu_mem_usage"),
    *("torch_dtype", "trust_remote_code", "unpad_inputs", "use_cache", "use_fast"),
    *("use_memory_efficient_attention", "use_safetensors"),
    *("clean_up_tokenization_spaces", "padding_side"),
    *("max_pixels", "min_pixels"),  # options of images, which are not read with chat templates
}


_FORMATS = (None, "flat", "structured")
# Tokenizer classes that add special tokens around a rendered chat template, as around a text.
_PROCESSORS = ("EmbeddingGemma2Processor",)


@dataclass(frozen=True)
class ChatTemplateOptions:
    """Options of a chat template.

    format: flat or structured messages; None to detect the format from the template. variables:
    variables of the template.
    """

    format: str | None = None
    variables: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class TransformerOptions:
    """Options of tokenization. max_length: maximum number of tokens, special tokens included.

    side: the side on which a long text is truncated; None for the side of the tokenizer's files.
    chat_template: set for a model that reads texts in a chat template; None for other models.
    """

    max_length: int
    lowercase: bool = False
    side: Side | None = None
    chat_template: ChatTemplateOptions | None = None

    @classmethod
    def read(
        cls,
        folder: Path,
        path: str,
        encoder: EncoderConfig,
        output: Output = "states",
        multi_vector: bool = False,
    ) -> "TransformerOptions":
        """Read the options of an encoder. output: the output of its module.

        path: the encoder's folder, relative to the model's. multi_vector: whether options for
        queries and documents are allowed, see multi_vector.

        Raises ModelError for an unsupported option that might change vectors.
        """
        in_messages = bool(families.named(encoder.family).instruction)
        options = _options(folder, path, output, in_messages)
        reads_messages = output in ("logits", "next_token") or (
            output == "states" and in_messages and not multi_vector
        )
        for name in () if multi_vector else _MULTI_VECTOR:
            options.require(name, None, {})
        key = "tokenizer_args" if "tokenizer_args" in options else "processor_kwargs"
        tokenizer = options.nested_only(key, {*_IGNORED, "model_max_length", "truncation_side"})
        stated = tokenizer.get("model_max_length") or options.get("max_seq_length")
        return cls(
            max_length=_max_length(stated, folder / path, encoder),
            lowercase=bool(options.get("do_lower_case", False)),
            side=read_side(tokenizer),
            chat_template=_chat_template(folder / path, options, output, reads_messages),
        )

    @classmethod
    def of_pages(cls, folder: Path, path: str, encoder: EncoderConfig) -> "TransformerOptions":
        """Read the options of a model of texts and pages, of which the files state the length only.

        sentence-transformers' own options say how it applies code that the family replaces.
        """
        stated = read_options(folder, path).get("max_seq_length")
        return cls(max_length=_max_length(stated, folder / path, encoder))


def options_file(folder: Path, path: str) -> Path | None:
    """Return the file with an encoder's options; None if there is none, or no modules.json.

    path: the encoder's folder, relative to the model's.
    """
    names = NAMES if has_modules(folder) else ()
    return next((file for name in names if (file := folder / path / name).exists()), None)


def read_options(folder: Path, path: str) -> JsonConfig:
    """Read the file with an encoder's options; without the file there are no options."""
    file = options_file(folder, path)
    return JsonConfig(file) if file else JsonConfig(folder / path, {})


def _options(folder: Path, path: str, output: Output, in_messages: bool) -> JsonConfig:
    options = read_options(folder, path)
    task, name, method = _OUTPUTS[output]
    is_multimodal = output == "next_token" and in_messages
    tasks = (task, _MULTIMODAL_TASK) if is_multimodal else (task,)
    options.require("transformer_task", *tasks)
    options.require("module_output_name", name)
    modalities = options.get("modality_config", {"text": method})
    if modalities.get("text") not in (method, _LAST_OF_STATES if output == "states" else method):
        raise options.unsupported("modality_config", modalities, {"text": method})
    for key in _UNSUPPORTED:
        options.require(key, None, {})
    for old, new in (("model_args", "model_kwargs"), ("config_args", "config_kwargs")):
        options.nested_only(old if old in options else new, _IGNORED)
    return options


def _chat_template(
    folder: Path, options: JsonConfig, output: Output, reads_messages: bool
) -> ChatTemplateOptions | None:
    method = _OUTPUTS[output][2]
    modality = options.nested("modality_config").get("message")
    if modality is None or not reads_messages:
        if modality != {**method, "format": "structured"} or not _keeps_texts(folder):
            options.nested("modality_config").require("message", None)
        options.require("processing_kwargs", None, {})
        return None
    message_format = modality.get("format")
    if {**modality, "format": None} != {**method, "format": None} or message_format not in _FORMATS:
        raise options.unsupported("modality_config", modality, {**method, "format": "flat"})
    allowed = ("chat_template", *_OTHER_MEDIA)
    variables = options.nested_only("processing_kwargs", allowed).nested("chat_template")
    variables.require("restore_suffix", True)
    for key in ("max_length", "padding", "truncation", "return_tensors"):
        variables.require(key, None)
    stated = options.get("processing_kwargs", {}).get("chat_template", {})
    return ChatTemplateOptions(
        message_format, {k: v for k, v in stated.items() if k != "restore_suffix"}
    )


def _keeps_texts(folder: Path) -> bool:
    # Whether a model of several media gives a text in a message the ids of the plain text.
    processor = JsonConfig.optional(folder / "processor_config.json").get("processor_class", "")
    if processor not in _PROCESSORS:
        return False
    from embedwell_models.model_files.chat_template import keeps_texts

    return keeps_texts(folder)


def _max_length(stated: int | None, folder: Path, encoder: EncoderConfig) -> int:
    length = stated or _tokenizer_max_length(folder, encoder.max_positions)
    return int(min(length, encoder.max_tokens))


def _tokenizer_max_length(folder: Path, default: int) -> float:
    tokenizer = JsonConfig.optional(folder / "tokenizer_config.json")
    return min(tokenizer.get("model_max_length") or _class_max_length(folder) or default, default)


def _class_max_length(folder: Path) -> int | None:
    from embedwell_models.tokenizer.loading import tokenizer_kind  # most files state a length

    other = tokenizer_kind.find(folder)
    return other.max_tokens if other else None
