"""A served model: its folder, its engine, and the objects that turn inputs into vectors."""

import json
from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Literal

from embedwell.compute.admission import Admission
from embedwell.compute.engine_session import EngineSession
from embedwell.compute.pipeline import Pipeline
from embedwell.compute.replaying_engine import ReplayingEngine
from embedwell.compute.request_reader import RequestReader
from embedwell.compute.work_queue import ComparisonQueue, WorkQueue
from embedwell.engine.wire.engine_state import CounterSlot, EngineState
from embedwell.settings.setting_types import PUBLISHED_PROMPTS
from embedwell.settings.settings import Settings
from embedwell_models.config.encoder_config import EncoderConfig
from embedwell_models.description.footprint import Footprint
from embedwell_models.description.model_description import ModelDescription
from embedwell_models.errors import ModelError
from embedwell_models.outputs.names import MULTI, Task
from embedwell_models.read.inputs import image_reader
from embedwell_models.tokenizer.tokenizer import Tokenizer

if TYPE_CHECKING:
    from embedwell.compute.engine_set import EngineHandle
    from embedwell.compute.multi_vectors import MultiVectors
    from embedwell.compute.pairs_and_lists import ListReader, PairReader
    from embedwell.compute.vector_cache import VectorCache
    from embedwell_models.tokenizer.lists import ListEncoder
    from embedwell_models.tokenizer.pairs import PairEncoder

State = Literal["loaded", "loading", "unloaded"]


class ServedModel:
    """One served model in an HTTP process: its reader, admission, engine and pipeline.

    name: the model's name in responses.
    engine: the current engine, or those of several devices.
    index: position among the served models.
    replay: resubmits the jobs of an engine that died.
    token_name: returns the name of a token by its id.
    """

    def __init__(  # noqa: PLR0913 - the last ones by name
        self,
        settings: Settings,
        description: ModelDescription,
        engine: "EngineHandle",
        queue: WorkQueue,
        comparisons: ComparisonQueue,
        *,
        vector_cache_bytes: int = 0,
        index: int = 0,
    ) -> None:
        """settings: settings of the model.

        queue: of long texts, which all models share.
        comparisons: runs comparisons of vectors, of all models.
        vector_cache_bytes: memory for the cached vectors of the model; 0 for no cache.
        index: position among the served models.
        """
        self.settings, self.description, self.engine = settings, description, engine
        self.comparisons, self.name, self.index = comparisons, settings.name, index
        tokenizer = description.tokenizer()
        self.reader = _reader(settings, description, tokenizer, queue, index)
        self._pair_encoder = _pair_encoder(description, tokenizer)
        self._list_encoder = _list_encoder(description, tokenizer)
        self.admission = Admission(
            *(settings.max_wait, engine.rate, engine.counters),
            max_wait_large=settings.max_wait_large,
            timeout=settings.request_timeout,
        )
        self.replay = ReplayingEngine(engine, engine.counters)
        self.pipeline = Pipeline(
            self.admission,
            self.replay,
            settings.request_timeout,
            cache=_vector_cache(self.replay, vector_cache_bytes),
            classifier=description.classifier,
            output_names=description.outputs,
        )
        self.token_name = tokenizer.name
        self._rules = description.multi_vector_rules(tokenizer)
        self.dimensions = description.allowed_dimensions(settings.dimensions)

    @cached_property
    def multi_vectors(self) -> "MultiVectors":
        """Computes token vectors, which few models have."""
        from embedwell.compute.multi_vectors import MultiVectors

        parts = self.reader, self.pipeline, self._rules
        return MultiVectors(*parts, self.description.token_dim, self.comparisons)

    @cached_property
    def pairs(self) -> "PairReader":
        """Reads text pairs, for a reranker or a classifier."""
        from embedwell.compute.pairs_and_lists import PairReader

        assert self._pair_encoder is not None
        segment_offset = self.config.vocab_size if self.config.two_segments else 0
        return PairReader(self.reader, self._pair_encoder, segment_offset)

    @cached_property
    def lists(self) -> "ListReader":
        """Reads lists of documents, for a listwise reranker."""
        from embedwell.compute.pairs_and_lists import ListReader

        assert self._list_encoder is not None
        return ListReader(self.reader, self._list_encoder)

    @property
    def has_only_token_vectors(self) -> bool:
        """Whether the model has no other vectors, such as ColBERT, but unlike BGE-M3."""
        return self.pipeline.output_names == (MULTI,)

    @property
    def config(self) -> EncoderConfig:
        """The encoder's sizes and options."""
        return self.description.spec.config

    @property
    def adapter(self) -> str | None:
        """The adapter's name, which is its task; None for a model without adapters."""
        return self.description.spec.adapter

    @property
    def task(self) -> Task:
        """The model's task: embed, rerank or classify."""
        return self.description.task

    @property
    def task_and_outputs(self) -> tuple[str, ...]:
        """The task, and the outputs of a text by their names in embedwell_models.outputs.names."""
        return (self.task, *self.description.outputs)

    @property
    def reads_messages(self) -> bool:
        """Whether the model reads texts as messages in a chat template."""
        return self.description.recipe.text_format is not None

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
    def ready_or_idle(self) -> bool:
        """Whether the model computes, or is unloaded and loads with the next request for it."""
        return self.ready or self.engine.state.engine is EngineState.UNLOADED

    @property
    def engines(self) -> Mapping[str, EngineSession]:
        """The engines by the names of their devices; empty if there is only one."""
        return {} if isinstance(self.engine, EngineSession) else self.engine.engines

    @property
    def engines_down(self) -> list[str] | None:
        """Names of the devices whose engines do not compute; None if there is only one engine."""
        if not self.engines:
            return None
        return [name for name, engine in self.engines.items() if not engine.ready]

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
            memory = Footprint.of(self.description).memory
        except ModelError:  # the engine will report the same error and exit
            return
        weight_bytes = memory.get(self.settings.dtype, memory["float32"])
        self.engine.counters.row[CounterSlot.WEIGHT_BYTES] = weight_bytes


