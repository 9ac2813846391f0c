"""Token ids of a document for an encoder, and of a query in a prompt for a decoder.

A row of ids is the document with the text before it, then the prompt in the second segment: each of
its ids plus the size of the vocabulary. The query is cut and decoded before it is put into the
prompt, as in the code of KaLM-Reranker.
"""

from collections.abc import Sequence

from embedwell_models.tokenizer.formats import DecoderFormat
from embedwell_models.tokenizer.pairs import Pair
from embedwell_models.tokenizer.steps import Steps
from embedwell_models.tokenizer.tokenizer import Tokenizer
from embedwell_models.tokenizer.tokens import Side, TruncatedIds, common_length, cut, parts
from embedwell_prompts.pairs import PairTokenizerWithFormat, cut_after, second_text


class DecoderPairTokenizer(PairTokenizerWithFormat):
    """Tokenizer of pairs for a model whose encoder reads documents, and its decoder queries."""

    def __init__(self, tokenizer: Tokenizer, pair_format: DecoderFormat, vocab_size: int) -> None:
        """tokenizer: a tokenizer that adds no special tokens, because the format has them.

        Raises ModelError if the format leaves no room for a pair.
        """
        self._format, self._vocab_size = pair_format, vocab_size
        self._before_document = tokenizer.encode([pair_format.document], "right")[0].ids
        super().__init__(tokenizer)

    @property
    def characters(self) -> int:
        """Number of characters that the format adds to each pair."""
        return len(self._format.document) + len(self._format.text("", self._instruction))

    def encode(
        self,
        pairs: Sequence[Pair],
        side: Side | None = None,
        count_limit: float = 0,
        max_second: int | None = None,
    ) -> Steps[list[TruncatedIds]]:
        """Return the ids of each pair, in steps, see `PairEncoder`."""
        side, before = side or self._tokenizer.side, self._before_document
        documents = [self._format.document + second_text(pair, at) for at, pair in enumerate(pairs)]
        prompts = dict[str, TruncatedIds]()
        for query in dict.fromkeys(query for query, _ in pairs):
            prompts[query] = yield from self._prompt(query, side, self._room - 1)
        texts = list(dict.fromkeys(documents))
        rows = yield from self._tokenizer.encode_in_steps(texts, "right", count_limit)
        row_of, joined = dict(zip(texts, rows, strict=True)), []
        for (query, _), text in zip(pairs, documents, strict=True):
            prompt = prompts[query]
            room = self._document_room(prompt)
            if max_second is not None:
                room = min(room, len(before) + max_second)
            row = yield from cut_after(self._tokenizer, before, text, row_of[text], room, side)
            ids = self._join(row.ids, prompt.ids)
            joined.append(TruncatedIds(ids, prompt.dropped + row.dropped))
        return joined

    def windows(self, first: str, second: str, max_tokens: int) -> Steps[list[list[int]]]:
        """Split the document into parts that fit next to the query; see PairTokenizer.windows."""
        prompt = yield from self._prompt(first, "right", max(self._room // 2, 1))
        limit = max_tokens + len(self._before_document)
        text = self._format.document + second
        ids = yield from self._tokenizer.ids_without_special(text, limit)
        before = ids[: common_length(self._before_document, ids)]
        ids = ids[len(before) :]
        size = max(self._document_room(prompt) - len(before), 1)
        windows = parts(len(ids), size)
        return [self._join([*before, *ids[part]], prompt.ids) for part in windows]

    def _room_with(self, instruction: str | None) -> int:
        self._instruction = self._format.instruction if instruction is None else instruction
        prompt = self._ids(self._format.text("", self._instruction))
        return self._max_length - len(self._before_document) - len(prompt)

    def _prompt(self, query: str, side: Side, max_query: int) -> Steps[TruncatedIds]:
        (row,) = yield from self._tokenizer.encode_in_steps([query], side)
        longest = self._max_length - len(self._before_document) - 1
        count = min(len(row.ids), max_query, self._format.max_query)
        ids = self._prompt_ids(cut(row.ids, count, side))
        # Each byte of a character that is cut may become a replacement of three tokens.
        while count and (excess := len(ids) - longest) > 0:
            count = max(count - -(-excess // 3), 0)
            ids = self._prompt_ids(cut(row.ids, count, side))
        return TruncatedIds(ids, row.dropped + len(row.ids) - count)

    def _prompt_ids(self, query: Sequence[int]) -> list[int]:
        (text,) = self._tokenizer.decode([query], skip_special=False)
        return self._ids(self._format.text(text, self._instruction))

    def _document_room(self, prompt: TruncatedIds) -> int:
        return max(min(self._format.max_document, self._max_length - len(prompt.ids)), 0)

    def _join(self, document: Sequence[int], prompt: Sequence[int]) -> list[int]:
        # A token that the table lacks is in neither segment, so that its row is refused.
        size = self._vocab_size
        first = [id if id < size else id + size for id in document]
        return [*first, *(id + size for id in prompt)]
