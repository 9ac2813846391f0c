"""Heads of classifiers and rerankers as modules: of labels, of the next token, and of lists."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from embedwell_models import families
from embedwell_models.config.encoder_config import EncoderConfig
from embedwell_models.config.json_config import JsonConfig
from embedwell_models.errors import ModelError
from embedwell_models.families.heads import LinearLayer, NormLayer
from embedwell_models.model_files.card import read_kind
from embedwell_models.model_files.modules import LOGIT_SCORE, ModuleEntry
from embedwell_models.model_files.rerank_formats import published
from embedwell_models.model_files.vector_modules import Dense, LayerNorm, LogitScore
from embedwell_models.tokenizer.loading import loader

LANGUAGE_MODEL_SUFFIXES = ("ForCausalLM", "Qwen3VLForConditionalGeneration")
_OUTPUT_TABLE = "lm_head.weight"
_TOKEN_TABLES = tuple(
    f"{prefix}embed_tokens.weight"
    for prefix in ("model.", "", "model.language_model.", "language_model.")
)
_ANSWERS = ("yes", "no")
"""Answers that sentence-transformers uses if the files name none."""
_LIST_WIDTH = 512  # of the vectors of a listwise reranker


@dataclass(frozen=True)
class ClassificationHead:
    """Pooling of a classifier and the modules after it; the last module computes the logits.

    pooling: pooling mode of the states. modules: modules after the pooling, in order.
    of_tokens: modules before the pooling, which are applied to the state of each token. pad_id: see
    VectorRecipe.
    """

    pooling: str
    modules: tuple[Dense | LayerNorm | LogitScore, ...]
    of_tokens: tuple[Dense | LayerNorm, ...] = ()
    pad_id: int | None = None

    @property
    def tensor_names(self) -> list[str]:
        """Names of the head's tensors in the checkpoint."""
        return [name for module in (*self.of_tokens, *self.modules) for name in module.shapes]


def classification_head(
    options: JsonConfig, config: EncoderConfig, path: str, num_labels: int
) -> ClassificationHead:
    """Build the head of a model. path: the encoder's folder, relative to the model's folder.

    Raises ModelError for a family whose head is not supported.
    """
    read = families.named(config.family).classification_head
    if read is None:
        supported = families.names(lambda family: family.classification_head is not None)
        raise ModelError(
            f"{options.path}: the classification head of {config.family} is not supported; "
            f"supported: {', '.join(supported)}"
        )
    layers, width = read(options), config.hidden_size
    of_tokens, hidden = (
        tuple(_module(layer, path, width) for layer in part)
        for part in (layers.of_tokens, layers.hidden)
    )
    output = replace(_dense(layers.output, path, width, num_labels), divisor=layers.divisor)
    if cap := layers.softcap:
        output = replace(output, activation="Tanh", divisor=cap, factor=cap)
    # In other models, the tokens before it attend to it.
    pad_id = layers.pad_id if config.causal else None
    return ClassificationHead(layers.pooling, (*hidden, output), of_tokens, pad_id)


def next_token_head(
    folder: Path, entries: Sequence[ModuleEntry], config: EncoderConfig, rerank_format: str
) -> ClassificationHead | None:
    """Read the head of a language model that reranks; return None for a model that embeds.

    rerank_format: a published one decides the answer tokens; otherwise the files decide.

    Raises ModelError for a family whose logits are not supported, and for missing tokens.
    """
    path = entries[0].path
    options = JsonConfig(folder / path / "config.json")
    ids = _answer_ids(folder, entries, rerank_format)
    return None if ids is None else _logit_score(options, path, config, ids, _output_tables)


def decoder_head(folder: Path, path: str, config: EncoderConfig) -> ClassificationHead:
    """Return the head of a decoder that reads the states of an encoder: yes against no.

    path: the encoder's folder, relative to the model's. Raises ModelError for missing tokens.
    """
    options, ids = JsonConfig(folder / path / "config.json"), _token_ids(folder / path, _ANSWERS)
    return _logit_score(options, path, config, ids, _decoder_tables)


