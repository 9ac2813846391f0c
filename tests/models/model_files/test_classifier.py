"""Rerankers and classifiers against sentence-transformers' CrossEncoder."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sentence_transformers import CrossEncoder
from tokenizers import Tokenizer, processors
from transformers import AutoConfig, XLNetTokenizer

from embedwell_models import Embedder
from embedwell_models.description.model_description import ModelDescription
from embedwell_models.errors import ModelError
from embedwell_models.vectors import normalize
from tests.conftest import precisions
from tests.models.cross_encoder import (
    OPTIONS,
    configure_tokenizer,
    without_options_of_heads,
    write_cross_encoder,
)
from tests.models.families.compiled import LEAST
from tests.models.families.exact import Expected, assert_near, exactly
from tests.models.tiny import VOCABULARY

PAIRS = [
    ("the license", "a copyright of this work"),
    ("x", "you " * 300),
    ("of a " * 100, "by any"),
    ("by any " * 100, "of a " * 100),
    ("", "and"),
    ("the the", ""),
]


def load(folder: Path, dtype: str = "float32") -> Embedder:
    return Embedder.load(folder, device="cpu", dtype=dtype)


def reference(folder: Path, **options: Any) -> Expected:
    """Scores of PAIRS one by one, as sentence-transformers truncates and computes them."""
    predict: Any = CrossEncoder(str(folder), device="cpu").predict
    return exactly(predict)(PAIRS, batch_size=1, **options)


def edit(path: Path, **values: Any) -> None:
    content = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    path.write_text(json.dumps({**content, **values}), encoding="utf-8")


@pytest.mark.parametrize("model_type", OPTIONS)
@pytest.mark.full(after=6)
def test_logits_of_every_family_equal_those_of_sentence_transformers(
    model_type: str, tmp_path: Path
) -> None:
    folder = write_cross_encoder(tmp_path, model_type=model_type)
    expected = reference(folder, activation_fn=torch.nn.Identity())
    scores = load(folder).score(PAIRS)
    assert scores.shape == (len(PAIRS), 1)
    assert_near(scores[:, 0], expected)


@pytest.mark.parametrize("model_type", OPTIONS)
@pytest.mark.full(after=2)
def test_a_head_without_options_has_those_of_its_class(model_type: str, tmp_path: Path) -> None:
    folder = write_cross_encoder(tmp_path, model_type=model_type)
    stated, scores = AutoConfig.from_pretrained(folder), load(folder).score(PAIRS)
    without_options_of_heads(folder)
    assert AutoConfig.from_pretrained(folder).to_dict() == stated.to_dict()
    assert np.array_equal(load(folder).score(PAIRS), scores)


@pytest.mark.parametrize("model_type", ["gpt2", "llama", "mpt"])
def test_the_last_token_of_a_decoder_is_not_the_one_that_pads_texts(
    model_type: str, tmp_path: Path
) -> None:
    end = VOCABULARY["[SEP]"]
    folder = write_cross_encoder(tmp_path, model_type=model_type, pad_token_id=end)
    expected = reference(folder, activation_fn=torch.nn.Identity())
    scores = load(folder).score(PAIRS)
    assert_near(scores[:, 0], expected)
    assert np.array_equal(scores[:1], load(folder).score(PAIRS[:1]))


@pytest.mark.parametrize(
    "options",
    [
        {"classifier_pooling": "mean", "classifier_bias": True, "norm_bias": True},
        {"classifier_pooling": "cls", "classifier_activation": "silu"},
    ],
    ids=str,
)
def test_the_options_of_modernberts_head_are_applied(
    options: dict[str, Any], tmp_path: Path
) -> None:
    folder = write_cross_encoder(tmp_path, labels=3, model_type="modernbert", **options)
    expected = reference(folder)
    assert_near(load(folder).score(PAIRS), expected)


def test_a_model_that_sentence_transformers_saved_has_the_same_scores(tmp_path: Path) -> None:
    plain, saved = write_cross_encoder(tmp_path / "plain"), tmp_path / "saved"
    CrossEncoder(str(plain), device="cpu").save_pretrained(str(saved))
    assert (saved / "modules.json").exists()
    assert np.array_equal(load(plain).score(PAIRS), load(saved).score(PAIRS))


@pytest.mark.parametrize("pooling", ["bos", "mean", "late"])
@pytest.mark.parametrize("key", ["classifier_pooling", "clf_pooling"])
def test_the_pooling_of_eurobert_is_that_of_its_config(
    pooling: str, key: str, tmp_path: Path
) -> None:
    folder = write_cross_encoder(tmp_path, 3, "eurobert", classifier_pooling=pooling)
    expected = reference(folder)
    edit(folder / "config.json", **{"classifier_pooling": None, key: pooling})
    assert_near(load(folder).score(PAIRS), expected)
    on_torch = Embedder.load(folder, device="cpu", dtype="float32", isa="none")
    assert_near(on_torch.score(PAIRS), expected)


@pytest.mark.parametrize("hidden_act", ["relu", "gelu_new", "tanh"])
def test_the_activation_of_big_birds_head_is_that_of_its_layers(
    hidden_act: str, tmp_path: Path
) -> None:
    folder = write_cross_encoder(tmp_path, 3, "big_bird", hidden_act=hidden_act)
    expected = reference(folder)
    assert_near(load(folder).score(PAIRS), expected)


@pytest.mark.parametrize(
    "options",
    [
        {"summary_type": "first", "summary_activation": "relu"},
        {"summary_type": "mean", "summary_activation": ""},
        {"summary_type": "cls_index", "summary_activation": "gelu"},
    ],
    ids=str,
)
def test_the_pooling_and_activation_of_xlnet_are_those_of_its_summary(
    options: dict[str, Any], tmp_path: Path
) -> None:
    folder = write_cross_encoder(tmp_path, 3, "xlnet", **options)
    expected = reference(folder)
    assert_near(load(folder).score(PAIRS), expected)


@pytest.mark.parametrize("model_type", ["funnel", "xlnet"])
def test_a_model_without_segments_whose_tokenizer_returns_them_is_refused(
    model_type: str, tmp_path: Path
) -> None:
    folder = write_cross_encoder(tmp_path, model_type=model_type)
    configure_tokenizer(folder, **NAMES)
    with pytest.raises(ModelError, match=r"model_input_names.*without token_type_ids"):
        ModelDescription.read(folder)


def test_an_xlnet_reads_the_last_token_of_pairs_that_are_padded_on_the_left(
    tmp_path: Path,
) -> None:
    folder = write_cross_encoder(tmp_path, model_type="xlnet")
    special = ("<unk>", "<s>", "</s>", "<cls>", "<sep>", "<pad>", "<mask>", "<eop>", "<eod>")
    pieces = [*special, "▁the", "▁of", "▁you", "▁", *"abcdefghijklmnopqrstuvwxyz"]
    scores = {piece: -float(index) for index, piece in enumerate(pieces)}
    XLNetTokenizer(vocab=[*scores.items()], model_max_length=64).save_pretrained(folder)
    model = CrossEncoder(str(folder), device="cpu", activation_fn=torch.nn.Identity())
    predict: Any = model.predict
    expected = exactly(predict)(PAIRS, batch_size=len(PAIRS))
    scored = load(folder).score(PAIRS)[:, 0]
    assert_near(scored, expected)


def test_an_xlnet_with_another_summary_is_refused(tmp_path: Path) -> None:
    folder = write_cross_encoder(tmp_path, model_type="xlnet")
    for key, value in (("summary_use_proj", False), ("summary_type", "attn")):
        edit(folder / "config.json", **{key: value})
        with pytest.raises(ModelError, match=key):
            ModelDescription.read(folder)
        edit(folder / "config.json", **{key: None})


def test_mobilebert_may_have_a_single_layer_after_its_states(tmp_path: Path) -> None:
    folder = write_cross_encoder(tmp_path, 3, "mobilebert", classifier_activation=False)
    expected = reference(folder)
    assert_near(load(folder).score(PAIRS), expected)


@pytest.mark.parametrize(
    "model_type",
    ["bert", "eurobert", "funnel", "longformer", "mobilebert", "phi3", "xlnet", "xmod"],
)
def test_a_pair_is_the_same_bits_alone_and_in_a_batch(model_type: str, tmp_path: Path) -> None:
    embedder = load(write_cross_encoder(tmp_path, model_type=model_type))
    alone = [embedder.score([pair])[0] for pair in PAIRS]
    assert np.array_equal(embedder.score(PAIRS), np.stack(alone))


def test_a_longformer_of_lower_precision_is_faithful(tmp_path: Path) -> None:
    folder = write_cross_encoder(tmp_path, labels=32, model_type="longformer")
    exact = normalize(load(folder).score(PAIRS))
    for dtype in precisions():
        cosines = (normalize(load(folder, dtype).score(PAIRS)) * exact).sum(axis=1)
        assert cosines.min() >= LEAST[dtype], cosines


def test_the_second_text_is_in_the_second_segment_only_where_the_tokenizer_says_so(
    tmp_path: Path,
) -> None:
    folder = write_cross_encoder(tmp_path)
    with_segments = load(folder).score(PAIRS)
    configure_tokenizer(folder, model_input_names=["input_ids", "attention_mask"])
    without, expected = load(folder).score(PAIRS), reference(folder, activation_fn=None)
    assert abs(with_segments - without).max() > 0.1
    assert_near(1 / (1 + np.exp(-without[:, 0])), expected)


NAMES = {"model_input_names": ["input_ids", "token_type_ids", "attention_mask"]}


@pytest.mark.parametrize(
    ("model_type", "pair", "options"),
    [
        ("roberta", "[CLS] $A [SEP] $B [SEP]", NAMES),
        ("roberta", "[CLS] $A [SEP] [SEP] $B:1 [SEP]:1", NAMES),
        ("roberta", "[CLS] $A [SEP] [SEP]:1 $B:1 [SEP]", NAMES),
        ("xlm-roberta", "[CLS]:1 $A:1 [SEP]:1 $B [SEP]", NAMES),
        ("bert", "[CLS] $A [SEP]:1 $B [SEP]:1", NAMES),
        ("bert", "[CLS] $A [SEP] $B:1 [SEP]:1", {"tokenizer_class": "MobileBertTokenizer"}),
        ("roberta", "[CLS] $A [SEP] $B:1 [SEP]:1", {"tokenizer_class": "SqueezeBertTokenizer"}),
        ("roberta", "[CLS] $A [SEP] $B:1 [SEP]:1", {}),
    ],
)
def test_the_post_processor_decides_the_segment_of_each_token_of_a_pair(
    model_type: str, pair: str, options: dict[str, Any], tmp_path: Path
) -> None:
    folder = write_cross_encoder(tmp_path, model_type=model_type, type_vocab_size=2)
    _set_pair_template(folder, pair)
    configure_tokenizer(folder, **{"tokenizer_class": "PreTrainedTokenizerFast", **options})
    expected = reference(folder, activation_fn=torch.nn.Identity())
    scores = load(folder).score(PAIRS)
    assert_near(scores[:, 0], expected)


def test_a_segment_that_no_model_has_is_refused(tmp_path: Path) -> None:
    folder = write_cross_encoder(tmp_path)
    _set_pair_template(folder, "[CLS]:2 $A [SEP] $B:1 [SEP]:1")
    with pytest.raises(ModelError, match=r"a pair into \[2, 0, 0, 1, 1\]"):
        load(folder).score(PAIRS)


def _set_pair_template(folder: Path, pair: str) -> None:
    path = str(folder / "tokenizer.json")
    rust = Tokenizer.from_file(path)
    special = [(name, rust.token_to_id(name)) for name in ("[CLS]", "[SEP]")]
    rust.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair=pair, special_tokens=special
    )
    rust.save(path)


@pytest.mark.parametrize(
    ("labels", "options", "activation"),
    [
        (1, {}, "sigmoid"),
        (3, {}, "identity"),
        (1, {"sentence_transformers": {"activation_fn": "torch.nn.Identity"}}, "identity"),
        (1, {"sentence_transformers": {"activation_fn": "torch.nn.Tanh"}}, "tanh"),
        (2, {"sbert_ce_default_activation_function": "torch.nn.Sigmoid"}, "sigmoid"),
    ],
    ids=str,
)
def test_the_activation_is_that_of_sentence_transformers(
    labels: int, options: dict[str, Any], activation: str, tmp_path: Path
) -> None:
    folder = write_cross_encoder(tmp_path, labels)
    edit(folder / "config.json", **options)
    classifier = ModelDescription.read(folder).classifier
    assert classifier and classifier.activation == activation
    theirs = CrossEncoder(str(folder), device="cpu").activation_fn
    assert type(theirs).__name__.lower() == activation


def test_the_activation_of_a_saved_cross_encoder_is_in_its_card(tmp_path: Path) -> None:
    folder, saved = write_cross_encoder(tmp_path / "plain"), tmp_path / "saved"
    theirs = CrossEncoder(str(folder), device="cpu", activation_fn=torch.nn.Identity())
    theirs.save_pretrained(str(saved))
    classifier = ModelDescription.read(saved).classifier
    assert classifier and classifier.activation == "identity"


def test_labels_and_the_task_are_those_of_the_config(tmp_path: Path) -> None:
    folder = write_cross_encoder(tmp_path, 2)
    edit(folder / "config.json", id2label={"0": "no", "1": "yes"})
    model = ModelDescription.read(folder)
    assert model.classifier and model.classifier.labels == ("no", "yes")
    assert (model.task, model.dim) == ("classify", 2)
    edit(folder / "config.json", problem_type="multi_label_classification")
    classifier = ModelDescription.read(folder).classifier
    assert classifier and classifier.multi_label


def test_a_setting_of_the_pooling_makes_an_embedder_of_it(tmp_path: Path) -> None:
    folder = write_cross_encoder(tmp_path)
    embedder = Embedder.load(folder, device="cpu", dtype="float32", pooling="mean")
    assert embedder.classifier is None and embedder.embed(["the work"]).shape == (1, 64)
    with pytest.raises(ValueError, match="cannot score pairs"):
        embedder.score(PAIRS)


def test_a_lower_precision_is_compared_by_what_the_logits_are_computed_from(
    tmp_path: Path,
) -> None:
    folder = write_cross_encoder(tmp_path)
    embedder = load(folder, "auto")
    exact = load(folder).score(PAIRS)
    assert embedder.trials[0].cosine == 1.0
    assert all(0.9 < trial.cosine < 1.0 for trial in embedder.trials[1:])  # one logit: 1 or -1
    np.testing.assert_allclose(embedder.score(PAIRS), exact, atol=0.1 * abs(exact).max())


@pytest.mark.parametrize(
    ("config", "card", "problem"),
    [
        (
            {"architectures": ["BertForMaskedLM"]},
            {"model_type": "CrossEncoder"},
            "a CrossEncoder of the class BertForMaskedLM is not supported",
        ),
        ({"sentence_transformers": {"activation_fn": "my.Own"}}, {}, "activation_fn = 'my.Own'"),
    ],
    ids=str,
)
def test_a_head_or_an_activation_that_is_not_known_is_refused_by_name(
    config: dict[str, Any], card: dict[str, Any], problem: str, tmp_path: Path
) -> None:
    folder = write_cross_encoder(tmp_path)
    edit(folder / "config.json", **config)
    if card:
        edit(folder / "config_sentence_transformers.json", **card)
    with pytest.raises(ModelError, match=problem):
        ModelDescription.read(folder)


def test_a_family_whose_head_is_not_known_is_refused_by_name(tmp_path: Path) -> None:
    folder = write_cross_encoder(tmp_path)
    edit(folder / "config.json", model_type="dpr", projection_dim=0)
    with pytest.raises(ModelError, match="the classification head of dpr is not supported"):
        ModelDescription.read(folder)


def test_a_head_of_another_shape_is_refused(tmp_path: Path) -> None:
    folder = write_cross_encoder(tmp_path)
    edit(folder / "config.json", id2label={"0": "no", "1": "yes"})
    with pytest.raises(ModelError, match=r"classifier.weight.*config.json requires"):
        load(folder)
