"""Options of a GLiNER2: the layers that score labels, and their temperature."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from embedwell_models.config.json_config import JsonConfig
from embedwell_models.errors import ModelError

OPTIONS = "gliner2"
"""Key of the options in config.json."""
MODEL_TYPE = "gliner2"
LABEL = "[L]"
"""Marker before each label."""
PROMPT, DESCRIPTION, TEXT = "[P]", "[DESCRIPTION]", "[SEP_TEXT]"
MARKERS = (
    *(PROMPT, LABEL, DESCRIPTION, TEXT, "[SEP_STRUCT]", "[C]", "[E]", "[R]"),
    *("[EXAMPLE]", "[OUTPUT]"),
)
"""Special tokens of every GLiNER2."""
MAX_LENGTH = 2048
"""Tokens of a row. The authors' code has no limit."""
HEADS: Mapping[str, tuple[str, ...]] = {
    "span": ("span_rep.*", "count_pred.*", "count_embed.*"),
    "boundary": ("boundary_head.*", "record_decoder.*", "relation_scorer.*"),
}
"""Tensors of the layers that extract, which decisions do not use, by architecture."""
CLASSIFIER = "classifier.*"


@dataclass(frozen=True)
class GlinerOptions:
    """Options of a GLiNER2.

    layers: names of the two layers that score a label. temperature: divisor of their scores.
    """

    layers: tuple[str, str]
    temperature: float

    @classmethod
    def read(cls, folder: Path) -> "GlinerOptions":
        """Read the options of a model's folder; raises ModelError as `of` does."""
        return cls.of(JsonConfig(folder / "config.json").nested(OPTIONS))

    @classmethod
    def of(cls, options: JsonConfig) -> "GlinerOptions":
        """Read the options of a checkpoint's config.json.

        Raises ModelError for an unknown architecture, and for a temperature that is not a number
        above 0.
        """
        architecture = architecture_of(options)
        if architecture == "span":
            return cls(("classifier.0", "classifier.2"), 1.0)
        head = options.get("boundary_head", {})
        temperature = head.get("classification_temperature", 1.0)
        if type(temperature) not in {int, float} or not 0 < temperature < float("inf"):
            raise ModelError(
                f"{options.path}: classification_temperature = {temperature!r} is not a number "
                "above 0"
            )
        # A layer of dropout has a number, too.
        last = 3 if head.get("dropout", 0.1) else 2
        return cls(("classifier.0", f"classifier.{last}"), float(temperature))

    def shapes(self, width: int) -> Iterator[tuple[str, tuple[int, ...]]]:
        """Yield the name and the shape of each tensor of the layers. width: of the encoder."""
        sizes = ((2 * width, width), (1, 2 * width))
        for name, (outputs, inputs) in zip(self.layers, sizes, strict=True):
            yield f"{name}.weight", (outputs, inputs)
            yield f"{name}.bias", (outputs,)


def architecture_of(options: JsonConfig) -> str:
    """Return the architecture of a checkpoint; raises ModelError for an unknown one."""
    return options.choice("architecture", dict(zip(HEADS, HEADS, strict=True)), "span")
