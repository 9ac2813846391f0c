"""Rerankers that are language models: the logits of the next token give the relevance."""

from collections.abc import Sequence
from pathlib import Path

from embedwell_models import families
from embedwell_models.config.encoder_config import EncoderConfig
from embedwell_models.config.json_config import JsonConfig
from embedwell_models.errors import ModelError
from embedwell_models.model_files.card import read_kind
from embedwell_models.model_files.classification_heads import ClassificationHead
from embedwell_models.model_files.modules import LOGIT_SCORE, ModuleEntry
from embedwell_models.model_files.rerank_formats import FORMATS
from embedwell_models.model_files.vector_modules import LogitScore
from embedwell_models.tokenizer.loading import loader

CLASS_SUFFIXES = ("ForCausalLM", "Qwen3VLForConditionalGeneration")
_OUTPUT_TABLE = "lm_head.weight"
_TOKEN_TABLES = tuple(
    f"{prefix}embed_tokens.weight"
    for prefix in ("model.", "", "model.language_model.", "language_model.")
)
_ANSWERS = ("yes", "no")
"""Answers that sentence-transformers uses if the files name none."""


def next_token_head(
    folder: Path, entries: Sequence[ModuleEntry], config: EncoderConfig, rerank_format: str
) -> ClassificationHead | None:
    """Read the head of a language model that reranks; return None for a model that embeds.

    rerank_format: a name in FORMATS, which decides the answer tokens; otherwise the files decide.

    Raises ModelError for a family whose logits are not supported, and for missing tokens.
    """
    path = entries[0].path
    options = JsonConfig(folder / path / "config.json")
    if entries[-1].kind == LOGIT_SCORE and rerank_format not in FORMATS:
        ids = _stated_ids(folder / entries[-1].path, config.vocab_size)
    elif rerank_format in FORMATS and not FORMATS[rerank_format].answers:
        raise ModelError(
            f"{options.path}: the format {rerank_format} is for models with a classification head"
        )
    elif rerank_format in FORMATS or read_kind(folder) == "CrossEncoder":
        stated = FORMATS.get(rerank_format)
        ids = answer_ids(folder / path, stated.answers if stated else _ANSWERS, config.vocab_size)
    else:
        return None
    true_id, false_id = ids
    module = LogitScore(
        path=path,
        inputs=config.hidden_size,
        vocabulary=config.vocab_size,
        tensors=_tables(options, config),
        true_id=true_id,
        false_id=false_id,
    )
    return ClassificationHead("lasttoken", (module,))


def _stated_ids(folder: Path, vocab_size: int) -> tuple[int, int | None]:
    options = JsonConfig(folder / "config.json")
    options.require("module_input_name", "causal_logits")
    true_id: int = options["true_token_id"]
    false_id: int | None = options.nullable("false_token_id", None)
    _check_ids(options.path, (true_id, false_id), vocab_size)
    return true_id, false_id


def answer_ids(folder: Path, answers: Sequence[str], vocab_size: int) -> tuple[int, int | None]:
    """Return the ids of one or two answers; raises ModelError for tokens that the model lacks."""
    rust = loader.load(folder).rust
    ids = [id for token in answers if (id := rust.token_to_id(token)) is not None]
    if len(ids) < len(answers):
        raise ModelError(f"{folder}: the tokenizer lacks one of the answer tokens {answers}")
    _check_ids(folder, ids, vocab_size)
    return ids[0], ids[1] if len(ids) > 1 else None


def _check_ids(path: Path, ids: Sequence[int | None], vocab_size: int) -> None:
    if beyond := [id for id in ids if id is not None and not 0 <= id < vocab_size]:
        raise ModelError(f"{path}: the model has no tokens {beyond}")


def _tables(options: JsonConfig, config: EncoderConfig) -> tuple[str, ...]:
    # transformers reads an output table from the checkpoint, if there is one, even for a tied
    # model.
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
