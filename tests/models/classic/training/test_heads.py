"""Trained heads of sparse vectors and of vectors of tokens: what they learn, how it is served."""

import logging
import random
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import StaticEmbedding
from tokenizers import Tokenizer

from embedwell_classic.training.corpus import Pairs, open_corpus
from embedwell_classic.training.heads import HeadTraining, TokenHeads, TokenStates, train_heads
from embedwell_models.embedder import Embedder
from embedwell_models.encoder.sparse_vectors import ignored_ids
from embedwell_models.errors import ModelError
from embedwell_models.outputs.names import DENSE, MULTI, SPARSE
from embedwell_models.outputs.text_outputs import TextOutputs, common_entries, over_entries
from embedwell_models.vectors import Floats, maxsim
from tests.models.sparse_encoder import write_bge_m3

QUERIES = ["work the work", "of the license"]
BIAS = 2.0  # with which most weights are above zero
DOCUMENTS = ["the license of the work", "work", "a license to work"]
WORDS = [
    *("apple", "river", "stone", "paper", "garden", "window"),
    *("bridge", "candle", "copper", "desert", "forest", "hammer"),
]
TRAINING = HeadTraining(max_length=32, epochs=6, batch_size=12, learning_rate=0.02, dtype="float32")


@pytest.fixture
def embedder(tiny_bert: Callable[..., Path]) -> Embedder:
    """A small BERT with heads of random weights."""
    folder, noise = tiny_bert(), torch.Generator().manual_seed(3)
    width = Embedder.load(folder, device="cpu", dtype="float32").config.hidden_size
    sizes = {"sparse": 1, "colbert": width}
    for name, rows in sizes.items():
        tensors = {
            "weight": 0.1 * torch.randn(rows, width, generator=noise),
            "bias": torch.full((rows,), BIAS),
        }
        save_file(tensors, folder / f"{name}_linear.safetensors")
    return Embedder.load(folder, device="cpu", dtype="float32")


@pytest.fixture
def heads(embedder: Embedder) -> TokenHeads:
    noise = torch.Generator().manual_seed(3)
    width = embedder.config.hidden_size
    heads = TokenHeads(width, ignored_ids(embedder.tokenizer))
    for layer, rows in ((heads.weight, 1), (heads.vector, width)):
        layer.weight.data = 0.1 * torch.randn(rows, width, generator=noise)
        layer.bias.data = torch.full((rows,), BIAS)
    return heads


def states(embedder: Embedder, texts: list[str]) -> TokenStates:
    ids = embedder.tokenize(texts)
    return TokenStates(
        ids=torch.tensor([id for row in ids for id in row]),
        states=torch.from_numpy(np.concatenate(embedder.hidden(ids))),
        texts=torch.repeat_interleave(torch.arange(len(ids)), torch.tensor([*map(len, ids)])),
        count=len(ids),
    )


def served(embedder: Embedder, texts: list[str]) -> list[TextOutputs]:
    return embedder.outputs(embedder.tokenize(texts), [SPARSE, MULTI])


def test_sparse_scores_are_products_of_served_vectors(
    embedder: Embedder, heads: TokenHeads
) -> None:
    vectors = [text.sparse for text in served(embedder, QUERIES + DOCUMENTS) if text.sparse]
    matrix = over_entries(vectors, common_entries(vectors))
    expected = matrix[: len(QUERIES)] @ matrix[len(QUERIES) :].T
    scores = heads.sparse_scores(states(embedder, QUERIES), states(embedder, DOCUMENTS))
    assert expected.max() > 0
    np.testing.assert_allclose(scores.detach().numpy(), expected, rtol=1e-4, atol=1e-4)


def test_maxsim_scores_are_those_of_served_vectors(embedder: Embedder, heads: TokenHeads) -> None:
    queries, documents = (
        [text.multi for text in served(embedder, texts) if text.multi is not None]
        for texts in (QUERIES, DOCUMENTS)
    )
    expected: Floats = np.array(
        [[maxsim(q, d) / len(q) for d in documents] for q in queries], dtype=np.float32
    )
    scores = heads.maxsim_scores(states(embedder, QUERIES), states(embedder, DOCUMENTS))
    np.testing.assert_allclose(scores.detach().numpy(), expected, atol=1e-5)


def test_the_loss_falls_where_the_right_candidate_is_ahead(
    embedder: Embedder, heads: TokenHeads
) -> None:
    queries = states(embedder, QUERIES)
    right = heads.loss(queries, states(embedder, QUERIES))
    wrong = heads.loss(queries, states(embedder, QUERIES[::-1]))
    assert right < wrong


def query(word: str) -> str:
    return f"could you please tell me something about the {word}"


def document(word: str, other: str) -> str:
    """A text about a word, with few words of the query."""
    return f"{word}: a kind of {other} thing"


def distraction(word: str) -> str:
    """A text about a word, with most words of every query."""
    return f"could you please tell me about something else, the {word}"


def rows() -> list[tuple[str, str, str]]:
    """Rows of query, document and a distraction by another word, for each word."""
    chosen = random.Random(1)
    others = [chosen.choice([o for o in WORDS if o != word]) for word in WORDS]
    return [
        (query(word), document(word, "new"), distraction(other))
        for word, other in zip(WORDS, others, strict=True)
    ]


