"""The parts of a model, loaded from its folder onto a device in a precision."""

import logging
import pkgutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from typing import TYPE_CHECKING

from embedwell_models import families, vision
from embedwell_models.checkpoint import weights
from embedwell_models.config.model_options import ModelOptions
from embedwell_models.cpu_backend import library
from embedwell_models.cpu_backend.quantization import QUANTIZED, Calibration, Magnitudes
from embedwell_models.description.model_description import ModelDescription
from embedwell_models.encoder.batch_shape import RecordedShapes
from embedwell_models.encoder.device import Device, release_gpu_cache
from embedwell_models.encoder.device_errors import is_out_of_memory
from embedwell_models.encoder.encoder import Encoder, EncoderWithInputs, Inputs, LinearFactory
from embedwell_models.encoder.vector_modules import VectorHead
from embedwell_models.errors import DeviceUnavailableError
from embedwell_models.loading.backends import (
    HostLinearFactory,
    TableBackend,
    choose_backend,
    choose_device,
    why_torch_for_custom_encoder,
)
from embedwell_models.loading.state_heads import with_state_functions
from embedwell_models.model_files.card import has_modules
from embedwell_models.precision.measurement_cache import LoadMeasurements
from embedwell_models.precision.references import (
    ReferenceSentenceEmbedder,
    Vectors,
    pooled_vectors_function,
    token_vectors_function,
)
from embedwell_models.precision.trials import Trial, build_in_precision, takes_bfloat16
from embedwell_models.vision import ImageEncoders

if TYPE_CHECKING:  # imported for a GPU, and where texts are tokenized
    from embedwell_models.tokenizer.tokenizer import Tokenizer
    from embedwell_models.torch_backend.encoder import RowFunction

