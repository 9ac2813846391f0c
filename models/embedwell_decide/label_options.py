"""Options of a GLiClass: the tokens of its labels, and the layers that compare them with a text."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from embedwell_models.config.json_config import JsonConfig
from embedwell_models.config.layer_spec import ACTIVATIONS
from embedwell_models.errors import ModelError

LABEL, SEPARATOR, EXAMPLE = "<<LABEL>>", "<<SEP>>", "<<EXAMPLE>>"
MAX_LENGTH = 1024
"""Tokens of a row, as in the authors' pipeline."""
POOLINGS = ("first", "last", "avg", "max", "sum", "rms", "abs_max", "abs_avg")
SCORERS = ("simple", "weighted-dot", "mlp")
_REQUIRED: Mapping[str, Any] = {  # the supported values of further options
    "architecture_type": "uni-encoder",
    "encoder_layer_id": -1,
    "multimodal": False,
    "squeeze_layers": False,
    "use_calibrator": False,
    "use_lstm": False,
    "use_segment_embeddings": False,
}


@dataclass(frozen=True)
class LabelOptions:
    """Options of a GLiClass.

    label_id: id of the token before each label. text_id: id of the token before the text.
    prompt_first: whether the labels are before the text. pooling: of the states of the text.
    scorer: the function of the text's and a label's vector. activation: of the projections to
    these. normalize: whether the vectors have unit length. text_alone: whether the states of the
    labels are left out of the text's. average: whether the vector of a label is the mean of its
    tokens' states. own_token: whether the token before a label counts among these, or is its state.
    """

    label_id: int
    text_id: int
    prompt_first: bool
    pooling: str
    scorer: str
    activation: str
    normalize: bool
    text_alone: bool
    average: bool
    own_token: bool

    @classmethod
    def read(cls, folder: Path) -> "LabelOptions":
        """Read the options of a model's folder; raises ModelError as `of` does."""
        return cls.of(JsonConfig(folder / "config.json"))

    @classmethod
    def of(cls, options: JsonConfig) -> "LabelOptions":
        """Read the options of a config.json; raises ModelError for one that is not supported."""
        for key, value in _REQUIRED.items():
            options.require(key, value)
        options.require("hidden_size", options.nested("encoder_config")["hidden_size"])
        poolings, scorers = (dict(zip(each, each, strict=True)) for each in (POOLINGS, SCORERS))
        kinds = {"first": False, "average": True}
        return cls(
            label_id=_id(options, "class_token_index"),
            text_id=_id(options, "text_token_index"),
            prompt_first=options.get("prompt_first", False),
            pooling=options.choice("pooling_strategy", poolings, "first"),
            scorer=options.choice("scorer_type", scorers, "simple"),
            activation=options.choice("projector_hidden_act", ACTIVATIONS, "gelu"),
            normalize=options.get("normalize_features", False),
            text_alone=options.get("extract_text_features", False),
            average=options.choice("class_token_pooling", kinds, "first"),
            own_token=options.get("embed_class_token", True),
        )

    def joined(self, labels: str, text: str) -> str:
        """Return what the model reads of a text. labels: see `labels_text`."""
        return f"{labels}{text}" if self.prompt_first else f"{text}{labels}"


def labels_text(labels: list[str], prompt: str = "") -> str:
    """Return the labels as a model reads them, and a description of the task after them."""
    return "".join(f"{LABEL}{label}" for label in labels) + SEPARATOR + prompt


def without_markers(text: str) -> str:
    """Return a text without the tokens that mark labels and texts, so that it adds none."""
    for marker in (LABEL, SEPARATOR, EXAMPLE):
        text = text.replace(marker, " ")
    return text


def _id(options: JsonConfig, key: str) -> int:
    value = options[key]
    if type(value) is not int or value < 0:
        raise ModelError(f"{options.path}: {key} = {value!r} is not a whole number from 0 on")
    return value
