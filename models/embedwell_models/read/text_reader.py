"""Read all texts of a call without a pause, as the library does."""

import sys
from collections.abc import Sequence

from embedwell_models.errors import InputError
from embedwell_models.model_files.vector_recipe import VectorRecipe
from embedwell_models.read.chunks import ChunkedDocument
from embedwell_models.read.inputs import InputOptions, InputRow
from embedwell_models.read.prompts import Prompts
from embedwell_models.read.row_tokenizer import RowTokenizer
from embedwell_models.tokenizer.steps import run_to_completion
from embedwell_models.tokenizer.tokenizer import Tokenizer
from embedwell_models.tokenizer.tokens import Token


class TextReader:
    """Reads texts with the prompts of a model; there is no limit of their tokens together."""

    def __init__(
        self,
        tokenizer: Tokenizer,
        recipe: VectorRecipe,
        *,
        vocabulary_rows: int,
        min_tokens: int,
    ) -> None:
        """vocabulary_rows, min_tokens: see RowTokenizer."""
        self._recipe, self._prompts = recipe, Prompts(recipe)
        self._tokenizer = RowTokenizer(
            tokenizer,
            recipe,
            vocabulary_rows=vocabulary_rows,
            min_tokens=min_tokens,
            max_tokens=sys.maxsize,
            auto_truncate=True,
            raw_token_ids=True,
        )

    def ids(self, texts: Sequence[str], options: InputOptions) -> list[list[int]]:
        """Return the ids of each text, cut to max_length, also those that the model refuses."""
        return run_to_completion(self._tokenizer.read_ids(texts, self._before_text(options)))

    def rows(
        self, texts: Sequence[str], options: InputOptions, first_index: int = 0
    ) -> list[InputRow]:
        """Return the row of each text; raises InputError. first_index: of the first, in errors."""
        before = self._before_text(options)
        return run_to_completion(self._tokenizer.read(texts, before, options, first_index))

    def rows_with_tokens(
        self, texts: Sequence[str], options: InputOptions
    ) -> list[tuple[InputRow, list[Token]]]:
        """Like `rows`, with the tokens of each row; slower."""
        before = self._before_text(options)
        return run_to_completion(self._tokenizer.read_with_tokens(texts, before, options, 0))

    def chunks(self, texts: Sequence[str], options: InputOptions) -> ChunkedDocument:
        """Return the row of consecutive chunks of a text; raises InputError."""
        if not texts:
            raise InputError("give at least one text", code="no_input")
        options.check_no_windows()
        before = self._before_text(options)
        return run_to_completion(self._tokenizer.read_chunks(texts, before, options))

    def _before_text(self, options: InputOptions) -> str:
        prompt = self._prompts.resolve(options.prompt, options.prompt_name, options.role)
        return self._recipe.before_text(prompt.text)