log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class LoadedModel:
    """A model's tokenizer, encoder and heads.

    load_tokenizer: returns the tokenizer, see `tokenizer`. isa: the instruction set of the kernels;
    None without kernels. why_torch: what torch computes; None if the kernels compute everything.
    trials: the results of the tried precisions. input_magnitudes: what int8 was calibrated with;
    None in another precision. linear: builds further float32 layers on a CPU; each row of their
    output is bit-identical in every batch. fast_linear: the same in bfloat16 if the kernels compute
    the encoder in it, or in int8 and bfloat16 was accurate; otherwise `linear`. images: the
    encoders of images; None if the model has none. graphs: how a GPU computes passes, after the
    encoder is warm. replaces_gpu: whether the CPU computes because the model does not fit into the
    GPU's free memory.
    """

    description: ModelDescription
    load_tokenizer: Callable[[], "Tokenizer"]
    device: Device
    inputs: Inputs
    encoder: Encoder
    head: VectorHead
    dtype: str
    isa: str | None
    why_torch: str | None
    trials: Sequence[Trial]
    input_magnitudes: Magnitudes | None
    linear: LinearFactory
    fast_linear: LinearFactory
    images: ImageEncoders | None
    graphs: RecordedShapes = field(default_factory=RecordedShapes)
    replaces_gpu: bool = False

    @property
    def tokenizer(self) -> "Tokenizer":
        """The tokenizer, which the first use loads; raises ModelError."""
        return self.load_tokenizer()

    @cached_property
    def device_head(self) -> "RowFunction | None":
        """The modules after the pooling, on a GPU that has the states; None without such states."""
        if self.device.type == "cpu":
            return None
        from embedwell_models.torch_backend.device_heads import load_head, with_states_on_device

        if (encoder := with_states_on_device(self.encoder)) is None:
            return None
        return load_head(self.description.path, self.description.recipe.modules, encoder.device)

    @classmethod
    def load(
        cls,
        description: ModelDescription,
        options: ModelOptions,
        measured: LoadMeasurements | None = None,
    ) -> "LoadedModel":
        """Load a model; on the CPU if the device is auto and the GPU's memory is too full.

        measured: by an earlier load of the same files with the same options, and not repeated.
        Raises DeviceUnavailableError if the memory of a GPU that was named is too full.
        """
        try:
            return cls._load(description, options, measured)
        except Exception as error:
            why = _why_gpu_is_full(description, options.device, error)
            if not why:
                raise
        # Not inside the handler, because the error's traceback keeps the memory of the attempt.
        release_gpu_cache()
        if options.device != "auto":
            raise DeviceUnavailableError(f"{why}, or choose the CPU (device cpu)")
        log.warning("the CPU computes, not the GPU: %s", why)
        return replace(cls._load(description, replace(options, device="cpu")), replaces_gpu=True)

    @classmethod
    def _load(
        cls,
        description: ModelDescription,
        options: ModelOptions,
        measured: LoadMeasurements | None = None,
    ) -> "LoadedModel":
        _warn_of_unread_keys(description)
        _log_attention_of_code(description)
        _warn_of_assumed_pooling(description)
        config, cpu_features = description.spec.config, library.features(options.isa)
        load_tokenizer = cache(description.tokenizer)
        if families.named(config.family).encoder_loader:
            return cls._with_custom_encoder(
                description, load_tokenizer, options.device, cpu_features
            )
        arrays = weights.load(description.encoder, description.spec)
        device = choose_device(options.device)
        backend = choose_backend(description.spec, arrays, device, cpu_features)
        head = _head(description, backend.linear)
        compared = _compared_vectors(description, head)
        sentences = ReferenceSentenceEmbedder(load_tokenizer, config.vocab_size, compared)
        calibration = Calibration(sentences.calibrate, _measured_of_texts(measured))
        inputs = backend.inputs(description.spec, arrays)
        graphs = RecordedShapes(options.cuda_graphs)
        factory = backend.text_encoders(description, arrays, inputs, calibration, graphs)
        if measured:
            choice = build_in_precision(factory, measured.dtype, sentences, measured.trials)
        else:
            choice = build_in_precision(factory, options.dtype, sentences)
            sentences.check(choice.encoder)
        images = None
        if description.reads_images:
            load_images = pkgutil.resolve_name(vision.ENCODERS)
            images = load_images(
                description, inputs, choice, backend.device, cpu_features, measured
            )
        release_gpu_cache()  # of the precisions that were not chosen
        library.release_scratch()
        arrays.release_pages()  # of the rows of the reference sentences
        uses_kernels = backend.device.type == "cpu" and not isinstance(backend, TableBackend)
        return cls(
            description=description,
            load_tokenizer=load_tokenizer,
            device=backend.device,
            inputs=inputs,
            encoder=with_state_functions(
                description, choice.encoder, backend.linear, backend.device
            ),
            head=head,
            dtype=choice.dtype,
            isa=library.best_isa(choice.dtype, cpu_features) if uses_kernels else None,
            why_torch=backend.reason or (images.why_torch if images else None),
            trials=choice.trials,
            input_magnitudes=_all_magnitudes(choice.dtype, calibration, images),
            linear=backend.linear,
            fast_linear=(
                _fast_linear(backend.linear, choice.dtype, choice.trials, cpu_features)
                if uses_kernels
                else backend.linear
            ),
            images=images,
            graphs=graphs,
        )

    @classmethod
    def _with_custom_encoder(
        cls,
        description: ModelDescription,
        load_tokenizer: Callable[[], "Tokenizer"],
        device: str,
        cpu_features: frozenset[str],
    ) -> "LoadedModel":
        # The encoder that a family builds itself computes in float32 only.
        load_encoder = families.named(description.spec.config.family).import_encoder_loader()
        assert load_encoder is not None
        encoder: EncoderWithInputs = load_encoder(description, device, cpu_features)
        linear, place = HostLinearFactory(cpu_features), Device.parse(str(encoder.device))
        return cls(
            description=description,
            load_tokenizer=load_tokenizer,
            device=place,
            inputs=encoder,
            encoder=with_state_functions(description, encoder, linear, place),
            head=_head(description, linear),
            dtype="float32",
            isa=None,
            why_torch=why_torch_for_custom_encoder(description),
            trials=(),
            input_magnitudes=None,
            linear=linear,
            fast_linear=linear,
            images=None,
        )


