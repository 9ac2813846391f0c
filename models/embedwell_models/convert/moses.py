"""Normalisation of LASER's texts, before SentencePiece splits them.

Non-printing characters become spaces. Punctuation is normalised as by Moses for English
(normalize-punctuation.perl of release 4). Letters become lowercase.
"""

from tokenizers import Regex, normalizers

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


def normalizer_steps() -> list[normalizers.Normalizer]:
    """Return the normalisation steps that precede SentencePiece's own steps."""
    steps = [normalizers.Replace(Regex(pattern), by) for pattern, by in _SUBSTITUTIONS]
    return [*steps, normalizers.Strip(), normalizers.Lowercase()]