def _reader(
    settings: Settings, model: ModelDescription, tokenizer: Tokenizer, queue: WorkQueue, index: int
) -> RequestReader:
    config = model.spec.config
    return RequestReader(
        tokenizer,
        model.recipe,
        queue,
        vocabulary_rows=config.vocab_size,
        min_tokens=config.min_tokens,
        max_texts=settings.max_texts,
        max_tokens=settings.max_tokens,
        auto_truncate=settings.auto_truncate,
        raw_token_ids=settings.raw_token_ids,
        images=image_reader(
            model,
            name=settings.name,
            max_pixels=settings.max_image_pixels,
            max_tokens=settings.max_tokens,
        ),
        model=index,
    )


def _vector_cache(engine: ReplayingEngine, size: int) -> "VectorCache | None":
    if not size:
        return None
    from embedwell.compute.vector_cache import VectorCache  # few servers have one

    return VectorCache(engine, size)


def _pair_encoder(model: ModelDescription, tokenizer: Tokenizer) -> "PairEncoder | None":
    if model.classifier is None or model.listwise:
        return None
    from embedwell_models.tokenizer.pairs import pair_encoder  # for models that read pairs

    return pair_encoder(tokenizer, model.spec.config, model.pair_format)


def _list_encoder(model: ModelDescription, tokenizer: Tokenizer) -> "ListEncoder | None":
    return model.listwise.tokenizer(tokenizer) if model.listwise else None


def with_prompts(description: ModelDescription, setting: str, model: str) -> ModelDescription:
    """Return the description of a model with the prompts of a setting.

    setting: a JSON object, PUBLISHED_PROMPTS, or "" for none. model: where it comes from. Raises
    ModelError.
    """
    if not setting:
        return description
    from embedwell_models.hub.known_models import published_prompts  # few settings need it

    try:
        published = setting == PUBLISHED_PROMPTS
        return description.with_prompts(
            published_prompts(model) if published else json.loads(setting)
        )
    except ModelError as error:
        raise ModelError(f"EMBEDWELL_PROMPTS: {error}") from None
