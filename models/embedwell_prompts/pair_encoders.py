"""The tokenizer of pairs for each kind of format."""

from embedwell_models.tokenizer.formats import AnyPairFormat, DecoderFormat, SeparateFormat
from embedwell_models.tokenizer.pairs import PairEncoder
from embedwell_models.tokenizer.tokenizer import Tokenizer
from embedwell_prompts.decoder_pairs import DecoderPairTokenizer
from embedwell_prompts.formatted_pairs import FormattedPairTokenizer
from embedwell_prompts.separate_pairs import SeparatePairTokenizer


def pair_encoder(tokenizer: Tokenizer, pair_format: AnyPairFormat, vocab_size: int) -> PairEncoder:
    """Return the tokenizer of pairs in a format; raises ModelError if it cannot read pairs."""
    if isinstance(pair_format, SeparateFormat):
        return SeparatePairTokenizer(tokenizer, pair_format)
    if isinstance(pair_format, DecoderFormat):
        return DecoderPairTokenizer(tokenizer, pair_format, vocab_size)
    return FormattedPairTokenizer(tokenizer, pair_format)
