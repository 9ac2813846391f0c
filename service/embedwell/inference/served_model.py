"""A served model: its folder, its engine, and the objects that turn inputs into vectors."""

from typing import Literal

from embedwell.engine.client.current_engine import CurrentEngine
from embedwell.engine.client.replaying_engine import ReplayingEngine
from embedwell.engine.protocol.model_state import EngineState
from embedwell.inference.candidates import Candidates
from embedwell.inference.dimensions import AllowedDimensions
from embedwell.inference.multi_vectors import MultiVectors
from embedwell.inference.pipeline import Pipeline
from embedwell.inference.vector_cache import VectorCache
from embedwell.inputs.image_reader import ImageReader
from embedwell.inputs.input_queue import InputQueue
from embedwell.inputs.reader import InputReader
from embedwell.process.shared_counters import Slot
from embedwell.request.admission import Admission
from embedwell.request.limits import MAX_UNSPLIT_CHARACTERS
from embedwell.settings.settings import Settings
from embedwell_models.config.encoder_config import EncoderConfig
from embedwell_models.errors import ModelError
from embedwell_models.folder import Folder
from embedwell_models.footprint import Footprint
from embedwell_models.sentence_transformers.classifier import Task
from embedwell_models.sentence_transformers.matryoshka import declared_dimensions
from embedwell_models.tokenizer.formatted_pairs import pair_encoder
from embedwell_models.tokenizer.tokenizer import Tokenizer
from embedwell_models.word_table import WordTable

State = Literal["loaded", "loading", "unloaded"]


class ServedModel:
    """One served model in an HTTP process: its reader, admission, engine and pipeline.

    engine: the current engine.
    index: position among the served models.
    replay: resubmits the jobs of an engine that died.
    words: the vocabulary of a model that is a word table; None for other models.
    """

    def __init__(  # noqa: PLR0913 - the last ones by name
        self,
        settings: Settings,
        folder: Folder,
        engine: CurrentEngine,
        queue: InputQueue,
        *,
        vector_cache_bytes: int = 0,
        index: int = 0,
    ) -> None:
        """settings: settings of the model.

        queue: of long texts, which all models share.
        vector_cache_bytes: memory for the cached vectors of the model; 0 for no cache.
        index: position among the served models.
        """
        self.settings, self.folder, self.engine, self.index = settings, folder, engine, index
        self.reader = _reader(settings, folder, queue, index)
        self.admission = _admission(settings, engine)
        self.replay = ReplayingEngine(engine, engine.counters)
        self.pipeline = Pipeline(
            self.reader,
            self.admission,
            VectorCache(self.replay, vector_cache_bytes) if vector_cache_bytes else self.replay,
            settings.request_timeout,
            classifier=folder.classifier,
            output_names=folder.outputs,
        )
        self.words = _words(folder, self.reader.tokenizer)
        tokens = folder.multi_vector_rules(self.reader.tokenizer)
        self.multi_vectors = MultiVectors(self.pipeline, tokens, folder.dim)
        lengths = declared_dimensions(folder.encoder, folder.dim)
        self.dimensions = AllowedDimensions.from_setting(settings.dimensions, folder.dim, lengths)

    @property
    def name(self) -> str:
        """The model's name in responses."""
        return self.settings.name

    @property
    def config(self) -> EncoderConfig:
        """The encoder's sizes and options."""
        return self.folder.spec.config

    @property
    def adapter(self) -> str | None:
        """The adapter's name, which is its task; None for a model without adapters."""
        return self.folder.spec.adapter

    @property
    def task(self) -> Task:
        """The model's task: embed, rerank or classify."""
        return self.folder.task

    @property
    def task_and_outputs(self) -> tuple[str, ...]:
        """The task, and the outputs of a text by their names in embedwell_models.outputs."""
        return (self.task, *self.folder.outputs)

    @property
    def should_be_loaded(self) -> bool:
        """Whether the model should be loaded: settings keep it, and no operator unloaded it."""
        unloaded = self.engine.state.engine is EngineState.UNLOADED
        return self.settings.keep == "always" and not unloaded

    @property
    def ready(self) -> bool:
        """Whether the model's engine has computed vectors recently."""
        return self.engine.ready

    @property
    def state(self) -> State:
        """Whether an engine has loaded the model or is loading it."""
        if self.engine.connected:
            return "loaded"
        running = self.engine.state.engine is EngineState.RUNNING
        return "loading" if running else "unloaded"

    def record_weight_bytes(self) -> None:
        """Report the memory of the weights to the first process; auto counts as float32."""
        try:
            memory = Footprint.of(self.folder).memory
        except ModelError:  # the engine will report the same error and exit
            return
        weight_bytes = memory.get(self.settings.dtype, memory["float32"])
        self.engine.counters.row[Slot.WEIGHT_BYTES] = weight_bytes


def _words(folder: Folder, tokenizer: Tokenizer) -> Candidates | None:
    table = WordTable.of(folder)
    return None if table is None else Candidates(table, tokenizer.name)


def _reader(settings: Settings, model: Folder, queue: InputQueue, index: int) -> InputReader:
    tokenizer = model.tokenizer(MAX_UNSPLIT_CHARACTERS)
    return InputReader(
        tokenizer,
        model.sentence,
        queue,
        vocabulary_rows=model.spec.config.vocab_size,
        min_tokens=model.spec.config.min_tokens,
        max_texts=settings.max_texts,
        max_tokens=settings.max_tokens,
        auto_truncate=settings.auto_truncate,
        images=ImageReader(
            queue,
            model.images,
            model.preprocessing,
            max_pixels=settings.max_image_pixels,
            max_texts=settings.max_texts,
            max_tokens=settings.max_tokens,
        ),
        pairs=pair_encoder(tokenizer, model.spec.config, model.pair_format)
        if model.classifier
        else None,
        model=index,
    )


def _admission(settings: Settings, engine: CurrentEngine) -> Admission:
    return Admission(
        settings.max_wait,
        lambda: engine.rate.latest,
        engine.counters,
        timeout=settings.request_timeout,
        reliable_rate=lambda: engine.rate.reliable_rate,
    )
