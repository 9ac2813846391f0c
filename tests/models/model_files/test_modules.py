"""Tests of what follows the pooling, against sentence-transformers."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer import modules as st
from torch import nn

from embedwell_models import model_fingerprint
from embedwell_models.embedder import Embedder
from embedwell_models.errors import ModelError
from embedwell_models.model_description import ModelDescription
from embedwell_models.model_files.vector_modules import ACTIVATIONS
from tests.conftest import Folder as Write
from tests.conftest import precisions
from tests.models import tiny
from tests.models.families.exact import assert_near, exact_vectors
from tests.models.model_files.chains import SENTENCES, WIDTH, randomised
from tests.models.model_files.options import POOLING, TRANSFORMER

Save = Callable[[Sequence[nn.Module]], tuple[Path, Any]]


@pytest.fixture
def save(tmp_path: Path) -> Save:
    """Writes a tiny BERT with modules after it, of random weights."""
    tiny.write_bert(tmp_path / "bert")

    def write(after: Sequence[nn.Module]) -> tuple[Path, Any]:
        encoder = st.Transformer(str(tmp_path / "bert"))
        model = SentenceTransformer(modules=[encoder, *map(randomised, after)], device="cpu")
        model.save_pretrained(str(tmp_path / "model"), create_model_card=False)
        return tmp_path / "model", model

    return write


def load(folder: Path, dtype: str = "float32") -> Embedder:
    return Embedder.load(folder, device="cpu", dtype=dtype)


def rewrite(path: Path, **changed: object) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | changed), encoding="utf-8")


def mean(*modes: Any) -> nn.Module:
    pooling: nn.Module = st.Pooling(WIDTH, modes or "mean")
    return pooling


CHAINS: dict[str, Callable[[], list[nn.Module]]] = {
    **{
        name: lambda name=name: [  # type: ignore[misc]
            mean(),
            st.Dense(WIDTH, 10, activation_function=getattr(nn, name)()),
        ]
        for name in ACTIVATIONS
    },
    "no bias": lambda: [mean(), st.Dense(WIDTH, 64, bias=False, activation_function=nn.Identity())],
    "wider, narrower": lambda: [
        mean(),
        st.Dense(WIDTH, 96, bias=False, activation_function=nn.Identity()),
        st.Dense(96, WIDTH, bias=False, activation_function=nn.Identity()),
        st.Normalize(),
    ],
    "norm": lambda: [mean(), st.LayerNorm(WIDTH)],
    "norm, unit length": lambda: [mean(), st.LayerNorm(WIDTH), st.Normalize()],
    "unit length, product": lambda: [mean(), st.Normalize(), st.Dense(WIDTH, 7)],
    "residual": lambda: [
        mean(),
        st.Dense(WIDTH, 9, use_residual=True),
        st.Dense(9, 9, bias=False, use_residual=True),
    ],
    "two poolings": lambda: [mean("cls", "max"), st.Dense(2 * WIDTH, 9), st.LayerNorm(9)],
    "dropout": lambda: [mean(), st.Dropout(0.5), st.Dense(WIDTH, 5), st.Normalize()],
}


@pytest.mark.full(after=3)
@pytest.mark.parametrize("chain", CHAINS)
def test_every_chain_equals_sentence_transformers(save: Save, chain: str) -> None:
    folder, theirs = save(CHAINS[chain]())
    ours, expected = load(folder), exact_vectors(theirs, SENTENCES)
    assert ours.dim == expected.values.shape[1] == ModelDescription.read(folder).dim
    assert_near(ours.embed(SENTENCES), expected)


@pytest.mark.parametrize(
    "chain", ["GELU", "ELU", "Mish", "Softplus", "wider, narrower", "norm, unit length"]
)
def test_a_text_is_the_same_bits_alone_and_in_a_batch(save: Save, chain: str) -> None:
    ours = load(save(CHAINS[chain]())[0])
    alone = np.concatenate([ours.embed([text]) for text in SENTENCES])
    assert ours.embed(SENTENCES).tobytes() == alone.tobytes()


def test_a_precision_is_judged_by_final_vectors(tiny_bert: Write) -> None:
    # A product that lets nothing through but its bias: no precision can change the vector.
    product = {"type": "sentence_transformers.models.Dense", "path": "2_Dense"}
    folder = tiny_bert(
        {
            "modules.json": [TRANSFORMER, POOLING, product],
            "1_Pooling/config.json": {"pooling_mode": "mean"},
            "2_Dense/config.json": {"in_features": 64, "out_features": 4},
        },
        **{"hidden_size": 64, "num_attention_heads": 2, "intermediate_size": 128},
    )
    weights = {"linear.weight": torch.zeros(4, 64), "linear.bias": torch.ones(4)}
    save_file(weights, folder / "2_Dense" / "model.safetensors")
    trials = load(folder, "auto").trials
    assert {trial.dtype for trial in trials} == set(precisions())
    assert {trial.cosine for trial in trials} == {1.0}


def test_the_vectors_of_tokens_are_those_of_the_encoder(save: Save) -> None:
    ours = load(save(CHAINS["two poolings"]())[0])
    assert [state.shape[1] for state in ours.hidden([[2, 50, 3]])] == [WIDTH]


def test_weights_of_a_module_decide_the_fingerprint(save: Save) -> None:
    folder, _ = save(CHAINS["norm"]())
    before = model_fingerprint.fingerprint(ModelDescription.read(folder))
    assert model_fingerprint.fingerprint(ModelDescription.read(folder)) == before
    path = folder / "2_LayerNorm" / "model.safetensors"
    raw = bytearray(path.read_bytes())
    raw[-1] ^= 1
    path.write_bytes(raw)
    assert model_fingerprint.fingerprint(ModelDescription.read(folder)) != before


def test_an_encoder_in_a_folder_of_its_own_is_read_there(save: Save, tmp_path: Path) -> None:
    folder, _ = save([mean("cls"), st.Normalize()])
    inner = folder / "0_Transformer"
    inner.mkdir()
    for path in [*folder.glob("*.safetensors"), *folder.glob("*.json")]:
        if path.name not in ("modules.json", "config_sentence_transformers.json"):
            path.rename(inner / path.name)
    rewrite(inner / "sentence_bert_config.json", max_seq_length=17)
    modules = json.loads((folder / "modules.json").read_text())
    modules[0]["path"] = "0_Transformer"
    (folder / "modules.json").write_text(json.dumps(modules))
    theirs = SentenceTransformer(str(folder), device="cpu")
    ours = load(folder)
    assert ours.max_length == theirs.max_seq_length == 17
    assert_near(ours.embed(SENTENCES), exact_vectors(theirs, SENTENCES))


@pytest.mark.parametrize(
    ("path", "changed", "message"),
    [
        ("2_Dense", {"activation_function": "torch.nn.modules.activation.Softsign"}, "Softsign"),
        ("2_Dense", {"activation_function": "evil.code.Tanh"}, r"evil\.code\.Tanh.*supported: "),
        ("2_Dense", {"module_input_name": "token_embeddings"}, "module_input_name"),
        ("2_Dense", {"module_output_name": "other"}, "module_output_name"),
        ("2_Dense", {"in_features": 47}, r"2_Dense: it expects 47 dimensions, gets 48"),
        ("2_Dense", {"out_features": 6, "bias": True}, r"3_LayerNorm: it expects 5 .* gets 6"),
        ("3_LayerNorm", {"dimension": 6}, r"3_LayerNorm: it expects 6 dimensions, gets 5"),
        ("4_Normalize", {"module_input_name": "token_embeddings"}, "module_input_name"),
        (".", {"transformer_task": "text-generation"}, "transformer_task"),
        (".", {"module_output_name": "logits"}, "module_output_name"),
        (".", {"modality_config": {"message": {}}}, "modality_config"),
    ],
)
def test_an_option_that_is_not_implemented_is_refused_by_name(
    save: Save, path: str, changed: dict[str, object], message: str
) -> None:
    folder, _ = save([mean(), st.Dense(WIDTH, 5), st.LayerNorm(5), st.Normalize()])
    name = "sentence_bert_config.json" if path == "." else "config.json"
    rewrite(folder / path / name, **changed)
    with pytest.raises(ModelError, match=message):
        ModelDescription.read(folder)


@pytest.mark.parametrize("bias", [True, False])
def test_weights_that_are_not_as_the_config_tells_are_refused(save: Save, bias: bool) -> None:
    folder, _ = save([mean(), st.Dense(WIDTH, 5, bias=bias)])
    rewrite(folder / "2_Dense" / "config.json", bias=not bias)
    with pytest.raises(ModelError, match=r"2_Dense: the checkpoint has .*linear\.weight"):
        load(folder)


def test_a_weight_of_a_module_that_is_not_finite_is_named(save: Save) -> None:
    folder, _ = save([mean(), st.Dense(WIDTH, 5)])
    path = folder / "2_Dense" / "model.safetensors"
    tensors = load_file(path)
    tensors["linear.bias"][0] = float("inf")
    save_file(tensors, path)
    with pytest.raises(ModelError, match=r"2_Dense: linear\.bias has NaN or infinity"):
        load(folder)


def test_a_pickle_of_a_module_is_refused(save: Save) -> None:
    folder, _ = save([mean(), st.Dense(WIDTH, 5)])
    inner = folder / "2_Dense"
    (inner / "model.safetensors").rename(inner / "pytorch_model.bin")
    with pytest.raises(
        ModelError, match=r"2_Dense has no model\.safetensors, and pytorch_model\.bin is a pickle"
    ):
        load(folder)


@pytest.mark.parametrize("kind", ["BoW", "CNN", "LSTM", "SparseAutoEncoder"])
def test_a_module_that_is_not_implemented_is_refused_by_name(save: Save, kind: str) -> None:
    folder, _ = save([mean()])
    lines = [
        {"name": "0", "type": "sentence_transformers.models.Transformer", "path": ""},
        {"name": "1", "type": f"sentence_transformers.models.{kind}", "path": "1_Other"},
    ]
    (folder / "modules.json").write_text(json.dumps(lines))
    with pytest.raises(ModelError, match=rf"modules \['{kind}'\] are not supported; supported: "):
        ModelDescription.read(folder)


@pytest.mark.parametrize(
    ("kinds", "message"),
    [
        (["Transformer", "Dense", "Pooling"], "in this order are not supported"),
        (["Transformer", "WordWeights", "Pooling"], "in this order are not supported"),
        (["Transformer", "Pooling", "WordWeights"], "in this order are not supported"),
        (["Transformer", "WordEmbeddings", "Pooling"], "in this order are not supported"),
        (["WordEmbeddings", "SpladePooling"], "in this order are not supported"),
        (["Transformer", "Pooling", "Pooling"], "in this order"),
        (["Pooling", "Transformer"], "in this order"),
        (["StaticEmbedding", "Pooling"], "in this order"),
        ([], "in this order"),
    ],
)
def test_modules_in_an_order_without_meaning_are_refused(
    tmp_path: Path, kinds: list[str], message: str
) -> None:
    lines = [{"type": f"sentence_transformers.models.{kind}", "path": ""} for kind in kinds]
    (tmp_path / "modules.json").write_text(json.dumps(lines))
    with pytest.raises(ModelError, match=message):
        ModelDescription.read(tmp_path)


def test_code_of_a_model_is_not_run(tmp_path: Path) -> None:
    lines = [{"type": "custom_st.Encoder", "path": ""}]
    (tmp_path / "modules.json").write_text(json.dumps(lines))
    with pytest.raises(ModelError, match=r"\['custom_st\.Encoder'\].*remote code"):
        ModelDescription.read(tmp_path)


@pytest.mark.parametrize("path", ["/etc", "../other", "1/../../other"])
def test_a_path_outside_of_the_folder_is_refused(tmp_path: Path, path: str) -> None:
    lines = [{"type": "sentence_transformers.models.Transformer", "path": path}]
    (tmp_path / "modules.json").write_text(json.dumps(lines))
    with pytest.raises(ModelError, match="is not inside the model's folder"):
        ModelDescription.read(tmp_path)
