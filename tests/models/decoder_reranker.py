"""Language models of random weights that rerank, with tokenizers of bytes and chat templates."""

import json
from functools import cache
from pathlib import Path
from typing import Any

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    AutoModelForSequenceClassification,
    PreTrainedTokenizerFast,
)

from tests.models.kinds import BYTES, PROSE, QWEN
from tests.models.random_weights import randomize, without_weights

SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<bos>"]
TEMPLATE = """<|im_start|>system
Judge the Document by the Query and the Instruct. The answer can only be "yes" or "no".<|im_end|>
<|im_start|>user
<Instruct>: {{ messages | selectattr("role", "eq", "system") | map(attribute="content") | first \
| default("Retrieve what answers the query") }}
<Query>: {{ messages | selectattr("role", "eq", "query") | map(attribute="content") | first }}
<Document>: {{ messages | selectattr("role", "eq", "document") | map(attribute="content") | first \
}}<|im_end|>
{%- if add_generation_prompt %}

<|im_start|>assistant
{{ "<think>\\n\\n</think>\\n\\n" }}
{%- endif %}"""
# As mxbai's, Contextual's and Llama 3's: text after the document; the document first; trimmed.
TEXT_AFTER = TEMPLATE.replace("}}<|im_end|>", "}}\nIs it relevant? Relevance:<|im_end|>")
DOCUMENT_FIRST = """{% for role in ["document", "query"] %}{% for message in messages %}
{%- if message.role == role %}<{{ role }}> {{ message.content }}
{% endif %}{% endfor %}{% endfor %}yes or no?"""
TRIMMED = """{{ bos_token }}{% for message in messages -%}
<|im_start|>{{ message["role"] }}
{{ message["content"] | trim }}<|im_end|>
{% endfor %}"""
STRUCTURED = """{% for message in messages -%}
{{ message.role }}: {% for part in message.content if part["type"] == "text" %}{{ part.text }}\
{% endfor %}<|im_end|>
{% endfor %}"""


@cache
def _tokenizer_json() -> str:
    rust = Tokenizer(models.BPE())
    split = pre_tokenizers.Split(Regex(QWEN), "isolated")
    level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    rust.pre_tokenizer = pre_tokenizers.Sequence([split, level])
    rust.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=500, special_tokens=SPECIAL, initial_alphabet=BYTES, show_progress=False
    )
    lines = [*PROSE.splitlines(), *["yes", "no", "Yes", "the end.\n", "?\n"] * 300]
    rust.train_from_iterator(lines, trainer)
    rust.add_tokens([AddedToken(word, normalized=False) for word in ("<think>", "</think>")])
    return rust.to_str()


def write_reranker(
    folder: Path,
    *,
    model_type: str = "qwen3",
    template: str | dict[str, str] | None = TEMPLATE,
    max_length: int = 256,
    labels: int | None = None,
    **options: Any,
) -> Path:
    """Save a language model, or a classifier of it for a number of labels, and its tokenizer."""
    sizes = {
        **{"vocab_size": write_tokenizer(folder, max_length, template) + 3, "hidden_size": 64},
        **{"num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 1},
        **{
            "head_dim": 32,
            "intermediate_size": 128,
            "bos_token_id": 3,
            "eos_token_id": 0,
            "pad_token_id": 0,
        },
        **({} if labels is None else {"num_labels": labels}),
    }
    auto: Any = AutoModelForCausalLM if labels is None else AutoModelForSequenceClassification
    config = AutoConfig.for_model(model_type, **{**sizes, **options})
    model = without_weights(lambda: auto.from_config(config))
    randomize(model, norms=0.0 if "gemma" in model_type else 1.0)
    model.save_pretrained(folder)
    return folder


def write_tokenizer(
    folder: Path, max_length: int, template: str | dict[str, str] | None = None
) -> int:
    """Save the tokenizer; return its number of tokens."""
    rust = Tokenizer.from_str(_tokenizer_json())
    fast: Any = PreTrainedTokenizerFast
    tokenizer = fast(
        tokenizer_object=rust,
        bos_token="<bos>",
        eos_token="<|endoftext|>",
        pad_token="<|endoftext|>",
        model_max_length=max_length,
    )
    tokenizer.chat_template = template
    tokenizer.save_pretrained(folder)
    return int(rust.get_vocab_size())


def write_layout(
    folder: Path,
    answers: tuple[int, int | None] | None = None,
    message_format: str = "flat",
    card: dict[str, Any] | None = None,
    **variables: Any,
) -> Path:
    """Add the files of sentence-transformers. answers: ids of tokens, for a language model."""
    package = "sentence_transformers.base.modules.transformer.Transformer"
    modules = [{"idx": 0, "name": "0", "path": "", "type": package}]
    task, output = ("sequence-classification", "scores")
    if answers is not None:
        package = "sentence_transformers.cross_encoder.modules.logit_score.LogitScore"
        modules.append({"idx": 1, "name": "1", "path": "1_LogitScore", "type": package})
        task, output = ("text-generation", "causal_logits")
        (folder / "1_LogitScore").mkdir()
        score = {"true_token_id": answers[0], "false_token_id": answers[1]}
        write(folder / "1_LogitScore/config.json", score)
    forward = {"method": "forward", "method_output_name": "logits"}
    options = {
        "transformer_task": task,
        "modality_config": {"text": forward, "message": {**forward, "format": message_format}},
        "module_output_name": output,
        "processing_kwargs": {"chat_template": {"add_generation_prompt": True, **variables}},
    }
    write(folder / "sentence_bert_config.json", options)
    write(folder / "modules.json", modules)
    write(
        folder / "config_sentence_transformers.json", {"model_type": "CrossEncoder", **(card or {})}
    )
    return folder


def write(path: Path, content: Any) -> None:
    path.write_text(json.dumps(content), encoding="utf-8")


def token_id(folder: Path, token: str) -> int:
    """The id of a token."""
    id = Tokenizer.from_file(str(folder / "tokenizer.json")).token_to_id(token)
    assert id is not None
    return int(id)
