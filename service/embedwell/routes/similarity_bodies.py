"""Request and response bodies of /similarity."""

from typing import Literal, NotRequired

from pydantic import NonNegativeInt, PositiveInt
from typing_extensions import TypedDict

from embedwell.errors import BadRequest
from embedwell.routes.common.body import (
    Body,
    ComparisonInput,
    TextList,
    TextsByPath,
    examples,
    texts_by_path,
)
from embedwell.routes.common.common_fields import forbid_extra
from embedwell.routes.common.options import (
    OPTION_FIELDS,
    InputBody,
    ReadingBody,
    refuse_fields_outside_parameters,
)
from embedwell.routes.common.response_body import Matrix
from embedwell.routes.common.response_types import Input, Prompt, Timing, Usage
from embedwell_models.read.inputs import InputOptions


class Sentences(Body):
    """TEI's inputs: one sentence against many.

    - `source_sentence`: the text with which the others are compared.
    - `sentences`: the texts that are compared with it.
    """

    source_sentence: str
    sentences: TextList


class SimilarityRequest(InputBody):
    """Request body of /similarity, with `inputs` (TEI's format), or with `a` and `b`.

    - `a`, `b`: a text, an image ({"image": …}), a list of these, or a list of vectors of one
      length.
    - `parameters`: TEI's object for the fields of prompts and long texts, which the request can
      also have itself.
    - `mode`: `matrix` scores every a with every b; `pairwise` scores the first a with the first b,
      and so on. Default: `matrix`.
    - `top_k`: return only the closest entries of b for each a, best first; equal scores keep the
      order of b. Each entry counts as two numbers. Default: all scores.
    - `details`: whether the response has the token count of each text, too. Default: false.
    - `metric`: `cosine`, `dot`, or a negative distance: higher is always closer. `maxsim` compares
      the vectors of tokens of queries (a) and documents (b), and is the only metric of a
      multi-vector model. Default: `cosine`.
    - `inputs`: TEI's format: one sentence against many. Give `inputs`, or `a` and `b`.
    """

    model_config = examples(
        {"a": ["A cat sleeps."], "b": ["A kitten naps.", "The car is red."]},
        {"inputs": {"source_sentence": "A cat sleeps.", "sentences": ["A kitten naps."]}},
        {"a": [[1.0, 0.0]], "b": [[0.6, 0.8], [0.0, 1.0]], "top_k": 1, "metric": "euclidean"},
        {"a": "A cat sleeps.", "b": ["A kitten naps."], "mode": "pairwise", "details": True},
    )

    input_fields = ("inputs", "a", "b")

    inputs: Sentences | None = None
    parameters: ReadingBody | None = None
    a: ComparisonInput | None = None
    b: ComparisonInput | None = None
    metric: Literal["cosine", "dot", "euclidean", "manhattan", "maxsim"] = "cosine"
    mode: Literal["matrix", "pairwise"] = "matrix"
    top_k: PositiveInt | None = None
    details: bool = False

    def input_options(self, count_dropped: bool = False) -> InputOptions:
        """Build the options from `parameters` or the request's own fields; raises BadRequest."""
        if self.parameters is None:
            return super().input_options(count_dropped)
        refuse_fields_outside_parameters(self, OPTION_FIELDS)
        return self.parameters.input_options(count_dropped)

    @property
    def requested_task(self) -> str | None:
        """Return the task from `parameters` or from the request's own field."""
        return self.task if self.parameters is None else self.parameters.task or self.task

    def sides(self) -> tuple[TextsByPath, TextsByPath]:
        """Return the texts and images of both sides, none for vectors; raises BadRequest."""
        if self.inputs is None:
            self._check_a_and_b()
            return texts_by_path(self.a, "a"), texts_by_path(self.b, "b")
        self._check_source(self.inputs)
        source = texts_by_path(self.inputs.source_sentence, "inputs", "source_sentence")
        return source, texts_by_path(self.inputs.sentences, "inputs", "sentences")

    def _check_source(self, inputs: Sentences) -> None:
        for name in ("a", "b", "mode", "top_k"):
            if name in self.model_fields_set:
                raise BadRequest(
                    f"{name} cannot be combined with inputs; leave one of them out", param=name
                )
        if not inputs.sentences:
            raise BadRequest(
                "inputs.sentences is empty; give at least one sentence",
                code="no_input",
                param="sentences",
            )

    def _check_a_and_b(self) -> None:
        if self.a is None or self.b is None:
            raise BadRequest(
                "give either inputs, or both a and b", param="a" if self.a is None else "b"
            )
        if [] in (self.a, self.b):
            empty = "a" if self.a == [] else "b"
            raise BadRequest(
                f"{empty} is empty; give at least one entry", code="no_input", param=empty
            )


@forbid_extra
class SourceInputs(TypedDict):
    """Token counts of the texts.

    - `source_sentence`: token count of the source sentence.
    - `sentences`: token count of each sentence, in the request's order.
    """

    source_sentence: Input
    sentences: list[Input]


@forbid_extra
class SideInputs(TypedDict):
    """Descriptions of the texts among the inputs; vectors have no entry.

    - `a`, `b`: token counts of the texts on this side.
    """

    a: NotRequired[list[Input]]
    b: NotRequired[list[Input]]


class Details(TypedDict):
    """Fields of a response that `details` adds.

    - `inputs`: token count of each text; only with `details`.
    - `prompt`: the prompt that was put in front of each text; only with `details`.
    - `usage`: number of texts and tokens; only with `details`.
    - `timing`: how long each step of the request took; only with `details`.
    """

    inputs: NotRequired[SourceInputs | SideInputs]
    prompt: NotRequired[Prompt]
    usage: NotRequired[Usage]
    timing: NotRequired[Timing]


@forbid_extra
class SimilarityScores(Details):
    """Response to a request without `top_k`.

    - `scores`: in mode matrix a row for each a, otherwise a number for each pair.
    - `metric`: how the texts or vectors were compared.
    """

    metric: str
    scores: list[float] | Matrix


@forbid_extra
class Best(TypedDict):
    """An entry of `b`, and its score with an entry of `a`.

    - `index`: position of the entry in `b`, from 0.
    - `score`: similarity by `metric`: higher is closer, so that distances are negative.
    """

    index: NonNegativeInt
    score: float


@forbid_extra
class Top(Details):
    """Response to a request with `top_k`.

    - `top`: for each a, the closest entries of b.
    - `metric`: how the texts or vectors were compared.
    """

    metric: str
    top: list[list[Best]]


SimilarityResponse = list[float] | SimilarityScores | Top
