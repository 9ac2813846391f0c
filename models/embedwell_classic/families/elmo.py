"""ELMo (Peters et al. 2018, arXiv 1802.05365), as `convert.elmo` writes it."""

from embedwell_models.config.encoder_config import EncoderConfig
from embedwell_models.config.json_config import JsonConfig
from embedwell_models.config.layer_spec import LayerSpec
from embedwell_models.config.model_spec import ModelSpec
from embedwell_models.config.tensor_names import affine_shapes
from embedwell_models.families.family import DocsRow, Family

MODEL_TYPE = "elmo"
CHARACTERS, BYTES = 261, 256
"""Rows of the table of characters, and the number of these rows that a text can use."""
_LSTM = ("input.weight", "input.bias", "recurrent.weight", "projection.weight")


def read(options: JsonConfig) -> ModelSpec:
    """Build the spec of an ELMo; its last layer is the weighted sum of the other layers."""
    width, layers = options["hidden_size"], options["num_hidden_layers"]
    config = EncoderConfig(
        vocab_size=BYTES,
        hidden_size=2 * width,
        layers=(*(LayerSpec(weights=index) for index in range(layers)), LayerSpec(weights=None)),
        max_positions=options["max_position_embeddings"],
        norm_eps=0.0,
        subwords=True,
    )
    cells, shapes = options["cell_size"], _character_shapes(options)
    lstm = ((4 * cells, width), (4 * cells,), (4 * cells, width), (width, cells))
    for index in range(layers):
        for direction in ("forward", "backward"):
            names = [f"layers.{index}.{direction}.{part}" for part in _LSTM]
            shapes |= zip(names, lstm, strict=True)
    shapes["mix"] = (layers + 1,)
    tensors = {
        f"lstm.{{}}.{direction}.{part}": f"layers.{{}}.{direction}.{part}"
        for direction in ("forward", "backward")
        for part in _LSTM
    }
    tensors |= {name: name for name in shapes if not name.startswith("layers.")}
    return ModelSpec(config=config, tensors=tensors, shapes=shapes)


def _character_shapes(options: JsonConfig) -> dict[str, tuple[int, ...]]:
    size, filters = options["character_size"], options["filters"]
    total = sum(count for _, count in filters)
    shapes: dict[str, tuple[int, ...]] = {"token_table": (CHARACTERS, size)}
    for index, (width, count) in enumerate(filters):
        shapes |= affine_shapes(f"convolution_{index}", (count, width * size))
    for index in range(options.get("num_highway_layers", 0)):
        for part in ("transform", "carry"):
            shapes |= affine_shapes(f"highway_{index}.{part}", (total, total))
    return shapes | affine_shapes("projection", (options["hidden_size"], total))


FAMILIES = (
    Family(
        model_types=(MODEL_TYPE,),
        read=read,
        encoder_loader="embedwell_classic.encoders.elmo:ElmoEncoder.load",
        on_torch=True,
        row=DocsRow(
            "[ELMo](older-encoders.md#elmo)",
            "elmo_2x4096_512_2048cnn_2xhighway",
            positions="none",
            layers="character convolutions, bidirectional LSTMs",
            torch="yes",
        ),
    ),
)
