"""The encoder that packs one layer at a time, against the encoder that packs all."""

import weakref

import numpy as np
import pytest

from embedwell_models.cpu_backend.encoder import KernelEncoder, LayerByLayerEncoder
from embedwell_models.cpu_backend.layer_weights import (
    LayerWeights,
    OneLayerWeights,
    has_input_gates,
)
from embedwell_models.cpu_backend.library import best_isa
from embedwell_models.cpu_backend.prepack import Packing
from embedwell_models.cpu_backend.quantization import InputObserver
from embedwell_models.encoder.threads import single_threaded
from tests.models.built import BUILT
from tests.models.cpu_backend.pair import Pair, batch
from tests.models.shapes import GATES, KINDS

ISA = best_isa("float32") or ""
LENGTHS = [17, 1, 90]

pytestmark = pytest.mark.skipif(not BUILT, reason="there are no kernels")


@pytest.mark.parametrize("kind", sorted({*KINDS} - {*GATES}))
def test_it_computes_the_same_bytes_and_observes_the_same_inputs(kind: str) -> None:
    pair, texts = Pair.of(ISA, "float32", kind), batch(LENGTHS)
    observers = InputObserver(), InputObserver()
    some, every = (Packing("float32", observer=observer) for observer in observers)
    encoder = LayerByLayerEncoder(pair.inputs, pair.weights, ISA, some)
    layers = LayerWeights(pair.config, pair.weights, ISA, every)
    whole = KernelEncoder(pair.inputs, layers, pair.bias, pair.factorized)
    with single_threaded():
        states, expected = (each.states(texts, len(layers.layers)) for each in (encoder, whole))
    assert states.tobytes() == expected.tobytes()
    magnitudes, others = (observer.magnitudes() for observer in observers)
    assert magnitudes.keys() == others.keys()
    assert all(sizes.tobytes() == others[name].tobytes() for name, sizes in magnitudes.items())
    vectors, expected = (each.vectors(texts, ["mean", "cls"]) for each in (encoder, whole))
    np.testing.assert_allclose(vectors, expected, atol=1e-5)


def test_only_one_layer_is_in_memory() -> None:
    pair = Pair.of(ISA, "float32", "bert")
    layers = OneLayerWeights(pair.config, pair.weights, ISA, Packing("float32"))
    layers.pack_only(0)
    first = weakref.ref(layers.packer_of_layer)
    layers.pack_only(1)
    assert first() is None


@pytest.mark.parametrize("kind", KINDS)
def test_models_whose_layers_read_the_embeddings_are_known(kind: str) -> None:
    assert has_input_gates(Pair.of(ISA, "float32", kind).weights) == (kind in GATES)
