"""Tests of which pooling a folder gets, against sentence-transformers."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import transformers
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer import modules as st
from transformers import AutoModelForCausalLM, BertForMaskedLM, GPT2LMHeadModel

from embedwell_models import Embedder
from embedwell_models.config.model_options import MODES, ModelOptions
from embedwell_models.description import model_fingerprint
from embedwell_models.description.model_description import ModelDescription
from embedwell_models.errors import ModelError
from embedwell_models.vectors import Floats
from tests.conftest import Folder as Write
from tests.models.families.checkpoint import Case
from tests.models.families.checkpoint import write as write_case
from tests.models.families.exact import Expected, assert_near, exact_vectors
from tests.models.families.files import edit as edit_config
from tests.models.model_files.chains import SENTENCES, WIDTH, write_layer_weights
from tests.models.model_files.options import NORMALIZE, POOLING, TRANSFORMER
from tests.models.model_files.options import configure as changed
from tests.models.tiny import VOCABULARY, write_tokenizer

TEXTS = ["the license", "a copyright of this work, such as it is", "x", "you " * 30]
SIZES = {
    "vocab_size": len(VOCABULARY),
    "hidden_size": 64,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "intermediate_size": 96,
}
SPECIAL = {f"{name}_token_id": 1 for name in ("pad", "bos", "eos")}
CLS = {"word_embedding_dimension": 48, "pooling_mode_cls_token": True}


def write(folder: Path, model_type: str, model: Any, **options: Any) -> Path:
    write_case(Case(model_type, {**SPECIAL, **options}, SIZES, model=model), folder)
    write_tokenizer(folder)
    return folder


def embed(folder: Path, **options: Any) -> Floats:
    return Embedder.load(folder, device="cpu", dtype="float32", **options).embed(TEXTS)


def theirs(folder: Path) -> Expected:
    return exact_vectors(SentenceTransformer(str(folder), device="cpu"), TEXTS, batch_size=1)


CAUSAL: list[tuple[str, dict[str, Any], str]] = [
    ("qwen3", {"num_key_value_heads": 2}, "lasttoken"),
    ("llama", {}, "lasttoken"),
    ("llama", {"is_causal": False}, "mean"),
]


@pytest.mark.parametrize(("model_type", "options", "mode"), CAUSAL, ids=str)
def test_a_causal_model_gives_the_last_token_as_in_sentence_transformers(
    model_type: str, options: dict[str, Any], mode: str, tmp_path: Path
) -> None:
    folder = write(tmp_path, model_type, AutoModelForCausalLM.from_config, **options)
    assert_near(embed(folder), theirs(folder))
    recipe = ModelDescription.read(folder).recipe
    assert (recipe.pooling, recipe.pooling_source) == ((mode,), "assumed")


def test_a_causal_class_whose_code_sees_both_sides_gives_the_mean(tmp_path: Path) -> None:
    folder = write(tmp_path, "llama", AutoModelForCausalLM.from_config, is_causal=False)
    expected = theirs(folder)
    edit_config(folder, "is_causal", auto_map={"AutoModel": "modeling.ReasonIRModel"})
    assert_near(embed(folder), expected)


def test_a_causal_model_of_another_name_gives_the_mean(tmp_path: Path) -> None:
    folder = write(tmp_path, "gpt2", GPT2LMHeadModel)
    assert_near(embed(folder), theirs(folder))
    assert ModelDescription.read(folder).recipe.pooling == ("mean",)


def test_an_encoder_gives_the_mean(tiny_bert: Write) -> None:
    folder = tiny_bert()
    assert_near(embed(folder), theirs(folder))
    recipe = ModelDescription.read(folder).recipe
    assert (recipe.pooling, recipe.pooling_source) == (("mean",), "assumed")


@pytest.mark.parametrize(
    "task",
    [
        *("TokenClassification", "QuestionAnswering"),
        *("MultipleChoice", "NextSentencePrediction"),
    ],
)
@pytest.mark.parametrize("pooling", ["auto", "mean"])
def test_a_model_for_another_task_is_refused_by_name(
    task: str, pooling: str, tmp_path: Path
) -> None:
    folder = write(tmp_path, "bert", getattr(transformers, f"BertFor{task}"))
    with pytest.raises(ModelError, match=rf"config\.json: BertFor{task} is a .*not an embedder"):
        ModelDescription.read(folder, ModelOptions(pooling=pooling))


def test_a_masked_language_model_is_refused_until_its_pooling_is_named(tmp_path: Path) -> None:
    folder = write(tmp_path, "bert", BertForMaskedLM)
    with pytest.raises(ModelError, match=r"BertForMaskedLM .*EMBEDWELL_POOLING=splade.*=mean"):
        ModelDescription.read(folder)
    assert_near(embed(folder, pooling="mean"), theirs(folder))


@pytest.mark.full(after=2)
@pytest.mark.parametrize("mode", MODES)
def test_a_pooling_that_is_named_goes_before_that_of_the_files(mode: str, tiny_bert: Write) -> None:
    files = {"modules.json": [TRANSFORMER, POOLING, NORMALIZE]}
    stated = tiny_bert({**files, "1_Pooling/config.json": {"pooling_mode": mode}})
    other = "cls" if mode == "mean" else "mean"
    folder = tiny_bert({**files, "1_Pooling/config.json": {"pooling_mode": other}})
    np.testing.assert_array_equal(embed(folder, pooling=mode), embed(stated))
    assert (
        ModelDescription.read(folder, ModelOptions(pooling=mode)).recipe.pooling_source == "setting"
    )
    assert ModelDescription.read(folder).recipe.pooling_source == "model"


def test_a_head_of_another_task_is_no_fault_where_modules_are_listed(tiny_bert: Write) -> None:
    files = {"modules.json": [TRANSFORMER, POOLING], "1_Pooling/config.json": CLS}
    folder = changed(tiny_bert(files), architectures=["BertForSequenceClassification"])
    assert_near(embed(folder), theirs(folder))


@pytest.mark.parametrize("after", [[], [NORMALIZE]], ids=["alone", "normalised"])
def test_modules_without_a_pooling_are_refused_until_one_is_named(
    after: list[dict[str, str]], tiny_bert: Write
) -> None:
    folder = tiny_bert({"modules.json": [TRANSFORMER, *after]})
    with pytest.raises(KeyError, match="sentence_embedding"):
        theirs(folder)
    with pytest.raises(ModelError, match=r"modules\.json has no Pooling: .*EMBEDWELL_POOLING"):
        ModelDescription.read(folder)
    assert ModelDescription.read(folder, ModelOptions(pooling="cls")).recipe.pooling == ("cls",)


def test_an_unknown_pooling_is_refused_with_those_there_are(tiny_bert: Write) -> None:
    with pytest.raises(ModelError, match=r"pooling 'no_such_mode' is not supported; .*'lasttoken'"):
        ModelDescription.read(tiny_bert(), ModelOptions(pooling="no_such_mode"))


PART = "1_WeightedLayerPooling"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A model with weights of the states after each layer."""
    return write_layer_weights(tmp_path, [st.Pooling(WIDTH, "mean")], 1)


