"""The parts of a model, loaded from its folder onto a device in a precision."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch

from embedwell_models.assembly.doc2vec import load_doc2vec_encoder
from embedwell_models.assembly.image_embedder import ImageEmbedder
from embedwell_models.assembly.state_encoders import ENCODERS, load_state_encoder
from embedwell_models.assembly.word_vectors import load_word_vector_encoder
from embedwell_models.checkpoint import weights
from embedwell_models.cpu_backend import library
from embedwell_models.cpu_backend.linear import row_exact_linear_factory
from embedwell_models.encoder.device import resolve_device
from embedwell_models.encoder.encoder import Encoder
from embedwell_models.encoder.latents import load_latent_weights
from embedwell_models.encoder.pooled_vector_head import PooledVectorHead
from embedwell_models.families import doc2vec, word_vectors
from embedwell_models.folder import Folder
from embedwell_models.precision.encoder_factory import AddHead, EncoderFactory
from embedwell_models.precision.reference_sentences import (
    ReferenceSentenceEmbedder,
    Vectors,
    pooled_vectors_function,
    token_vectors_function,
)
from embedwell_models.precision.trials import Trial, build_in_precision
from embedwell_models.sentence_transformers.sparse import Splade
from embedwell_models.tokenizer.tokenizer import Tokenizer
from embedwell_models.torch_backend.doc2vec import Doc2VecEncoder
from embedwell_models.torch_backend.encoder import InputEmbeddings
from embedwell_models.torch_backend.latent_attention import LatentAttention, LatentAttentionEncoder
from embedwell_models.torch_backend.linear import LinearFactory
from embedwell_models.torch_backend.splade import SpladeEncoder, SpladeHead
from embedwell_models.torch_backend.state_encoder import StateEncoder
from embedwell_models.torch_backend.token_head import TokenHead
from embedwell_models.torch_backend.word_vectors import WordVectorEncoder

_Float32Encoder = Doc2VecEncoder | StateEncoder | WordVectorEncoder
_OF_WORDS: Mapping[str, Callable[[Folder], _Float32Encoder]] = {
    doc2vec.FAMILY: load_doc2vec_encoder,
    word_vectors.FAMILY: load_word_vector_encoder,
}


@dataclass(frozen=True, kw_only=True)
class LoadedModel:
    """A model's tokenizer, encoder and heads.

    isa: the instruction set of the kernels; None without kernels. trials: the results of the tried
    precisions. linear: builds further linear layers; each row of their output is bit-identical in
    every batch. images: the image encoder; None if the model has none.
    """

    folder: Folder
    tokenizer: Tokenizer
    embeddings: InputEmbeddings | _Float32Encoder
    encoder: Encoder
    head: PooledVectorHead | TokenHead
    dtype: str
    isa: str | None
    trials: Sequence[Trial]
    linear: LinearFactory
    images: ImageEmbedder | None

    @classmethod
    def load(
        cls, folder: Folder, device: str, dtype: str, isa: str, trials: Sequence[Trial] | None
    ) -> "LoadedModel":
        """Load a folder; for the arguments see embedwell_models.embedder.Embedder.load."""
        config, tokenizer = folder.spec.config, folder.tokenizer()
        load_words = _OF_WORDS.get(config.family)
        if load_words is not None:
            linear = row_exact_linear_factory(frozenset())
            return cls._of_float32(folder, tokenizer, load_words(folder), linear)
        cpu_features = library.features(isa)
        linear = row_exact_linear_factory(cpu_features)
        if config.family in ENCODERS:
            encoder = load_state_encoder(folder, device, linear)
            return cls._of_float32(folder, tokenizer, encoder, linear)
        head = _head(folder, linear)
        tensors = weights.load(folder.encoder, folder.spec)
        with torch.inference_mode():
            embeddings = InputEmbeddings(config, tensors, resolve_device(device))
            compared = _compared_vectors(folder, head)
            sentences = ReferenceSentenceEmbedder(tokenizer, config.vocab_size, compared)
            add_head = _head_of_states(folder, embeddings)
            factory = EncoderFactory(tensors, embeddings, sentences, add_head, cpu_features)
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
        )

    @classmethod
    def _of_float32(
        cls,
        folder: Folder,
        tokenizer: Tokenizer,
        encoder: _Float32Encoder,
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


def _head(folder: Folder, linear: LinearFactory) -> PooledVectorHead | TokenHead:
    modules = folder.sentence.modules
    if folder.multi_vector:
        return TokenHead(folder.path, modules, linear)
    return PooledVectorHead(folder.path, modules)


def _compared_vectors(folder: Folder, head: PooledVectorHead | TokenHead) -> Vectors:
    # A classifier has few logits: their inputs show the accuracy of the encoder better.
    if isinstance(head, TokenHead):
        return token_vectors_function(head, folder.spec.config.num_layers)
    compared = head.without_last() if folder.classifier else head
    return pooled_vectors_function(compared, folder.sentence.pooling)


def _head_of_states(folder: Folder, embeddings: InputEmbeddings) -> AddHead | None:
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
