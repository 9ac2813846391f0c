"""ELMo compared with a computation from TensorFlow's variables, in double precision."""

import json
import re
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from embedwell_classic.convert.elmo import convert_elmo
from embedwell_models.embedder import Embedder
from embedwell_models.errors import ModelError
from embedwell_models.vectors import Doubles
from tests.models.elmo_files import CELLS, FILTERS, LAYERS, OPTIONS, WIDTH, write_elmo

LONG = "Donaudampfschifffahrtsgesellschaftskapitänsmützenfabrik"  # more than 48 bytes
TEXTS = ["The cat sat.", f"{LONG} x", "x", "日本 U.S. don't", "a " * 40, "a, b"]


def load(folder: Path) -> Embedder:
    return Embedder.load(folder, device="cpu")


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("elmo") / "small_weights.hdf5"
    write_elmo(path)
    return path


@pytest.fixture(scope="module")
def model(source: Path) -> Path:
    convert_elmo(source, source.with_name("model"))
    return source.with_name("model")


def sigmoid(x: Doubles) -> Doubles:
    return 1 / (1 + np.exp(-x))


def word_vector(file: Any, characters: list[int], activation: str) -> Doubles:
    word = [258, *characters[:48], 259]
    vectors = np.array(file["char_embed"], dtype=np.float64)[word + [260] * (50 - len(word))]
    parts = []
    for index, (width, _) in enumerate(FILTERS):
        weight, bias = (np.array(file[f"CNN/{kind}_cnn_{index}"]) for kind in "Wb")
        places = [
            np.einsum("ij,ijk->k", vectors[place : place + width], weight[0])
            for place in range(50 - width + 1)
        ]
        maximum = np.max(places, axis=0) + bias
        parts.append(np.maximum(maximum, 0) if activation == "relu" else np.tanh(maximum))
    x: Doubles = np.concatenate(parts)
    for index in range(2):
        transform, carry = (
            x @ np.float64(file[f"CNN_high_{index}/W_{part}"])
            + np.float64(file[f"CNN_high_{index}/b_{part}"])
            for part in ("transform", "carry")
        )
        x = sigmoid(carry) * np.maximum(transform, 0) + (1 - sigmoid(carry)) * x
    projected: Doubles = x @ np.float64(file["CNN_proj/W_proj"]) + file["CNN_proj/b_proj"]
    return projected


def run(group: Any, inputs: list[Doubles]) -> list[Doubles]:
    """Run a layer in one direction by the formulas of TensorFlow's LSTMCell."""
    weight, bias, project = (np.float64(group[name]) for name in ("W_0", "B", "W_P_0"))
    cell, state, states = np.zeros(CELLS), np.zeros(WIDTH), []
    for x in inputs:
        i, j, f, o = np.split(np.concatenate([x, state]) @ weight + bias, 4)
        cell = np.clip(sigmoid(f + 1) * cell + sigmoid(i) * np.tanh(j), -0.8, 0.8)
        state = np.clip(sigmoid(o) * np.tanh(cell) @ project, -0.3, 0.3)
        states.append(state)
    return states


def layers(path: Path, text: str, activation: str = "relu") -> list[Doubles]:
    """The vectors of words and the states after each layer: each (words, 2 WIDTH)."""
    words = re.findall(r"don't|U\.S|\w+|[^\w\s]", text)
    with h5py.File(path) as file:
        spelled = [[256], *([*word.encode()] for word in words), [257]]
        inputs = [word_vector(file, characters, activation) for characters in spelled]
        results: list[Doubles] = [np.concatenate([inputs, inputs], axis=1)]
        both = [inputs, inputs[::-1]]
        for layer in range(LAYERS):
            outputs = []
            for direction, sequence in enumerate(both):
                group = file[f"RNN_{direction}/RNN/MultiRNNCell/Cell{layer}/LSTMCell"]
                new = run(group, sequence)
                skips = zip(new, sequence, strict=True)
                outputs.append([a + b for a, b in skips] if layer else new)
            both = outputs
            results.append(np.concatenate([both[0], both[1][::-1]], axis=1))
    return [result[1:-1] for result in results]


