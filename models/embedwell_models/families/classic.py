"""Old families, whose modules are imported when a model of one is loaded."""

import pkgutil
from collections.abc import Callable
from pathlib import Path

from embedwell_models.config.checkpoint_layout import CheckpointLayout
from embedwell_models.config.json_config import JsonConfig
from embedwell_models.families.classification_heads import ClassificationLayers
from embedwell_models.families.family import Family, Reader, Row
from embedwell_models.tables.stored import TensorNames

WORD_VECTORS = "word_vectors"
WORD_TENSORS = TensorNames("emb_layer", "emb_layer.weight", "emb_layer.scales")


def _reader(name: str) -> Reader:
    """Return the reader "module:function", which is imported at the first call."""

    def read(options: JsonConfig) -> CheckpointLayout:
        spec: CheckpointLayout = pkgutil.resolve_name(name)(options)
        return spec

    return read


def read_word_vectors(folder: Path) -> CheckpointLayout:
    """Build the spec of a folder of word vectors; raises ModelError."""
    read = pkgutil.resolve_name("embedwell_models.classic.word_vectors:read_folder")
    spec: CheckpointLayout = read(folder)
    return spec


def _head(name: str) -> Callable[[JsonConfig], ClassificationLayers]:
    """Return the reader "module:function" of a head, which is imported at the first call."""

    def read(options: JsonConfig) -> ClassificationLayers:
        layers: ClassificationLayers = pkgutil.resolve_name(name)(options)
        return layers

    return read


_MOBILEBERT = Family(
    model_types=("mobilebert",),
    read=_reader("embedwell_models.classic.mobilebert_family:read"),
    classification_head=_head("embedwell_models.classic.mobilebert_family:classification_head"),
    encoder_loader="embedwell_models.classic.mobilebert_encoder:MobileBertEncoder.load",
    on_torch=True,
    tokenizer_override="normalizer",
    rows=(
        Row(
            family="MobileBERT",
            models="mobilebert-uncased",
            positions="learned",
            layers="bottleneck layers, no norms",
            torch="yes",
        ),
    ),
)
_CANINE = Family(
    model_types=("canine",),
    read=_reader("embedwell_models.classic.canine_family:read"),
    encoder_loader="embedwell_models.classic.canine_encoder:CanineEncoder.load",
    on_torch=True,
    states_need_attention=True,
    rows=(
        Row(
            family="CANINE",
            models="canine-s, canine-c",
            positions="learned",
            layers="characters instead of tokens, downsampled by four; post-norm",
            torch="yes",
        ),
    ),
)
_FUNNEL = Family(
    model_types=("funnel",),
    read=_reader("embedwell_models.classic.funnel_family:read"),
    classification_head=_head("embedwell_models.classic.funnel_family:classification_head"),
    encoder_loader="embedwell_models.classic.funnel_encoder:FunnelEncoder.load",
    on_torch=True,
    tokenizer_override="normalizer",
    rows=(
        Row(
            family="Funnel Transformer, with or without decoder",
            models="funnel-transformer small, small-base",
            positions="as Transformer-XL",
            layers="post-norm; each block halves the positions",
            torch="yes",
        ),
    ),
)
_LASER = Row(
    family="[LASER](older-encoders.md) 2, 3",
    models="laser2, laser3-wol_Latn",
    positions="none (2); sinusoidal (3)",
    layers="bidirectional LSTM (2); transformer, pre- or post-norm (3)",
    torch="LASER 2",
)
_LASER2 = Family(
    model_types=("laser2",),
    read=_reader("embedwell_models.classic.laser_family:lstm"),
    encoder_loader="embedwell_models.classic.lstm:BiLstmEncoder.load",
    on_torch=True,
    rows=(_LASER,),
)
_LASER3 = Family(
    model_types=("laser3",),
    read=_reader("embedwell_models.classic.laser_family:transformer"),
    rows=(_LASER,),
)
_ELMO = Family(
    model_types=("elmo",),
    read=_reader("embedwell_models.classic.elmo_family:read"),
    encoder_loader="embedwell_models.classic.elmo_encoder:ElmoEncoder.load",
    on_torch=True,
    rows=(
        Row(
            family="[ELMo](older-encoders.md#elmo)",
            models="elmo_2x4096_512_2048cnn_2xhighway",
            positions="none",
            layers="character convolutions, bidirectional LSTMs",
            torch="yes",
        ),
    ),
)
_DOC2VEC = Family(
    model_types=("doc2vec",),
    read=_reader("embedwell_models.classic.doc2vec:read"),
    encoder_loader="embedwell_models.classic.doc2vec:Doc2VecEncoder.load",
    rows=(
        Row(
            family="[Doc2Vec](older-encoders.md#doc2vec)",
            models="gensim models",
            positions="none",
            layers="none; inferred by gradient steps",
        ),
    ),
)
_WORD_VECTORS = Family(
    name=WORD_VECTORS,
    table=WORD_TENSORS,
    encoder_loader="embedwell_models.classic.word_vectors:WordVectorEncoder.load",
    rows=(
        Row(
            family="[word vectors](words.md)",
            models="Word2Vec, GloVe, fastText, WordEmbeddings",
            positions="none",
            layers="none",
        ),
    ),
)
FAMILIES = (
    _MOBILEBERT,
    _CANINE,
    _FUNNEL,
    _LASER2,
    _LASER3,
    _ELMO,
    _DOC2VEC,
    _WORD_VECTORS,
)
