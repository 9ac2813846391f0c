"""Conversion of LASER's SentencePiece file to tokenizer.json, with Moses' normalisation before it.

Non-printing characters become spaces. Punctuation is normalised as by Moses for English
(normalize-punctuation.perl of release 4). Letters become lowercase.
"""

from itertools import chain
from pathlib import Path

from tokenizers import Regex, Tokenizer, decoders, normalizers, pre_tokenizers, processors
from tokenizers.models import Unigram

from embedwell_models.convert.sentencepiece_model import VARIANTS, SentencePieceModel
from embedwell_models.errors import ModelError
from embedwell_models.precision.sentences import SENTENCES

_LETTER, _NO_BREAK = "[a-zA-Z]", "\u00a0"
_IGNORED = r"[\p{Mn}'.:]*"  # characters that may stand inside words
# Pattern -> replacement, in order. Lookarounds replace the groups of Moses' patterns.
_SUBSTITUTIONS = (
    (r"\p{C}", " "),
    (r"\(", " ("),
    (r"\)", ") "),
    (" +", " "),
    (r"(?<=\)) (?=[.!:?;,])", ""),
    (r"\( ", "("),
    (r" \)", ")"),
    (r"(?<=\d) (?=%)", ""),
    (" (?=[:;])", ""),
    ("`", "'"),
    ("''", ' " '),
    ("[„“”]", '"'),
    ("–", "-"),
    ("—", " - "),
    (" +", " "),
    ("´", "'"),
    (f"(?<={_LETTER})[‘’](?={_LETTER})", "'"),
    ("[‘‚’]", '"'),
    ("''", '"'),
    ("…", "..."),
    (f"{_NO_BREAK}«{_NO_BREAK}", ' "'),
    (f"«{_NO_BREAK}|«", '"'),
    (f"{_NO_BREAK}»{_NO_BREAK}", '" '),
    (f"{_NO_BREAK}»|»", '"'),
    (f"(?<=nº){_NO_BREAK}(?!%)|{_NO_BREAK}(?=ºC|cm)|(?<=,){_NO_BREAK}(?![%:?!;])", " "),
    (f"{_NO_BREAK}(?=[%:?!;])", ""),
    (" +", " "),
    # A quotation mark before a comma or full stop moves behind it: first added, then removed.
    (r'"[,.]+\K', '"'),
    (r'"(?=[,.]+")', ""),
    (rf"(?<=\d){_NO_BREAK}(?=\d)", "."),
    (rf"\p{{L}}{_IGNORED}\KΣ(?!{_IGNORED}\p{{L}})", "ς"),  # Unicode's rule for the final sigma
)
_UNIGRAM, _CONTROL = 1, 3  # values in sentencepiece_model.proto
_EXPECTED = ("add_dummy_prefix", "escape_whitespaces", "remove_extra_whitespaces")


def convert(path: Path, target: Path, template: str) -> list[str]:
    """Write tokenizer.json to a folder; return the pieces in the order of their ids.

    template: $A for the text, and the pieces around it.

    Raises ModelError for a file that cannot be read, for a model other than unigram, and if
    tokenizer.json would split texts differently.
    """
    model = SentencePieceModel.read(path)
    proto = model.proto
    options = [getattr(proto.normalizer_spec, name) for name in _EXPECTED]
    if proto.trainer_spec.model_type != _UNIGRAM or not all(options):
        raise ModelError(f"{path}: only unigram models with {', '.join(_EXPECTED)} are supported")
    rust = _tokenizer(model)
    _compare(path, model, rust)
    pieces = [piece.piece for piece in proto.pieces]
    around = [(name, pieces.index(name)) for name in template.split() if name != "$A"]
    rust.post_processor = processors.TemplateProcessing(single=template, special_tokens=around)
    rust.save(str(target / "tokenizer.json"))
    return pieces


def _tokenizer(model: SentencePieceModel) -> Tokenizer:
    proto = model.proto
    # SentencePiece never matches a control piece. The lowest score makes a match unlikely here.
    lowest = min(piece.score for piece in proto.pieces)
    scores = [lowest if piece.type == _CONTROL else piece.score for piece in proto.pieces]
    pieces = [piece.piece for piece in proto.pieces]
    rust = Tokenizer(Unigram([*zip(pieces, scores, strict=True)], unk_id=proto.trainer_spec.unk_id))
    spaces = [normalizers.Strip(), normalizers.Replace(Regex(" {2,}"), " ")]
    steps = [*normalizer_steps(), *model.character_steps(), *spaces]
    rust.normalizer = normalizers.Sequence(steps)
    rust.pre_tokenizer = pre_tokenizers.Metaspace()
    rust.decoder = decoders.Metaspace()
    return rust


def _compare(path: Path, model: SentencePieceModel, rust: Tokenizer) -> None:
    before = normalizers.Sequence(normalizer_steps())
    for text in (*SENTENCES, *chain.from_iterable(VARIANTS.values())):
        prepared = before.normalize_str(text)
        if rust.encode(text).ids != model.processor.encode(prepared):
            pieces = model.pieces(prepared)
            raise ModelError(f"{path}: tokenizer.json would not split {text!r} into {pieces}")


def normalizer_steps() -> list[normalizers.Normalizer]:
    """Return the normalisation steps that precede SentencePiece's own steps."""
    steps = [normalizers.Replace(Regex(pattern), by) for pattern, by in _SUBSTITUTIONS]
    return [*steps, normalizers.Strip(), normalizers.Lowercase()]