@pytest.mark.parametrize("text", TEXTS)
def test_every_layer_equals_the_formulas(source: Path, model: Path, text: str) -> None:
    ours, expected = load(model), layers(source, text)
    (ids,) = ours.tokenize([text])
    first = np.array(ids) < 256
    assert first.sum() == len(expected[0])
    for layer, states in enumerate([*expected, np.mean(expected, axis=0)]):
        (hidden,) = ours.hidden([ids], layer)
        np.testing.assert_allclose(hidden[first], states, atol=2e-6)
        # All ids of a word have its states.
        np.testing.assert_array_equal(hidden, hidden[first][first.cumsum() - 1])
    np.testing.assert_array_equal(ours.hidden([ids], "token")[0], ours.hidden([ids], 0)[0])


def test_a_text_has_the_mean_of_its_words_and_the_same_bits_in_every_batch(
    source: Path, model: Path
) -> None:
    ours = load(model)
    vectors = ours.embed(TEXTS)
    expected = [np.mean(layers(source, text), axis=(0, 1)) for text in TEXTS]
    np.testing.assert_allclose(vectors, expected, atol=2e-6)
    alone = np.concatenate([ours.embed([text]) for text in TEXTS])
    assert vectors.tobytes() == alone.tobytes()
    outputs = ours.outputs(ours.tokenize(TEXTS), ["dense"])
    np.testing.assert_array_equal([output.dense for output in outputs], vectors)


def test_a_prompt_is_left_out_of_the_mean_word_by_word(model: Path) -> None:
    ours = load(model)
    ids, prompt = ours.tokenize(["query cat"])[0], len("query")
    (states,) = ours.hidden([ids])
    (vector,) = ours.encode([ids], prompt_token_counts=[prompt])
    np.testing.assert_array_equal(vector, states[prompt])


def test_learned_weights_of_the_layers_count(tmp_path: Path) -> None:
    options = {**OPTIONS, "scalar_mix_parameters": [0.5, -0.3, 0.8]}
    options["char_cnn"] = {**OPTIONS["char_cnn"], "activation": "tanh"}
    write_elmo(tmp_path / "elmo_weights.hdf5", options)
    convert_elmo(tmp_path / "elmo_weights.hdf5", tmp_path / "model")
    powers = np.exp([0.5, -0.3, 0.8])
    parts = layers(tmp_path / "elmo_weights.hdf5", "a cat", "tanh")
    expected = np.tensordot(powers / powers.sum(), np.array(parts), 1).mean(axis=0)
    np.testing.assert_allclose(load(tmp_path / "model").embed(["a cat"])[0], expected, atol=2e-6)


def test_punctuation_may_stay_with_its_word(source: Path, tmp_path: Path) -> None:
    convert_elmo(source, tmp_path / "model")
    path = tmp_path / "model" / "character_tokenizer.json"
    path.write_text('{"split_punctuation": false}', encoding="utf-8")
    tokens = load(tmp_path / "model").tokenizer.tokens("it 's, so")
    assert [token.text for token in tokens if token.id < 256] == ["it", "'s,", "so"]


def changed(part: str, **values: Any) -> dict[str, Any]:
    return {**OPTIONS, part: {**OPTIONS[part], **values}}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "'lstm'"),
        (changed("lstm", use_skip_connections=False), "use_skip_connections"),
        (changed("lstm", n_layers=3), "component not found"),
        (changed("char_cnn", activation="gelu"), "activation 'gelu'"),
        (changed("char_cnn", n_characters=300), "n_characters"),
    ],
)
def test_other_options_are_refused_by_name(
    tmp_path: Path, options: dict[str, Any], message: str
) -> None:
    path = tmp_path / "a_weights.hdf5"
    write_elmo(path, options)
    with pytest.raises(ModelError, match=rf"a_weights\.hdf5.*{message}"):
        convert_elmo(path, tmp_path / "model")
    assert not (tmp_path / "model").exists()


def test_a_missing_or_damaged_file_is_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "elmo_weights.hdf5"
    path.write_bytes(b"no HDF5")
    with pytest.raises(ModelError, match=r"options\.json is missing"):
        convert_elmo(path, tmp_path / "model")
    (tmp_path / "options.json").write_text(json.dumps(OPTIONS), encoding="utf-8")
    with pytest.raises(ModelError, match=r"elmo_weights\.hdf5 cannot be converted"):
        convert_elmo(path, tmp_path / "model")


def test_a_number_that_is_not_finite_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "elmo_weights.hdf5"
    write_elmo(path)
    with h5py.File(path, "r+") as file:
        file["CNN_high_1/b_carry"][3] = np.inf
    with pytest.raises(ModelError, match=r"highway_1\.carry\.bias of elmo_weights\.hdf5 has NaN"):
        convert_elmo(path, tmp_path / "model")