def edit(path: Path, **values: Any) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | values), encoding="utf-8")


def test_the_module_has_no_effect_unless_all_states_are_asked_for(folder: Path) -> None:
    changed(folder, output_hidden_states=False)
    assert ModelDescription.read(folder).recipe.layer_weights is None
    expected = exact_vectors(SentenceTransformer(str(folder), device="cpu"), SENTENCES)
    ours = Embedder.load(folder, device="cpu", dtype="float32").embed(SENTENCES)
    assert_near(ours, expected)


def test_the_weights_decide_the_fingerprint(folder: Path) -> None:
    before = model_fingerprint.fingerprint(ModelDescription.read(folder))
    path = folder / PART / "model.safetensors"
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    assert model_fingerprint.fingerprint(ModelDescription.read(folder)) != before


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_hidden_layers": 12}, "num_hidden_layers = 12"),
        ({"layer_start": 9}, "layer_start = 9"),
        ({"layer_power": 2}, "layer_power = 2 is not known"),
    ],
    ids=["layers", "start", "unknown"],
)
def test_other_options_are_refused_by_name(
    options: dict[str, Any], message: str, folder: Path
) -> None:
    edit(folder / PART / "config.json", **options)
    with pytest.raises(ModelError, match=message):
        ModelDescription.read(folder)


def test_the_module_without_a_pooling_is_refused(folder: Path) -> None:
    path = folder / "modules.json"
    path.write_text(json.dumps(json.loads(path.read_text())[:2]), encoding="utf-8")
    with pytest.raises(ModelError, match=r"WeightedLayerPooling.* in this order"):
        ModelDescription.read(folder)