def _measured_of_texts(measured: LoadMeasurements | None) -> Magnitudes | None:
    """Return what int8 was calibrated with by texts."""
    known = ((measured and measured.input_magnitudes) or {}).items()
    return {name: each for name, each in known if not name.startswith(vision.LAYERS)} or None


def _all_magnitudes(
    dtype: str, calibration: Calibration, images: ImageEncoders | None
) -> Magnitudes | None:
    """Return what int8 was calibrated with, also for images; None in another precision."""
    if dtype not in QUANTIZED or calibration.magnitudes is None:
        return None
    return {**calibration.magnitudes, **(images.magnitudes if images else {})}


def _why_gpu_is_full(description: ModelDescription, device: str, error: Exception) -> str:
    # Empty for another error, such as a lack of the machine's own memory.
    if isinstance(error, DeviceUnavailableError):
        return str(error) if device == "auto" else ""
    message = " ".join(str(error).split())
    of_machine = isinstance(error, MemoryError) or "DefaultCPUAllocator" in message
    if device == "cpu" or of_machine or not is_out_of_memory(error):
        return ""
    return (
        f"{description.path} does not fit into the GPU's free memory ({message[:120]}); end the "
        "other processes that use it (nvidia-smi lists them), or name another GPU, such as cuda:1"
    )


def _warn_of_unread_keys(description: ModelDescription) -> None:
    read = [(description.encoder, description.spec)]
    if description.images:
        read.append((description.image_encoder, description.images.encoder))
    for folder, spec in read:
        if spec.unread_keys:
            log.warning(
                "%s: %s: not known; if they change vectors, these differ from the model's",
                *(folder / "config.json", ", ".join(spec.unread_keys)),
            )


def _log_attention_of_code(description: ModelDescription) -> None:
    if code := description.spec.bidirectional_code:
        log.info(
            "%s: each token attends to the whole text, as in the code of %s; is_causal in this "
            "file would decide otherwise",
            *(description.encoder / "config.json", code),
        )


def _warn_of_assumed_pooling(description: ModelDescription) -> None:
    if description.recipe.pooling_source != "assumed":
        return
    log.warning(
        "%s states no pooling: %s is assumed; EMBEDWELL_POOLING, or pooling= in Python, names "
        "another",
        *(description.path, description.recipe.pooling[0]),
    )
    unused = () if has_modules(description.path) else description.path.glob("*_Pooling/config.json")
    for path in unused:  # some programs copy a part of a model
        log.warning("%s has no effect without modules.json: copy the whole model", path)


def _head(description: ModelDescription, linear: LinearFactory) -> VectorHead:
    return VectorHead(description.path, description.recipe.modules, linear)


def _fast_linear(
    linear: LinearFactory, dtype: str, trials: Sequence[Trial], cpu_features: frozenset[str]
) -> LinearFactory:
    # On a CPU, where torch can have bfloat16 though no kernels are compiled.
    has_kernels = library.best_isa("bfloat16", cpu_features) is not None
    if has_kernels and takes_bfloat16(dtype, trials):
        return HostLinearFactory(cpu_features, "bfloat16")
    return linear


def _compared_vectors(description: ModelDescription, head: VectorHead) -> Vectors:
    # A classifier has few logits: their inputs show the accuracy of the encoder better.
    if description.multi_vector:
        return token_vectors_function(head, description.spec.config.num_layers)
    compared = head.without_last() if description.classifier else head
    return pooled_vectors_function(compared, description.recipe.pooling)
