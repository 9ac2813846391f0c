"""Tests of what follows the pooling, against sentence-transformers."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from sentence_transformers import SentenceTransformer, SparseEncoder
from sentence_transformers import sparse_encoder as sparse
from sentence_transformers.base.modules import Module, Normalize, Transformer
from sentence_transformers.cross_encoder.modules import LogitScore
from sentence_transformers.multi_vector_encoder.modules import MultiVectorMask
from sentence_transformers.sentence_transformer import modules as st
from sentence_transformers.sparse_encoder.modules import SpladePooling
from torch import nn
from transformers import BertForMaskedLM

from embedwell_models.description import model_fingerprint
from embedwell_models.description.model_description import ModelDescription
from embedwell_models.embedder import Embedder
from embedwell_models.errors import ModelError
from embedwell_models.model_files import modules
from embedwell_models.model_files.vector_modules import ACTIVATIONS
from tests.conftest import Folder as Write
from tests.conftest import precisions
from tests.models import tiny
from tests.models.families.exact import assert_near, exact_vectors
from tests.models.model_files.chains import SENTENCES, WIDTH, randomised
from tests.models.model_files.options import POOLING, TRANSFORMER, configure
from tests.models.tiny import reference, write_tokenizer

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


def test_an_adapter_next_to_the_weights_is_refused(tiny_bert: Write) -> None:
    folder = tiny_bert({"adapter_config.json": {"peft_type": "LORA", "r": 8}})
    with pytest.raises(ModelError, match=r"adapter_config\.json: .*LORA.* next to a whole model"):
        ModelDescription.read(folder)


def test_weights_that_are_quantised_in_an_unknown_way_are_refused(tiny_bert: Write) -> None:
    folder = configure(tiny_bert(), quantization_config={"quant_method": "hqq"})
    with pytest.raises(ModelError, match=r"quantization_config\.quant_method = 'hqq' is not"):
        ModelDescription.read(folder)


def test_a_sparse_autoencoder_over_dense_vectors_is_refused(tmp_path: Path) -> None:
    head = BertForMaskedLM(reference().config)
    head.save_pretrained(tmp_path / "masked")
    write_tokenizer(tmp_path / "masked")
    modules: Callable[..., Any] = sparse.modules.SparseAutoEncoder
    dense = SentenceTransformer(str(tmp_path / "masked"), device="cpu")
    model = SparseEncoder(modules=[*dense, modules(48, hidden_dim=64, k=4)], device="cpu")
    model.save_pretrained(str(tmp_path / "model"), create_model_card=False)
    with pytest.raises(ModelError, match="SparseAutoEncoder"):
        ModelDescription.read(tmp_path / "model")


def test_a_card_of_another_kind_over_dense_modules_is_refused(tiny_bert: Write) -> None:
    folder = tiny_bert({"config_sentence_transformers.json": {"model_type": "SparseEncoder"}})
    with pytest.raises(ModelError, match="model_type = 'SparseEncoder' is not supported"):
        ModelDescription.read(folder)


@pytest.mark.parametrize("kind", ["MultiVectorEncoder", "ColBERT"])
def test_a_pooling_in_a_multi_vector_model_is_refused(tiny_bert: Write, kind: str) -> None:
    card = {"config_sentence_transformers.json": {"model_type": kind}}
    folder = tiny_bert({**card, "modules.json": [TRANSFORMER, POOLING]})
    with pytest.raises(ModelError, match=r"'Pooling'.* of a multi-vector model are not supported"):
        ModelDescription.read(folder)


def test_a_card_of_a_dense_model_is_read(tiny_bert: Write) -> None:
    card = {"model_type": "SentenceTransformer"}
    ModelDescription.read(tiny_bert({"config_sentence_transformers.json": card}))


KINDS: dict[str, Any] = {
    kind.__name__: kind
    for kind in (
        *(st.Pooling, st.Dense, st.LayerNorm, st.Dropout, Normalize, st.WordWeights),
        *(LogitScore, MultiVectorMask, SpladePooling, st.WeightedLayerPooling),
    )
}


def test_every_key_that_a_module_writes_is_known() -> None:
    assert KINDS.keys() == modules.MODULE_KEYS.keys()
    for name, kind in KINDS.items():
        assert issubclass(kind, Module)
        assert {*kind.config_keys} <= modules.MODULE_KEYS[name], name
    assert {*Transformer.config_keys} <= modules.TRANSFORMER_KEYS


@pytest.mark.parametrize(
    "name",
    [
        "sentence_bert_config.json",
        "1_Pooling/config.json",
        "config_sentence_transformers.json",
    ],
)
def test_another_key_is_refused_by_its_name_and_file(tiny_bert: Write, name: str) -> None:
    folder = tiny_bert({"sentence_bert_config.json": {}, "config_sentence_transformers.json": {}})
    path: Path = folder / name
    stated = json.loads(path.read_text())
    path.write_text(json.dumps({**stated, "layer": None}))
    ModelDescription.read(folder)
    path.write_text(json.dumps({**stated, "layer": -2}))
    with pytest.raises(ModelError, match=rf"{name}: layer = -2 is not known.* Remove the key"):
        ModelDescription.read(folder)


def test_another_key_of_an_entry_of_modules_json_is_refused(tiny_bert: Write) -> None:
    folder = tiny_bert({"sentence_bert_config.json": {}})
    path: Path = folder / "modules.json"
    entries = json.loads(path.read_text())
    path.write_text(json.dumps([{**entry, "scale": 2} for entry in entries]))
    with pytest.raises(ModelError, match=r"modules\.json: scale = 2 is not known"):
        ModelDescription.read(folder)
