"""Tests of Llama and Mistral against transformers."""

import logging
import shutil
import tomllib
from pathlib import Path

import pytest

from embedwell_models import Embedder, families
from embedwell_models.errors import ModelError
from embedwell_models.families import unread_config
from tests.models.families.checkpoint import (
    SIZES,
    Case,
    assert_case_refused,
    assert_equal_states,
    assert_same_bits,
    assert_same_when_renamed,
    windows,
    write,
)
from tests.models.families.files import edit
from tests.models.tiny import VOCABULARY, write_tokenizer

SCALINGS: list[dict[str, object]] = [
    {"rope_type": "linear", "factor": 4.0},
    {"rope_type": "dynamic", "factor": 4.0},
    {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16},
    {
        "rope_type": "llama3",
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 32,
    },
]
SCALED = [
    Case(
        "llama",
        {
            "rope_parameters": {"rope_theta": 500.0, **scaling},
            "max_position_embeddings": 24 if scaling["rope_type"] == "dynamic" else 64,
        },
    )
    for scaling in SCALINGS
]
MISTRAL = {"num_key_value_heads": 2, "sliding_window": 5}
MINISTRAL3 = {
    **{"num_key_value_heads": 2, "head_dim": 16, "max_position_embeddings": 1024},
    "rope_parameters": {
        **{"rope_type": "yarn", "rope_theta": 500.0, "factor": 16.0, "mscale": 1.0},
        **{"mscale_all_dim": 1.0, "original_max_position_embeddings": 64},
        "llama_4_scaling_beta": 0.1,
    },
}
CASES = [
    Case("llama", {"num_key_value_heads": 2, "rms_norm_eps": 0.05}),
    Case("llama", {"attention_bias": True, "mlp_bias": True, "head_dim": 24}),
    Case("llama", {"is_causal": False, "hidden_act": "gelu"}),
    Case("mistral", MISTRAL),
    Case("mistral", {**MISTRAL, "is_causal": False}),
    Case("mistral", {**MISTRAL, "sliding_window": None, "head_dim": 24}),
    Case("ministral3", MINISTRAL3),
    Case("ministral3", {**MINISTRAL3, "sliding_window": 5}),
    *SCALED,
]
cases = pytest.mark.parametrize("case", CASES, ids=str)


@cases
@pytest.mark.full(after=1)
def test_every_layer_equals_transformers(case: Case, tmp_path: Path) -> None:
    assert_equal_states(write(case, tmp_path), tmp_path)


@cases
@pytest.mark.full(after=2)
def test_a_text_is_the_same_bits_in_every_batch(case: Case, tmp_path: Path) -> None:
    write(case, tmp_path)
    assert_same_bits(tmp_path)


@pytest.mark.parametrize("kind", ["type", "rope_type"])
@pytest.mark.parametrize("case", SCALED, ids=str)
def test_the_older_keys_of_rotation_say_the_same(case: Case, kind: str, tmp_path: Path) -> None:
    write(case, tmp_path)
    today = families.read(tmp_path)
    scaling = dict(case.options["rope_parameters"])
    older = {kind: scaling.pop("rope_type"), **scaling}
    theta = older.pop("rope_theta")
    edit(tmp_path, "rope_parameters", rope_theta=theta, rope_scaling=older)
    assert families.read(tmp_path) == today


def test_a_checkpoint_with_a_head_and_stored_angles_has_the_same_weights(tmp_path: Path) -> None:
    write(Case("llama"), tmp_path)
    unused = ("lm_head.weight", "score.weight", "model.layers.0.self_attn.rotary_emb.inv_freq")
    assert_same_when_renamed(tmp_path, lambda name: f"model.{name}", unused)


def test_a_window_that_is_not_told_is_that_of_transformers(tmp_path: Path) -> None:
    write(Case("mistral", MISTRAL), tmp_path)
    edit(tmp_path, "sliding_window")
    assert windows(tmp_path) == [4095] * 3


def test_a_ministral3_reads_no_text_whose_queries_would_be_scaled(tmp_path: Path) -> None:
    write(Case("ministral3", MINISTRAL3), tmp_path)
    assert families.read(tmp_path).config.max_tokens == 64
    edit(tmp_path, original_max_position_embeddings=32)
    assert families.read(tmp_path).config.max_tokens == 32


BIDIRECTIONAL = {
    "model_type": "llama_bidirec",
    "architectures": ["LlamaBidirectionalModel"],
    "auto_map": {"AutoModel": "llama_bidirectional_model.LlamaBidirectionalModel"},
    "pooling": "avg",
}


def test_nvidias_llama_is_one_in_which_each_token_sees_all_others(tmp_path: Path) -> None:
    model = write(Case("llama", {"num_key_value_heads": 2, "is_causal": False}), tmp_path)
    edit(tmp_path, "is_causal", **BIDIRECTIONAL)
    assert_equal_states(model, tmp_path)


@pytest.mark.parametrize("options", [{"is_causal": True}, {"pooling": "last"}])
def test_nvidias_llama_of_another_kind_is_refused(
    options: dict[str, object], tmp_path: Path
) -> None:
    write(Case("llama"), tmp_path)
    edit(tmp_path, **{**BIDIRECTIONAL, **options})
    with pytest.raises(ModelError, match=next(iter(options))):
        families.read(tmp_path)


OWN_CODE = {
    "architectures": ["LlamaOwnModel"],
    "auto_map": {"AutoModel": "modeling_own.MistralModel"},
}


@pytest.mark.parametrize("key", OWN_CODE)
def test_code_that_may_see_both_sides_is_refused_until_the_config_tells(
    key: str, tmp_path: Path
) -> None:
    write(Case("llama"), tmp_path)
    edit(tmp_path, **{key: OWN_CODE[key]})
    with pytest.raises(ModelError, match=f"{key} = .* is_causal"):
        families.read(tmp_path)
    edit(tmp_path, is_causal=False)
    assert not families.read(tmp_path).config.causal