def listwise_head(path: str, width: int) -> ClassificationHead:
    """Return the two layers after the state of a marker.

    path: the encoder's folder, relative to the model's. width: size of a state.
    """
    inner = width // 2
    return ClassificationHead(
        "lasttoken",
        (
            _dense(LinearLayer("projector.0", "ReLU", bias=False), path, width, inner),
            _dense(LinearLayer("projector.2", bias=False), path, inner, _LIST_WIDTH),
        ),
    )


def _logit_score(
    options: JsonConfig,
    path: str,
    config: EncoderConfig,
    ids: tuple[int, int | None],
    tables: Callable[[JsonConfig, EncoderConfig], tuple[str, ...]],
) -> ClassificationHead:
    if beyond := [id for id in ids if id is not None and not 0 <= id < config.vocab_size]:
        raise ModelError(f"{options.path}: the model has no tokens {beyond}")
    true_id, false_id = ids
    module = LogitScore(
        path=path,
        inputs=config.hidden_size,
        vocabulary=config.vocab_size,
        tensors=tables(options, config),
        true_id=true_id,
        false_id=false_id,
    )
    return ClassificationHead("lasttoken", (module,))


def _module(layer: LinearLayer | NormLayer, path: str, width: int) -> Dense | LayerNorm:
    tensor = f"{layer.name}.weight"
    if isinstance(layer, NormLayer):
        return LayerNorm(path=path, inputs=width, bias=layer.bias, eps=layer.eps, tensor=tensor)
    return _dense(layer, path, width, width)


def _dense(layer: LinearLayer, path: str, inputs: int, outputs: int) -> Dense:
    return Dense(
        path=path,
        inputs=inputs,
        outputs=outputs,
        bias=layer.bias,
        activation=layer.activation,
        tensor=f"{layer.name}.weight",
    )


def _answer_ids(
    folder: Path, entries: Sequence[ModuleEntry], rerank_format: str
) -> tuple[int, int | None] | None:
    # None for a model that embeds.
    encoder, stated = folder / entries[0].path, published(rerank_format)
    if stated is None and entries[-1].kind == LOGIT_SCORE:
        options = JsonConfig(folder / entries[-1].path / "config.json")
        options.require("module_input_name", "causal_logits")
        true_id: int = options["true_token_id"]
        false_id: int | None = options.nullable("false_token_id", None)
        return true_id, false_id
    if stated is not None and not stated.answers:
        path = encoder / "config.json"
        raise ModelError(
            f"{path}: the format {rerank_format} is for models with a classification head"
        )
    if stated is None and read_kind(folder) != "CrossEncoder":
        return None
    return _token_ids(encoder, stated.answers if stated else _ANSWERS)


def _token_ids(folder: Path, answers: Sequence[str]) -> tuple[int, int | None]:
    rust = loader.load(folder).rust
    ids = [id for token in answers if (id := rust.token_to_id(token)) is not None]
    if len(ids) < len(answers):
        raise ModelError(f"{folder}: the tokenizer lacks one of the answer tokens {answers}")
    return ids[0], ids[1] if len(ids) > 1 else None


def _output_tables(options: JsonConfig, config: EncoderConfig) -> tuple[str, ...]:
    # transformers reads an output table from the checkpoint, if it has one, even for a tied model.
    logits = families.named(config.family).next_token
    if logits is None or not config.causal:
        supported = families.names(lambda family: family.next_token is not None)
        raise ModelError(
            f"{options.path}: the logits of {config.family} are not supported; supported: those of "
            f"{', '.join(supported)}, with causal attention"
        )
    if options.nullable("final_logit_softcapping", logits.softcap) is not None:
        raise options.unsupported("final_logit_softcapping", logits.softcap, None)
    tied = options.get("tie_word_embeddings", logits.tied)
    return (_OUTPUT_TABLE, *_TOKEN_TABLES) if tied else (_OUTPUT_TABLE,)


def _decoder_tables(options: JsonConfig, config: EncoderConfig) -> tuple[str, ...]:
    options.nested("decoder").require("final_logit_softcapping", None)
    inside = (f"model.encoder.{part}embed_tokens.weight" for part in ("text_model.", ""))
    return ("lm_head.out_proj.weight", *inside)
