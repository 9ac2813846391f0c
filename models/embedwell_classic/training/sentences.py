"""Training of a small sentence encoder from scratch, with sentence-transformers."""

import logging
import math
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import datasets  # type: ignore[import-untyped]
from sentence_transformers import (
    SentenceTransformer,
    SentenceTransformerTrainer,
    SentenceTransformerTrainingArguments,
)
from sentence_transformers.base.modules import Normalize, Transformer
from sentence_transformers.base.sampler import BatchSamplers
from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss
from sentence_transformers.sentence_transformer.modules import Pooling
from torch import Tensor, nn
from transformers import BertConfig, BertModel, TrainerCallback, set_seed
from transformers.trainer_callback import PrinterCallback, ProgressCallback
from transformers.utils.logging import disable_progress_bar

from embedwell_classic.training.corpus import Pairs
from embedwell_classic.training.tokenizer import Algorithm, train_tokenizer, write_tokenizer
from embedwell_models.errors import ModelError

Initialization = Literal["normal", "scaled", "uniform", "xavier", "he"]

INITIALIZATIONS: Mapping[Initialization, Callable[[Tensor], Tensor]] = {
    "normal": lambda weight: nn.init.normal_(weight, std=0.02),
    "scaled": lambda weight: nn.init.normal_(weight, std=1 / math.sqrt(weight.shape[-1])),
    "uniform": lambda weight: nn.init.uniform_(weight, -0.1, 0.1),
    "xavier": nn.init.xavier_normal_,
    "he": nn.init.kaiming_normal_,
}
"""Functions that fill a matrix (outputs, inputs) or a table (rows, D) with random numbers.

normal: N(0, 0.02²), as BERT. scaled: N(0, 1/D). uniform: from -0.1 to 0.1. xavier: N(0, 2 /
(inputs + outputs)), Glorot and Bengio 2010. he: N(0, 2 / inputs), He et al. 2015.
"""
_WARMUP = 0.1  # share of all steps
_LOGS = 0.05  # between two logs

log = logging.getLogger(__name__)


def initialize(model: nn.Module, initialization: Initialization) -> None:
    """Draw matrices and tables anew; biases become 0, and norms become the identity."""
    for module in model.modules():
        if isinstance(module, nn.Linear | nn.Embedding):
            INITIALIZATIONS[initialization](module.weight.data)
        if isinstance(module, nn.Embedding) and module.padding_idx is not None:
            module.weight.data[module.padding_idx].zero_()
        if isinstance(module, nn.LayerNorm):
            nn.init.ones_(module.weight)
        if isinstance(module, nn.Linear | nn.LayerNorm) and module.bias is not None:
            nn.init.zeros_(module.bias)


@dataclass(frozen=True)
class SentenceTraining:
    """Options of `train_sentences`.

    max_length: maximum number of tokens of a text. accumulation: number of batches whose gradients
    are added for one step. algorithm, vocabulary, lower: options of the tokenizer.
    """

    layers: int = 2
    dimensions: int = 128
    heads: int = 4
    algorithm: Algorithm = "bpe"
    vocabulary: int = 8000
    lower: bool = False
    max_length: int = 128
    epochs: int = 1
    batch_size: int = 64
    accumulation: int = 1
    learning_rate: float = 5e-4
    initialization: Initialization = "normal"
    seed: int = 1


def train_sentences(pairs: Pairs, folder: Path, training: SentenceTraining) -> None:
    """Train a sentence-transformers model and write it to an empty folder.

    The model is a BERT with mean pooling. The loss of a pair is the cross-entropy of its positive
    among all positives and negatives of the batch (van den Oord et al. 2018; Henderson et al.
    2017). Raises ModelError for an unusable corpus.
    """
    if training.dimensions % training.heads:
        raise ModelError(
            f"--dimensions {training.dimensions} must be a multiple of --heads {training.heads}"
        )
    datasets.disable_progress_bars()  # log messages replace them
    disable_progress_bar()  # type: ignore[no-untyped-call]
    with tempfile.TemporaryDirectory(prefix="train-") as name:
        scratch = Path(name)
        columns = pairs.columns
        set_seed(training.seed)
        model = new_model(pairs, scratch / "encoder", training)
        data = _dataset(pairs, columns, scratch / "pairs")
        _train(model, data, scratch / "run", training)
        model.save_pretrained(str(folder), create_model_card=False)


def new_model(pairs: Pairs, folder: Path, training: SentenceTraining) -> SentenceTransformer:
    """Create a model with a trained tokenizer and a randomly initialized encoder in a folder."""
    tokenizer = train_tokenizer(
        pairs.texts(), training.algorithm, training.vocabulary, training.lower
    )
    write_tokenizer(tokenizer, folder, training.max_length)
    config = BertConfig(
        vocab_size=tokenizer.get_vocab_size(),
        hidden_size=training.dimensions,
        num_hidden_layers=training.layers,
        num_attention_heads=training.heads,
        intermediate_size=4 * training.dimensions,
        max_position_embeddings=training.max_length,
        pad_token_id=0,
    )
    encoder: Any = BertModel(config)
    initialize(encoder, training.initialization)
    encoder.save_pretrained(folder)
    transformer = Transformer(str(folder), max_seq_length=training.max_length)
    modules = [transformer, Pooling(training.dimensions, "mean"), Normalize()]
    return SentenceTransformer(modules=modules)


def _dataset(pairs: Pairs, columns: Sequence[str], cache: Path) -> datasets.Dataset:
    """Write the rows to a file and map it, because the rows may exceed the memory."""

    def rows() -> Iterator[dict[str, str]]:
        return (dict(zip(columns, row, strict=True)) for row in pairs)

    generate: Any = datasets.Dataset.from_generator
    data: datasets.Dataset = generate(rows, cache_dir=str(cache), fingerprint="pairs")
    if len(data) < 2:
        raise ModelError(f"{pairs.corpus.name} has one row, but a batch compares several: add rows")
    return data


def _train(
    model: SentenceTransformer, data: datasets.Dataset, folder: Path, training: SentenceTraining
) -> None:
    arguments = SentenceTransformerTrainingArguments(
        output_dir=str(folder),
        num_train_epochs=training.epochs,
        per_device_train_batch_size=training.batch_size,
        gradient_accumulation_steps=training.accumulation,
        learning_rate=training.learning_rate,
        warmup_steps=_WARMUP,
        batch_sampler=BatchSamplers.NO_DUPLICATES,
        dataloader_drop_last=False,
        dataloader_pin_memory=False,
        seed=training.seed,
        logging_steps=_LOGS,
        save_strategy="no",
        report_to="none",
        disable_tqdm=True,
    )
    trainer = _Trainer(
        model=model,
        args=arguments,
        train_dataset=data,
        loss=MultipleNegativesRankingLoss(model),
        callbacks=[_LogLoss()],
    )
    for callback in (PrinterCallback, ProgressCallback):  # these callbacks write to standard output
        trainer.remove_callback(callback)
    trainer.train()


class _Trainer(SentenceTransformerTrainer):
    """Trainer that collects no data for a model card, which is not written."""

    def add_model_card_callback(self, default_args_dict: dict[str, Any]) -> None:
        """Add no callback."""


class _LogLoss(TrainerCallback):
    """Callback that logs the mean loss since the previous log."""

    def on_log(self, args: Any, state: Any, control: Any, **values: Any) -> None:
        """Log the loss, if there is one."""
        loss = state.log_history[-1].get("loss")
        if loss is not None:
            log.info("step %s of %s: loss %.4f", state.global_step, state.max_steps, loss)
