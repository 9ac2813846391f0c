"""Errors of rotary models on long texts, in this project and in transformers.

The models have random weights, so only rounding makes vectors differ. The exact vectors are
computed by transformers in float64 with float64 angles; transformers itself computes angles in
float32.
"""

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click
import numpy as np
import torch
from torch import Tensor
from transformers import AutoConfig, AutoModel

from embedwell_models import families
from embedwell_models.checkpoint import weights
from embedwell_models.cpu_backend import library
from embedwell_models.cpu_backend.encoder_factory import KernelEncoderFactory
from embedwell_models.cpu_backend.input_tables import InputTables
from embedwell_models.cpu_backend.quantization import Calibration
from embedwell_models.encoder.batch import Batch
from embedwell_models.vectors import Floats, normalize

SIZES = {
    "vocab_size": 1000,
    "hidden_size": 256,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "intermediate_size": 512,
    "max_position_embeddings": 8192,
    **{f"{name}_token_id": 1 for name in ("pad", "bos", "eos", "cls", "sep")},
}
MODELS: Mapping[str, Mapping[str, Any]] = {
    "modernbert": {},
    "nomic_bert": {},
    "qwen3": {"num_key_value_heads": 2, "rope_parameters": {"rope_theta": 1e6}},
}
STD = 0.1


@click.command()
@click.option("--lengths", default="512,2048,8192", help="Tokens of a text.")
def main(lengths: str) -> None:
    """Print the largest difference of a component of unit vectors, for means and for tokens."""
    click.echo("model tokens pooling ours-exact transformers-exact ours-transformers")
    for name, options in MODELS.items():
        with tempfile.TemporaryDirectory() as folder:
            build(name, options, Path(folder))
            for length in map(int, lengths.split(",")):
                print_row(name, length, Path(folder))


def build(name: str, options: Mapping[str, Any], folder: Path) -> None:
    """Save a model of random weights."""
    from_config: Any = AutoModel.from_config
    model = from_config(AutoConfig.for_model(name, **{**SIZES, **options}))
    noise = torch.Generator().manual_seed(7)
    with torch.no_grad():
        for key, parameter in model.named_parameters():
            centre = 1.0 if "norm" in key.lower() and key.endswith("weight") else 0.0
            parameter.normal_(centre, STD, generator=noise)
    model.save_pretrained(folder)


def print_row(name: str, length: int, folder: Path) -> None:
    """Compute a text in three ways and print the differences."""
    noise = torch.Generator().manual_seed(3)
    ids = torch.randint(6, SIZES["vocab_size"], (length,), generator=noise)
    states = ours(folder, ids), reference(folder, ids, False), reference(folder, ids, True)
    means = [normalize(rows.mean(axis=0, keepdims=True)) for rows in states]
    for pooling, (own, theirs, exact) in (("mean", means), ("token", map(normalize, states))):
        pairs = (own, exact), (theirs, exact), (own, theirs)
        figures = " ".join(f"{abs(a - b).max():.1e}" for a, b in pairs)
        click.echo(f"{name} {length} {pooling} {figures}")


@torch.inference_mode()
def reference(folder: Path, ids: Tensor, exact: bool) -> Floats:
    """Return the states of all tokens in transformers."""
    model = AutoModel.from_pretrained(folder, attn_implementation="sdpa").eval()
    if exact:
        model = model.double()
        turn(model)
    states: Floats = model(input_ids=ids[None]).last_hidden_state[0].numpy()
    return states


def turn(model: Any) -> None:
    """Make a model compute its angles in float64."""
    rotary, config = model.rotary_emb, model.config
    size = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads

    def angles(x: Tensor, position_ids: Tensor, layer_type: str = "") -> tuple[Tensor, Tensor]:
        parameters = config.rope_parameters
        base = (parameters[layer_type] if layer_type else parameters)["rope_theta"]
        exponents = torch.arange(0, size, 2, dtype=torch.float64) / size
        turned = position_ids[..., None].double() * base**-exponents
        both = torch.cat((turned, turned), dim=-1)
        return both.cos(), both.sin()

    rotary.forward = angles


def ours(folder: Path, ids: Tensor) -> Floats:
    """Return the states of all tokens in this project, in float32."""
    spec = families.read(folder)
    loaded = weights.load(folder, spec)
    inputs = InputTables.of(spec.config, loaded)
    batch = Batch.of([np.asarray(ids)])
    factory = KernelEncoderFactory(
        loaded, inputs, Calibration(lambda _: None), None, library.features()
    )
    encoder = factory.build("float32")
    return encoder.states(batch, spec.config.num_layers)


if __name__ == "__main__":
    main()
