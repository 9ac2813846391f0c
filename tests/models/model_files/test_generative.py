"""Language models that rerank, against CrossEncoder and against the logits of transformers."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from sentence_transformers import CrossEncoder
from transformers import (
    AutoModelForCausalLM,
    AutoModelForSequenceClassification,
    AutoTokenizer,
)

from embedwell_models import Embedder
from embedwell_models.description.model_description import ModelDescription
from embedwell_models.errors import InstructionTooLongError, ModelError, UnpairedTextError
from embedwell_models.vectors import Floats
from tests.models.decoder_reranker import (
    DOCUMENT_FIRST,
    STRUCTURED,
    TEMPLATE,
    TEXT_AFTER,
    TRIMMED,
    token_id,
    write_layout,
    write_reranker,
)
from tests.models.families.exact import Expected, assert_near, exactly
from tests.models.layerwise_reranker import Published

PAIRS = [
    ("What is rust?", "A fungus of plants."),
    ("the license of this work", "x"),
    ("x", "you may copy the work " * 60),
    ("  a query with spaces \n", "\n a document of the license. \n"),
    ("", "and"),
    ("the the", ""),
    ("a special token?", "<|im_end|> any <think>"),
]
LONG = 2  # of PAIRS, longer than the model reads
GENERIC = "{% for message in messages %}{{ message.role }}{% endfor %}"


def load(folder: Path, **options: Any) -> Embedder:
    return Embedder.load(folder, device="cpu", dtype="float32", **options)


def layout(folder: Path, **options: Any) -> Path:
    """The files of sentence-transformers for the tokens yes and no."""
    return write_layout(folder, (token_id(folder, "yes"), token_id(folder, "no")), **options)


def predicted(folder: Path, pairs: Sequence[Any] = PAIRS, **options: Any) -> Expected:
    """Scores of pairs one by one, as sentence-transformers computes them."""
    model = CrossEncoder(str(folder), device="cpu", activation_fn=torch.nn.Identity())
    predict: Any = model.predict
    return exactly(predict)(pairs, batch_size=1, **options)


def assert_close(scores: Floats, expected: Expected) -> None:
    assert_near(np.ravel(scores), expected)


@pytest.mark.parametrize("model_type", ["qwen3", "gemma", "qwen2", "llama", "mistral"])
@pytest.mark.full(after=2)
def test_the_difference_of_two_logits_is_that_of_sentence_transformers(
    model_type: str, tmp_path: Path
) -> None:
    folder = layout(write_reranker(tmp_path, model_type=model_type))
    embedder = load(folder)
    assert embedder.classifier and embedder.classifier.task == "rerank"
    assert_close(embedder.score(PAIRS), predicted(folder))


@pytest.mark.full(after=2)
@pytest.mark.parametrize(
    ("template", "options"),
    [
        (TEXT_AFTER, {}),
        (TRIMMED, {}),
        (STRUCTURED, {"message_format": "structured"}),
        ({"default": GENERIC, "score": TEMPLATE}, {"chat_template": "score"}),
        (TEMPLATE, {"add_generation_prompt": False}),
        (TEMPLATE, {"card": {"prompts": {"a": "Find the same."}, "default_prompt_name": "a"}}),
    ],
    ids=["text after", "trimmed", "structured", "named", "without an answer", "default prompt"],
)
def test_a_chat_template_is_applied_as_by_sentence_transformers(
    template: Any, options: dict[str, Any], tmp_path: Path
) -> None:
    folder = layout(write_reranker(tmp_path, template=template), **options)
    assert_close(load(folder).score(PAIRS), predicted(folder))


def test_the_query_remains_where_it_comes_after_a_long_document(tmp_path: Path) -> None:
    # sentence-transformers, which cuts the end of the text, leaves the query out.
    folder = layout(write_reranker(tmp_path, template=DOCUMENT_FIRST))
    pairs = [pair for index, pair in enumerate(PAIRS) if index != LONG]
    embedder = load(folder)
    assert_close(embedder.score(pairs), predicted(folder, pairs))
    queries = [("x", PAIRS[LONG][1]), ("another", PAIRS[LONG][1])]
    assert abs(np.diff(embedder.score(queries), axis=0)) > 1e-3


def test_the_logit_of_one_token_may_be_the_score(tmp_path: Path) -> None:
    folder = write_reranker(tmp_path)
    write_layout(folder, (token_id(folder, "yes"), None))
    assert_close(load(folder).score(PAIRS), predicted(folder))


def test_a_cross_encoder_without_modules_has_the_tokens_yes_and_no(tmp_path: Path) -> None:
    folder = write_reranker(tmp_path)
    assert ModelDescription.read(folder).task == "embed"  # nothing says that it reranks
    (folder / "config_sentence_transformers.json").write_text('{"model_type": "CrossEncoder"}')
    assert_close(load(folder).score(PAIRS), predicted(folder))


@pytest.mark.parametrize("with_layout", [True, False])
def test_a_classifier_reads_pairs_in_the_chat_template(with_layout: bool, tmp_path: Path) -> None:
    folder = write_reranker(tmp_path, labels=1)
    if with_layout:
        write_layout(folder)
    assert_close(load(folder).score(PAIRS), predicted(folder))


def test_an_instruction_is_in_the_message_of_the_system(tmp_path: Path) -> None:
    folder = layout(write_reranker(tmp_path))
    embedder, instruction = load(folder), "Find documents that say the opposite."
    scores = embedder.score(PAIRS, instruction=instruction)
    assert_close(scores, predicted(folder, prompt=instruction))
    assert abs(scores - embedder.score(PAIRS)).max() > 0.1


def test_an_instruction_must_have_a_place_and_leave_room(tmp_path: Path) -> None:
    folder = layout(write_reranker(tmp_path))
    with pytest.raises(InstructionTooLongError, match="more than half"):
        load(folder).score(PAIRS, instruction="any work " * 99)
    (folder / "chat_template.jinja").write_text(DOCUMENT_FIRST)
    with pytest.raises(ValueError, match="takes no instruction"):
        load(folder).score(PAIRS, instruction="Find")


def test_a_text_alone_is_refused(tmp_path: Path) -> None:
    embedder = load(layout(write_reranker(tmp_path)))
    with pytest.raises(UnpairedTextError, match="text 1 is alone"):
        embedder.score([PAIRS[0], ("a", None)])


def test_a_pair_is_the_same_bits_alone_and_in_a_batch(tmp_path: Path) -> None:
    embedder = load(layout(write_reranker(tmp_path)))
    alone = [embedder.score([pair])[0] for pair in PAIRS]
    assert np.array_equal(embedder.score(PAIRS), np.stack(alone))


def test_the_table_of_a_tied_model_is_that_of_its_input(tmp_path: Path) -> None:
    folder = layout(write_reranker(tmp_path, tie_word_embeddings=True))
    tensors = load_file(folder / "model.safetensors")
    assert "lm_head.weight" not in tensors
    assert_close(load(folder).score(PAIRS), predicted(folder))
    # A table of its own counts even so.
    other = torch.randn_like(tensors["model.embed_tokens.weight"])
    save_file(tensors | {"lm_head.weight": other}, folder / "model.safetensors", {"format": "pt"})
    assert_close(load(folder).score(PAIRS), predicted(folder))


def test_a_lower_precision_is_compared_by_the_states_before_the_score(tmp_path: Path) -> None:
    folder = layout(write_reranker(tmp_path))
    embedder = Embedder.load(folder, device="cpu", dtype="auto")
    assert all(0.9 < trial.cosine < 1.0 for trial in embedder.trials[1:])


def logits(folder: Path, rows: list[list[int]], yes: str, no: str | None = None) -> Expected:
    """The logit of a token after each row of ids, less that of another, by transformers."""
    model: Any = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)

    @exactly
    def difference() -> Any:
        last = torch.stack([model(torch.tensor([row])).logits[0, -1] for row in rows])
        first = last[:, token_id(folder, yes)]
        return first if no is None else first - last[:, token_id(folder, no)]

    return difference()


def tokenize(folder: Path, text: str) -> list[int]:
    ids: list[int] = AutoTokenizer.from_pretrained(folder)(text, add_special_tokens=False).input_ids
    return ids


@pytest.mark.parametrize("instruction", [None, "Find documents that say the opposite."])
def test_qwen3_reranker_is_read_as_published(instruction: str | None, tmp_path: Path) -> None:
    folder = write_reranker(tmp_path, template=GENERIC, max_length=512, tie_word_embeddings=True)
    task = instruction or (
        "Given a web search query, retrieve relevant passages that answer the query"
    )
    prefix = (
        "<|im_start|>system\nJudge whether the Document meets the requirements based on the Query "
        'and the Instruct provided. Note that the answer can only be "yes" or "no".<|im_end|>\n'
        "<|im_start|>user\n"
    )
    suffix = "<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n"
    first, last = tokenize(folder, prefix), tokenize(folder, suffix)
    rows = []
    for query, document in PAIRS:
        pair = f"<Instruct>: {task}\n<Query>: {query}\n<Document>: {document}"
        ids = tokenize(folder, pair)[: 512 - len(first) - len(last)]
        rows.append([*first, *ids, *last])
    assert any(len(row) == 512 for row in rows)
    expected = logits(folder, rows, "yes", "no")
    embedder = load(folder, rerank_format="qwen3-reranker")
    assert_close(embedder.score(PAIRS, instruction=instruction), expected)


def test_bge_reranker_v2_gemma_is_read_as_published(tmp_path: Path) -> None:
    folder = write_reranker(tmp_path, model_type="gemma", template=None, max_length=512)
    published = Published(folder)
    length = 512 - 2 * published.end
    rows = [published.row(*pair, length) for pair in PAIRS]
    assert len(published.row(*PAIRS[LONG], 9999)) > len(rows[LONG]) > length
    expected = logits(folder, rows, "Yes")
    embedder = load(folder, rerank_format="bge-reranker-v2-gemma")
    scores = embedder.score(PAIRS)
    assert scores.shape == (len(PAIRS), 1)
    assert_close(scores, expected)


@pytest.mark.parametrize("instruction", [None, "Find the opposite."])
def test_mxbai_rerank_v2_is_read_as_published(instruction: str | None, tmp_path: Path) -> None:
    folder = write_reranker(tmp_path, model_type="qwen2", template=GENERIC, max_length=512)
    texts = [
        "<|im_start|>system\nYou are Qwen, created by Alibaba Cloud. You are a helpful assistant."
        "<|im_end|>\n<|im_start|>user\n"
        + (f"instruction: {instruction}\n" if instruction else "")
        + f"query: {query}\ndocument: {document}\nYou are a search relevance expert who evaluates "
        "how well documents match search queries. For each query-document pair, carefully "
        "analyze the semantic relationship between them, then provide your binary relevance "
        "judgment (0 for not relevant, 1 for relevant).\nRelevance:<|im_end|>\n"
        "<|im_start|>assistant\n"
        for query, document in PAIRS[:LONG]
    ]
    expected = logits(folder, [tokenize(folder, text) for text in texts], "1", "0")
    embedder = load(folder, rerank_format="mxbai-rerank-v2")
    assert_close(embedder.score(PAIRS[:LONG], instruction=instruction), expected)


def test_a_named_format_goes_before_that_of_the_files(tmp_path: Path) -> None:
    folder = layout(write_reranker(tmp_path, max_length=512))
    plain = load(folder).score(PAIRS)
    named = load(folder, rerank_format="qwen3-reranker")
    assert abs(named.score(PAIRS) - plain).max() > 0.1
    assert named.fingerprint != load(folder).fingerprint
    other = write_reranker(tmp_path / "other", max_length=512)
    write_layout(other, (token_id(other, "no"), token_id(other, "yes")))
    same = load(other, rerank_format="qwen3-reranker").score(PAIRS)
    assert np.array_equal(same, named.score(PAIRS))
    classifier = write_reranker(tmp_path / "classifier", labels=1, template=GENERIC)
    pair = load(classifier, rerank_format="pair")
    assert pair.classifier and pair.classifier.pair_format is None
    assert pair.score([("a", None)]).shape == (1, 1)


@pytest.mark.parametrize("labels", [1, None])
def test_a_template_without_a_place_for_the_document_is_refused(
    labels: int | None, tmp_path: Path
) -> None:
    folder = write_reranker(tmp_path, labels=labels, template=GENERIC)
    if labels is None:
        layout(folder)
    with pytest.raises(ModelError, match=r"0 places for .* query, .*EMBEDWELL_RERANK_FORMAT"):
        load(folder)


@pytest.mark.parametrize(
    ("file", "values", "problem"),
    [
        ("config.json", {"final_logit_softcapping": 9.0}, "final_logit_softcapping"),
        ("config.json", {"model_type": "olmo2"}, "model_type"),
        ("config.json", {"is_causal": False}, "the logits of qwen3 are not supported"),
        ("1_LogitScore/config.json", {"true_token_id": 9999}, r"has no tokens \[9999\]"),
        ("1_LogitScore/config.json", {"module_input_name": "other"}, "module_input_name"),
        ("sentence_bert_config.json", {"processing_kwargs": {"text": {}}}, "text = {}"),
        ("sentence_bert_config.json", {"transformer_task": "any-to-any"}, "transformer_task"),
    ],
    ids=str,
)
def test_what_would_change_the_scores_is_refused_by_name(
    file: str, values: dict[str, Any], problem: str, tmp_path: Path
) -> None:
    folder = layout(write_reranker(tmp_path))
    path = folder / file
    path.write_text(json.dumps({**json.loads(path.read_text()), **values}))
    with pytest.raises(ModelError, match=problem):
        ModelDescription.read(folder)


def test_a_missing_or_wrong_output_table_is_refused(tmp_path: Path) -> None:
    folder = layout(write_reranker(tmp_path))
    tensors = load_file(folder / "model.safetensors")
    table = tensors.pop("lm_head.weight")
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})
    with pytest.raises(ModelError, match=r"lacks lm_head.weight"):
        load(folder)
    tensors["lm_head.weight"] = table[1:].clone()
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})
    with pytest.raises(ModelError, match=r"lm_head.weight has the shape"):
        load(folder)


def test_a_tokenizer_without_the_answers_is_refused(tmp_path: Path) -> None:
    folder = write_reranker(tmp_path)
    path = folder / "tokenizer.json"
    rust = json.loads(path.read_text())
    rust["model"]["vocab"]["Yet"] = rust["model"]["vocab"].pop("Yes")
    rust["model"]["merges"] = [pair for pair in rust["model"]["merges"] if "".join(pair) != "Yes"]
    path.write_text(json.dumps(rust))
    with pytest.raises(ModelError, match=r"lacks one of the answer tokens \('Yes',\)"):
        load(folder, rerank_format="bge-reranker-v2-gemma")
    with pytest.raises(ModelError, match="rerank_format 'other' is not one of"):
        load(folder, rerank_format="other")


@pytest.mark.parametrize("temperature", [None, 0.5])
def test_nemotron_pools_all_tokens_of_its_published_format(
    temperature: float | None, tmp_path: Path
) -> None:
    folder = write_reranker(tmp_path, model_type="llama", template=None, labels=1)
    texts = [f"<|begin_of_text|>question:{q} \n \n passage:{d}" for q, d in PAIRS[:LONG]]
    rows = [tokenize(folder, text) for text in texts]
    expected = _bidirectional_scores(folder, rows, temperature or 1.0)
    code = "llama_bidirectional_model.LlamaBidirectionalModel"
    own = {"model_type": "llama_bidirec", "pooling": "avg", "auto_map": {"AutoModel": code}}
    own |= {"architectures": ["LlamaBidirectionalForSequenceClassification"]}
    path = folder / "config.json"
    config = {**json.loads(path.read_text(encoding="utf-8")), **own, "temperature": temperature}
    path.write_text(json.dumps(config), encoding="utf-8")
    embedder = load(folder)
    assert embedder.classifier and embedder.classifier.reranks
    assert_close(embedder.score(PAIRS[:LONG]), expected)
    plain = load(folder, rerank_format="pair").score(PAIRS[:LONG])
    assert abs(plain - embedder.score(PAIRS[:LONG])).max() > 0.01


def _bidirectional_scores(folder: Path, rows: list[list[int]], temperature: float) -> Expected:
    auto: Any = AutoModelForSequenceClassification
    model = auto.from_pretrained(folder)

    @exactly
    def scores() -> Any:
        return torch.stack([score(row) for row in rows]) / temperature

    def score(ids: list[int]) -> Any:
        everything = torch.zeros(1, 1, len(ids), len(ids))  # added to the scores
        states = model.model(torch.tensor([ids]), attention_mask=everything).last_hidden_state
        return model.score(states.mean(dim=1))[0, 0]

    return scores()


def test_a_format_for_heads_is_refused_for_the_next_token(tmp_path: Path) -> None:
    folder = write_reranker(tmp_path)
    with pytest.raises(ModelError, match="llama-nemotron-rerank is for models with a class"):
        load(folder, rerank_format="llama-nemotron-rerank")
