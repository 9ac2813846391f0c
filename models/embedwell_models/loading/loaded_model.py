"""The parts of a model, loaded from its folder onto a device in a precision."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field

import torch

from embedwell_models import families
from embedwell_models.checkpoint import weights
from embedwell_models.cpu_backend import library
from embedwell_models.cpu_backend.linear import row_exact_linear_factory
from embedwell_models.encoder.encoder import Encoder, EncoderWithInputs, Inputs
from embedwell_models.encoder.latents import load_latent_weights
from embedwell_models.encoder.pooled_vector_head import PooledVectorHead
from embedwell_models.loading.image_embedder import ImageEmbedder
from embedwell_models.model_description import ModelDescription
from embedwell_models.model_files.sparse import Splade
from embedwell_models.precision.encoder_factory import AddHead, EncoderFactory
from embedwell_models.precision.reference_sentences import (
    ReferenceSentenceEmbedder,
    Vectors,
    pooled_vectors_function,
    token_vectors_function,
)
from embedwell_models.precision.trials import Trial, build_in_precision
from embedwell_models.tokenizer.tokenizer import Tokenizer
from embedwell_models.torch_backend.cuda_graphs import RecordedShapes
from embedwell_models.torch_backend.device import resolve_device
from embedwell_models.torch_backend.encoder import InputEmbeddings
from embedwell_models.torch_backend.latent_attention import LatentAttention, LatentAttentionEncoder
from embedwell_models.torch_backend.linear import LinearFactory
from embedwell_models.torch_backend.splade import SpladeEncoder, SpladeHead
from embedwell_models.torch_backend.token_vector_head import TokenVectorHead

log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class LoadedModel:
    """A model's tokenizer, encoder and heads.

    isa: the instruction set of the kernels; None without kernels. trials: the results of the tried
    precisions. linear: builds further linear layers; each row of their output is bit-identical in
    every batch. images: the image encoder; None if the model has none. graphs: the batch shapes
    with CUDA graphs, after the encoder is warm.
    """

    folder: ModelDescription
    tokenizer: Tokenizer
    embeddings: Inputs
    encoder: Encoder
    head: PooledVectorHead | TokenVectorHead
    dtype: str
    isa: str | None
    trials: Sequence[Trial]
    linear: LinearFactory
    images: ImageEmbedder | None
    graphs: RecordedShapes = field(default_factory=RecordedShapes)

    @classmethod
    def load(  # noqa: PLR0913 - all but one are keyword-only
        cls,
        folder: ModelDescription,
        *,
        device: str,
        dtype: str,
        isa: str,
        trials: Sequence[Trial] | None,
        cuda_graphs: bool,
    ) -> "LoadedModel":
        """Load a folder; for the arguments see embedwell_models.embedder.Embedder.load."""
        config, tokenizer = folder.spec.config, folder.tokenizer()
        if unread := folder.spec.unread_keys:
            log.warning(
                "%s: %s: not known; if they change vectors, these differ from the model's",
                *(folder.encoder / "config.json", ", ".join(unread)),
            )
        cpu_features = library.features(isa)
        linear = row_exact_linear_factory(cpu_features)
        load_own = families.named(config.family).import_encoder_loader()
        if load_own is not None:
            encoder = load_own(folder, device, linear)
            return cls._of_float32(folder, tokenizer, encoder, linear)
        head = _head(folder, linear)
        tensors = weights.load(folder.encoder, folder.spec)
        with torch.inference_mode():
            embeddings = InputEmbeddings(config, tensors, resolve_device(device))
            compared = _compared_vectors(folder, head)
            sentences = ReferenceSentenceEmbedder(tokenizer, config.vocab_size, compared)
            add_head = _head_of_states(folder, embeddings)
            graphs = RecordedShapes()
            factory = EncoderFactory(
                *(tensors, embeddings, sentences.calibrate, add_head, cpu_features),
                graphs=graphs if cuda_graphs else None,
            )
            choice = build_in_precision(factory, dtype, sentences, trials)
            images = ImageEmbedder.load(folder, embeddings.device, choice.dtype, cpu_features)
        torch.cuda.empty_cache()  # frees the memory of the precisions that were not chosen
        return cls(
            folder=folder,
            tokenizer=tokenizer,
            embeddings=embeddings,
            encoder=choice.encoder,
            head=head,
            dtype=choice.dtype,
            isa=factory.isa(choice.dtype),
            trials=choice.trials,
            linear=linear,
            images=images,
            graphs=graphs,
        )

    @classmethod
    def _of_float32(
        cls,
        folder: ModelDescription,
        tokenizer: Tokenizer,
        encoder: EncoderWithInputs,
        linear: LinearFactory,
    ) -> "LoadedModel":
        # For an encoder that computes in float32 only.
        return cls(
            folder=folder,
            tokenizer=tokenizer,
            embeddings=encoder,
            encoder=encoder,
            head=_head(folder, linear),
            dtype="float32",
            isa=None,
            trials=(),
            linear=linear,
            images=None,
        )


def _head(folder: ModelDescription, linear: LinearFactory) -> PooledVectorHead | TokenVectorHead:
    modules = folder.sentence.modules
    if folder.multi_vector:
        return TokenVectorHead(folder.path, modules, linear)
    return PooledVectorHead(folder.path, modules)


def _compared_vectors(
    folder: ModelDescription, head: PooledVectorHead | TokenVectorHead
) -> Vectors:
    # A classifier has few logits: their inputs show the accuracy of the encoder better.
    if isinstance(head, TokenVectorHead):
        return token_vectors_function(head, folder.spec.config.num_layers)
    compared = head.without_last() if folder.classifier else head
    return pooled_vectors_function(compared, folder.sentence.pooling)


def _head_of_states(folder: ModelDescription, embeddings: InputEmbeddings) -> AddHead | None:
    splade, config = folder.sentence.sparse, folder.spec.config
    device, layers = embeddings.device, config.num_layers
    if isinstance(splade, Splade):
        build = SpladeHead.builder(splade, folder.encoder, embeddings.tokens, config.hidden_size)
        return lambda encoder, linear: SpladeEncoder(encoder, build(linear), layers)
    if folder.spec.latents is not None:
        tensors = load_latent_weights(folder.encoder, folder.spec.latents)
        return lambda encoder, linear: LatentAttentionEncoder(
            encoder, LatentAttention(tensors, linear, device), layers
        )
    return None
