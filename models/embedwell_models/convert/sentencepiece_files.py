"""Conversion of a SentencePiece file to tokenizer.json, with further normalisation before it."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tokenizers import Regex, Tokenizer, decoders, normalizers, pre_tokenizers, processors
from tokenizers.models import Unigram

from embedwell_models.errors import ModelError
from embedwell_models.precision.sentences import SENTENCES

_UNIGRAM, _CONTROL = 1, 3  # values in sentencepiece_model.proto
_EXPECTED = ("add_dummy_prefix", "escape_whitespaces", "remove_extra_whitespaces")


def convert(
    path: Path, target: Path, before: Sequence[normalizers.Normalizer], template: str
) -> list[str]:
    """Write tokenizer.json to a folder; return the pieces in the order of their ids.

    before: normalisers that run first. template: $A for the text, and the pieces around it.

    Raises ModelError for a file that cannot be read, for a model other than unigram, and if
    tokenizer.json would split texts differently.
    """
    from sentencepiece import sentencepiece_model_pb2

    schema: Any = sentencepiece_model_pb2
    proto = schema.ModelProto()
    try:
        proto.ParseFromString(path.read_bytes())
    except Exception as error:  # protobuf does not document its exceptions
        raise ModelError(f"{path} is not a SentencePiece file: {error}") from None
    options = [getattr(proto.normalizer_spec, name) for name in _EXPECTED]
    if proto.trainer_spec.model_type != _UNIGRAM or not all(options):
        raise ModelError(f"{path}: only unigram models with {', '.join(_EXPECTED)} are supported")
    rust = _tokenizer(proto, before)
    _compare(path, rust)
    pieces = [piece.piece for piece in proto.pieces]
    around = [(name, pieces.index(name)) for name in template.split() if name != "$A"]
    rust.post_processor = processors.TemplateProcessing(single=template, special_tokens=around)
    rust.save(str(target / "tokenizer.json"))
    return pieces


def _tokenizer(proto: Any, before: Sequence[normalizers.Normalizer]) -> Tokenizer:
    # SentencePiece never matches a control piece. The lowest score makes a match unlikely here.
    lowest = min(piece.score for piece in proto.pieces)
    scores = [lowest if piece.type == _CONTROL else piece.score for piece in proto.pieces]
    pieces = [piece.piece for piece in proto.pieces]
    model = Unigram([*zip(pieces, scores, strict=True)], unk_id=proto.trainer_spec.unk_id)
    rust = Tokenizer(model)
    table = proto.normalizer_spec.precompiled_charsmap
    own = [normalizers.Strip(), normalizers.Replace(Regex(" {2,}"), " ")]
    own = [normalizers.Precompiled(table), *own] if table else own
    rust.normalizer = normalizers.Sequence([*before, *own])
    rust.pre_tokenizer = pre_tokenizers.Metaspace()
    rust.decoder = decoders.Metaspace()
    return rust


def _compare(path: Path, rust: Tokenizer) -> None:
    from sentencepiece import SentencePieceProcessor

    file: Any = SentencePieceProcessor(model_file=str(path))
    for text in SENTENCES:
        normal = rust.normalizer.normalize_str(text)
        if rust.encode(text).ids != (expected := file.encode(normal)):
            pieces = [file.id_to_piece(id) for id in expected]
            raise ModelError(f"{path}: tokenizer.json would not split {text!r} into {pieces}")