@pytest.mark.parametrize(
    "options",
    [
        {"architectures": ["LlamaBiModel"]},
        {"auto_map": {"AutoModel": "modeling_drama.DramaModel"}},
        {"auto_map": {"AutoModel": "NovaSearch/stella_en_1.5B_v5--modeling_qwen.Qwen2Model"}},
    ],
    ids=str,
)
def test_code_that_is_known_to_see_both_sides_needs_no_key(
    options: dict[str, object], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    sizes = {**SIZES, "vocab_size": len(VOCABULARY)}
    model = write(Case("llama", {"is_causal": False}, sizes), tmp_path)
    write_tokenizer(tmp_path)
    edit(tmp_path, "is_causal", **options)
    assert_equal_states(model, tmp_path)
    with caplog.at_level(logging.INFO):
        Embedder.load(tmp_path, pooling="mean", dtype="float32")
    assert "each token attends to the whole text, as in the code of" in caplog.text
    edit(tmp_path, is_causal=True)
    read = families.read(tmp_path)
    assert read.config.causal and not read.bidirectional_code


# What is known of the config.json of decoders whose class has the name of transformers' own.
QWEN2_CODE = {
    "architectures": ["Qwen2ForCausalLM"],
    "auto_map": {
        "AutoModel": "modeling_qwen.Qwen2Model",
        "AutoModelForCausalLM": "modeling_qwen.Qwen2ForCausalLM",
    },
}
MISTRAL_CODE = {
    "architectures": ["MistralForCausalLM"],
    "auto_map": {"AutoModel": "modeling_gritlm7b.MistralModel"},
}
REPOSITORIES = {
    "Alibaba-NLP/gte-Qwen2-7B-instruct": ("qwen2", QWEN2_CODE),
    "GritLM/GritLM-7B": ("mistral", MISTRAL_CODE),
    "NovaSearch/stella_en_1.5B_v5": ("qwen2", QWEN2_CODE),
    "dunzhang/stella_en_1.5B_v5": ("qwen2", QWEN2_CODE),
    "infly/inf-retriever-v1": ("qwen2", QWEN2_CODE),
}


def test_every_repository_that_is_known_by_its_name_is_tested() -> None:
    file = Path(unread_config.__file__).with_name("bidirectional_code.toml")
    assert REPOSITORIES.keys() == {*tomllib.loads(file.read_text())["repositories"]}


@pytest.mark.parametrize("repository", REPOSITORIES)
def test_a_repository_of_the_hub_is_known_by_its_folder(repository: str, tmp_path: Path) -> None:
    (model_type, options), name = REPOSITORIES[repository], repository.replace("/", "--")
    write(Case(model_type, {"num_key_value_heads": 2}), tmp_path / "model")
    edit(tmp_path / "model", **options)
    with pytest.raises(ModelError, match=r"auto_map = .* with is_causal"):
        families.read(tmp_path / "model")
    folders = [f"models--{name}/snapshots/0a1b", f"converted/{name}/0a1b", repository]
    for folder in (*folders, repository.partition("/")[2]):
        shutil.copytree(tmp_path / "model", tmp_path / folder)
        read = families.read(tmp_path / folder)
        assert not read.config.causal
        assert read.bidirectional_code.partition("/")[2] == repository.partition("/")[2]
        edit(tmp_path / folder, is_causal=True)
        assert families.read(tmp_path / folder).config.causal


def test_a_folder_s_name_alone_changes_no_model_without_own_code(tmp_path: Path) -> None:
    write(Case("qwen2", {"num_key_value_heads": 2}), tmp_path / "inf-retriever-v1")
    assert families.read(tmp_path / "inf-retriever-v1").config.causal


@pytest.mark.parametrize("value", [True, False])
def test_a_descendant_of_gte_qwen2_follows_its_key(value: bool, tmp_path: Path) -> None:
    for name in ("Qodo/Qodo-Embed-1-1.5B", "infly/inf-retriever-v1-1.5b"):
        folder = tmp_path / f"models--{name.replace('/', '--')}" / "snapshots" / "0a1b"
        write(Case("qwen2", {"num_key_value_heads": 2}), folder)
        edit(folder, **QWEN2_CODE)
        with pytest.raises(ModelError, match=r"auto_map = .* with is_causal"):
            families.read(folder)
        edit(folder, is_causal=value)
        assert families.read(folder).config.causal == value


@pytest.mark.parametrize(
    ("model_type", "options", "named"),
    [
        ("llama", {"sliding_window": 8}, "sliding_window"),
        ("llama", {"is_causal": "no"}, "is_causal"),
        ("llama", {"hidden_act": "xielu"}, "hidden_act = 'xielu'"),
        ("llama", {"rope_parameters": {"rope_type": "proportional"}}, "rope_type = 'proportional'"),
        ("mistral", {"layer_types": ["full_attention"] * 3}, "layer_types"),
        *(
            (name, {"use_bidirectional_attention": True}, "use_bidirectional_attention")
            for name in ("llama", "mistral", "qwen2", "qwen3")
        ),
    ],
)
def test_an_option_that_is_not_implemented_is_refused_by_name(
    model_type: str, options: dict[str, object], named: str, tmp_path: Path
) -> None:
    assert_case_refused(Case(model_type, {"num_key_value_heads": 2}), options, tmp_path, named)


def test_attention_to_both_sides_is_computed_where_both_keys_ask_for_it(tmp_path: Path) -> None:
    write(Case("llama"), tmp_path)
    edit(tmp_path, use_bidirectional_attention=True, is_causal=False)
    assert not families.read(tmp_path).config.causal