def train(source: Path, target: Path, lines: list[str], training: HeadTraining = TRAINING) -> Path:
    path = target.parent / "pairs.tsv"
    path.write_text("\n".join(lines), encoding="utf-8")
    target.mkdir()
    with open_corpus(path) as corpus:
        train_heads(source, Pairs(corpus), target, training)
    return target


@pytest.fixture(scope="module")
def trained(minilm_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The default model with heads that were trained on some words."""
    target = tmp_path_factory.mktemp("heads") / "model"
    return train(minilm_folder, target, ["\t".join(row) for row in rows()])


def outputs(embedder: Embedder, texts: list[str]) -> list[TextOutputs]:
    return embedder.outputs(embedder.tokenize(texts), [DENSE, SPARSE, MULTI])


def sparse_scores(queries: list[TextOutputs], documents: list[TextOutputs]) -> Floats:
    vectors = [text.sparse for text in queries + documents if text.sparse]
    matrix = over_entries(vectors, common_entries(vectors))
    scores: Floats = matrix[: len(queries)] @ matrix[len(queries) :].T
    return scores


def multi_scores(queries: list[TextOutputs], documents: list[TextOutputs]) -> Floats:
    scores = [
        [maxsim(q.multi, d.multi) / len(q.multi) for d in documents if d.multi is not None]
        for q in queries
        if q.multi is not None
    ]
    return np.array(scores, dtype=np.float32)


def test_other_words_count_after_the_training(trained: Path, minilm_folder: Path) -> None:
    untrained = train(
        minilm_folder,
        trained.parent / "untrained",
        ["a\tb", "c\td"],
        HeadTraining(epochs=1, batch_size=2, learning_rate=1e-9, dtype="float32"),
    )
    words = ["castle", "engine", "monkey", "rocket"]  # none of the training's
    queries = [query(word) for word in words]
    texts = [document(word, "old") for word in words]
    texts += [distraction(word) for word in ("ladder", "kitten", "pepper", "signal")]
    margins = []  # of the right document to the best of the others
    for folder in (untrained, trained):
        embedder = Embedder.load(folder, device="cpu", dtype="float32")
        left, scored = outputs(embedder, queries), outputs(embedder, texts)
        for scores in (sparse_scores(left, scored), multi_scores(left, scored)):
            right = scores.diagonal().copy()
            np.fill_diagonal(scores, -np.inf)
            margins.append(float((right - scores.max(axis=1)).min()))
    sparse, multi, trained_sparse, trained_multi = margins
    assert sparse < 0 < trained_sparse
    assert multi < 0 < trained_multi


def test_dense_vectors_stay_the_same(trained: Path, minilm_folder: Path) -> None:
    texts = [query("apple"), document("apple", "new")]
    models = (
        Embedder.load(folder, device="cpu", dtype="float32") for folder in (minilm_folder, trained)
    )
    before, after = (model.embed(texts) for model in models)
    np.testing.assert_array_equal(before, after)


def test_the_server_computes_what_was_trained(trained: Path) -> None:
    tensors = load_file(trained / "sparse_linear.safetensors")
    embedder = Embedder.load(trained, device="cpu", dtype="float32")
    [ids] = embedder.tokenize(["a river, a river"])
    [states] = embedder.hidden([ids])
    weights = torch.relu(torch.from_numpy(states) @ tensors["weight"][0] + tensors["bias"])
    [text] = embedder.outputs([ids], [SPARSE])
    expected = {id: max(w for i, w in zip(ids, weights, strict=True) if i == id) for id in ids}
    assert text.sparse is not None
    special = {embedder.tokenizer.special_id(role) for role in ("cls", "sep")}
    chosen = {id: float(w) for id, w in expected.items() if w > 0 and id not in special}
    assert dict(zip(text.sparse.indices, text.sparse.weights, strict=True)) == pytest.approx(
        chosen, rel=1e-5
    )


def test_progress_is_logged(
    minilm_folder: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "embedwell_classic.training")
    lines = [f"text {number}\tanswer {number}" for number in range(5)]
    training = HeadTraining(epochs=2, batch_size=2, dtype="float32")
    train(minilm_folder, tmp_path / "model", lines, training)
    logs = [re.sub(r"\d\.\d{4}", "N", record.getMessage()) for record in caplog.records]
    # The fifth pair of each epoch has no other to be compared with.
    assert logs == [f"step {number} of 4: loss N" for number in range(1, 5)]


def test_a_batch_needs_several_pairs(minilm_folder: Path, tmp_path: Path) -> None:
    lines = ["one\tanother", "one\ta third"]  # of the same anchor
    with pytest.raises(ModelError, match=r"pairs\.tsv: a batch compares several pairs"):
        train(minilm_folder, tmp_path / "model", lines)


def test_a_model_with_these_outputs_is_refused(tmp_path: Path) -> None:
    source = write_bge_m3(tmp_path / "m3")
    with pytest.raises(ModelError, match="only dense vectors"):
        train(source, tmp_path / "model", ["a\tb", "c\td"])


def test_a_table_without_layers_is_refused(minilm_folder: Path, tmp_path: Path) -> None:
    tokenizer = Tokenizer.from_file(str(minilm_folder / "tokenizer.json"))
    table = SentenceTransformer(modules=[StaticEmbedding(tokenizer, embedding_dim=8)])
    table.save_pretrained(str(tmp_path / "table"), create_model_card=False)
    with pytest.raises(ModelError, match="choose a model with layers"):
        train(tmp_path / "table", tmp_path / "model", ["a\tb", "c\td"])
