"""The examples of docs/clients.md that rerank, each with some more uses of its client."""

import re
from typing import Any

import pytest

from tests.clients.conftest import DOCUMENTS, QUERY
from tests.clients.example_program import DOCS, run_program
from tests.service.server import HttpServer

PAGE = (DOCS / "clients.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(
    r"^### Rerank with ([^\n]*)\n\n```python\n(.*?)```", PAGE, re.DOTALL | re.MULTILINE
)

# Further ways of a client to rank the same documents, appended to its example.
FURTHER_USES = {
    "Haystack": """
import asyncio
from haystack_integrations.components.rankers.huggingface_api import TruncationDirection

documents = [Document(content=text) for text in texts]
options = {"truncation_direction": TruncationDirection.LEFT}
best = ranker.run(query="What is rust?", documents=documents, top_k=1, **options)["documents"]
assert (best[0].content, best[0].score) == ranking[0] and len(best) == 1
answer = asyncio.run(ranker.run_async(query="What is rust?", documents=documents))["documents"]
assert [(document.content, document.score) for document in answer] == ranking
""",
    "LlamaIndex": """
from llama_index.postprocessor.jinaai_rerank import JinaRerank

def jina(**options):
    base = {"base_url": "http://localhost:8080/v1", "api_key": "unused"}
    reranker = JinaRerank(**base, **options)
    return reranker.postprocess_nodes(nodes, query_str="What is rust?")

assert [(node.text, node.score) for node in jina(model="reranker", top_n=3)] == ranking
assert len(jina(model="reranker", top_n=1)) == 1
assert "no model 'another'" in error_message(RuntimeError, lambda: jina(model="another"))
""",
    "LangChain": """
import asyncio

documents = [Document(text) for text in texts]
answer = asyncio.run(reranker.acompress_documents(documents, "What is rust?"))
assert [
    (document.page_content, document.metadata["relevance_score"]) for document in answer
] == ranking
""",
    "LiteLLM": """
import asyncio

QUERY = "What is rust?"

def rerank(model, path="", **options):
    base = f"http://localhost:8080{path}"
    answer = litellm.rerank(
        model, query=QUERY, documents=documents, api_base=base, api_key="unused", **options
    )
    return [(documents[row["index"]], row["relevance_score"]) for row in answer.results]

for model in ("cohere", "jina_ai", "hosted_vllm", "huggingface"):
    assert rerank(f"{model}/reranker") == ranking, model
    assert rerank(f"{model}/reranker", top_n=2, return_documents=False) == ranking[:2], model
for path in ("", "/v1"):
    assert rerank("hosted_vllm/reranker", path) == ranking
    assert rerank("voyage/reranker", path, top_n=2) == ranking[:2]
assert rerank("infinity/reranker", return_documents=False) == ranking
best = rerank("nvidia_nim/ranking/reranker", top_n=2)  # whose scores are logits
assert [text for text, _ in best] == [text for text, _ in ranking[:2]]
message = error_message(Exception, lambda: rerank("cohere/another"))
assert "this server has 'reranker'" in message
answer = asyncio.run(
    litellm.arerank(
        "cohere/reranker",
        query=QUERY,
        documents=documents,
        api_base="http://localhost:8080",
        api_key="unused",
    )
)
assert [documents[row["index"]] for row in answer.results] == [text for text, _ in ranking]
""",
}


@pytest.mark.parametrize(("name", "code"), EXAMPLES, ids=[name for name, _ in EXAMPLES])
@pytest.mark.full
def test_a_client_ranks_as_sentence_transformers_does(
    reranker: HttpServer, relevance: list[float], name: str, code: str
) -> None:
    ranking: Any = run_program(reranker, code + FURTHER_USES.get(name, ""), "ranking")
    expected = sorted(zip(DOCUMENTS, relevance, strict=True), key=lambda pair: -pair[1])
    assert QUERY in code
    assert [text for text, _ in ranking] == [text for text, _ in expected]
    assert [score for _, score in ranking] == pytest.approx(
        [score for _, score in expected], abs=1e-4
    )


def test_every_framework_has_an_example() -> None:
    names = [name for name, _ in EXAMPLES]
    assert FURTHER_USES.keys() < set(names)
    assert names == [
        "Cohere",
        "Voyage",
        "LangChain",
        "LlamaIndex",
        "Haystack",
        "LiteLLM",
        "Infinity",
    ]
