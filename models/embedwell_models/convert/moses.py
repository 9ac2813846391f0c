"""The normalizer of LASER's texts, before SentencePiece splits them.

Characters that are not printed become spaces, punctuation is normalised as Moses does it for
English (normalize-punctuation.perl, in the form of its release 4), and letters become small.
"""

from tokenizers import Regex, normalizers

_LETTER, _NO_BREAK = "[a-zA-Z]", "\u00a0"
_IGNORED = r"[\p{Mn}'.:]*"  # characters that stand inside of words, too
# Pattern -> replacement, in order. A pattern of lookarounds stands for one with groups.
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
    # A quotation mark before commas and full stops comes after them: it is added, then removed.
    (r'"[,.]+\K', '"'),
    (r'"(?=[,.]+")', ""),
    (rf"(?<=\d){_NO_BREAK}(?=\d)", "."),
    (rf"\p{{L}}{_IGNORED}\KΣ(?!{_IGNORED}\p{{L}})", "ς"),  # Unicode's rule of the final sigma
)


def normalizer_steps() -> list[normalizers.Normalizer]:
    """Return the steps of a text before SentencePiece's own."""
    steps = [normalizers.Replace(Regex(pattern), by) for pattern, by in _SUBSTITUTIONS]
    return [*steps, normalizers.Strip(), normalizers.Lowercase()]
