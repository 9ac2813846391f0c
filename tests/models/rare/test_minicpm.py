"""MiniCPM rerankers by layer against what FlagEmbedding computes."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from embedwell_models import Embedder
from embedwell_models.description.model_description import ModelDescription
from embedwell_models.errors import ModelError
from tests.conftest import precisions
from tests.models.families.exact import assert_near, exactly
from tests.models.layerwise_reranker import LAYERS, START, Published, write_layerwise

PAIRS = [
    ("What is rust?", "A fungus of plants."),
    ("the license of this work", "x"),
    ("  a query with spaces \n", "\n a document of the license. \n"),
    ("", "and"),
    ("the the", ""),
]
LONG = [
    ("x", "you may copy the work " * 300),
    ("you may copy the work " * 300, "any license of the work"),
    ("you may copy the work " * 300, "any license of the work " * 300),
    ("you may copy the work " * 8, "any license of the work " * 300),
]


def load(folder: Path, **options: Any) -> Embedder:
    return Embedder.load(folder, device="cpu", **{"dtype": "float32", **options})


def edit(folder: Path, **options: Any) -> None:
    path = folder / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text(encoding="utf-8")), **options}))


@pytest.mark.parametrize("inner", [128, 96], ids=["kernels", "torch"])
def test_the_last_layer_scores_without_an_option(inner: int, tmp_path: Path) -> None:
    folder = write_layerwise(tmp_path, intermediate_size=inner)
    embedder = load(folder)
    assert embedder.classifier and embedder.classifier.reranks
    assert_near(embedder.score(PAIRS), exactly(Published(folder).scores)(PAIRS))


def test_the_chat_template_of_the_base_model_is_not_read(tmp_path: Path) -> None:
    folder = write_layerwise(tmp_path)
    plain = load(folder).score(PAIRS)
    (folder / "chat_template.jinja").write_text("{% for message in messages %}{% endfor %}")
    assert np.array_equal(load(folder).score(PAIRS), plain)


@pytest.mark.parametrize("layer", range(START, LAYERS + 1))
def test_the_layer_of_the_option_scores_with_its_head(layer: int, tmp_path: Path) -> None:
    folder = write_layerwise(tmp_path)
    edit(folder, cutoff_layers=[layer])
    embedder = load(folder)
    assert embedder.config.num_layers == layer
    assert_near(embedder.score(PAIRS), exactly(Published(folder).scores)(PAIRS, layer=layer))


def test_a_pair_is_the_same_bits_alone_and_in_a_batch(tmp_path: Path) -> None:
    embedder = load(write_layerwise(tmp_path))
    alone = [embedder.score([pair])[0] for pair in PAIRS]
    assert np.array_equal(embedder.score(PAIRS), np.stack(alone))


def test_long_pairs_are_cut_as_by_flag_embedding(tmp_path: Path) -> None:
    folder = write_layerwise(tmp_path)
    published = Published(folder)
    assert_near(load(folder).score(LONG), exactly(published.scores)(LONG, 512 - 2 * published.end))


def test_an_instruction_is_the_prompt(tmp_path: Path) -> None:
    folder = write_layerwise(tmp_path)
    embedder, prompt = load(folder), "Predict whether passages A and B have the same meaning."
    scores = embedder.score(PAIRS, instruction=prompt)
    assert_near(scores, exactly(Published(folder, prompt).scores)(PAIRS))
    assert abs(scores - embedder.score(PAIRS)).max() > 0.1


def test_every_precision_is_near_float32(tmp_path: Path) -> None:
    folder = write_layerwise(tmp_path)
    exact = load(folder).score(PAIRS)
    for dtype in precisions():
        scores = load(folder, dtype=dtype).score(PAIRS)
        assert np.corrcoef(scores[:, 0], exact[:, 0])[0, 1] > 0.9, dtype


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"cutoff_layers": [START - 1]}, r"cutoff_layers = \[1\] .*one of \[2, 3, 4\]"),
        ({"cutoff_layers": [2, 3]}, r"cutoff_layers = \[2, 3\]"),
        ({"head_type": "raw"}, "head_type"),
        ({"head_multi": False}, "head_multi"),
        ({"rope_scaling": {"type": "linear", "factor": 2.0}}, "rope_scaling"),
        ({"architectures": ["MiniCPMForCausalLM"]}, "architectures"),
        ({"scale_depth": 0}, "scale_depth = 0 is not a number above 0"),
    ],
    ids=str,
)
def test_what_would_change_the_scores_is_refused_by_name(
    options: dict[str, Any], problem: str, tmp_path: Path
) -> None:
    folder = write_layerwise(tmp_path)
    edit(folder, **options)
    with pytest.raises(ModelError, match=problem):
        ModelDescription.read(folder)


def test_every_key_of_the_published_config_is_read(tmp_path: Path) -> None:
    folder = write_layerwise(tmp_path, pretraining_tp=1, use_cache=False, initializer_range=0.1)
    assert ModelDescription.read(folder).spec.unread_keys == ()
