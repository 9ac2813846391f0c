"""Compare how fast this engine and the authors' code make decisions, in turn in one run.

The model has the shape of Laya (ModernBERT-large and two layers) and random weights. Each decision
is a question with three options about another text: 83 tokens together.
"""

import argparse
import json
import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import machine, script
from benchmarks.peers.decisions import INSTRUCTIONS, OPTIONS
from benchmarks.script import spread, summary, table
from benchmarks.turns import Contest, Contestant, compare, numbers

TOKENS = 83  # of a question with its text
SIZES = (8, 1)  # decisions of a request
_TEXTS = 8
_LAYERS = 2  # after the encoder
_PEERS = "decisions"  # their environment
_OURS = "this, "
_SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
_HEADING = ("choice", "score", "noul", "question", ":")
LARGE: Mapping[str, Any] = {
    "vocab_size": 50368,
    "hidden_size": 1024,
    "intermediate_size": 2624,
    "num_hidden_layers": 28,
    "num_attention_heads": 16,
}
"""Sizes of ModernBERT-large."""


def contestants() -> list[Contestant]:
    """Return all contestants, the reference first."""
    precisions = ("float32", "bfloat16", "int8")
    return [
        Contestant("laya on transformers, float32", "on_transformers", "float32", _PEERS),
        Contestant("laya on transformers, bfloat16", "on_transformers", "bfloat16", _PEERS),
        Contestant("laya on onnxruntime, float32", "on_onnxruntime", "float32", _PEERS),
        *(Contestant(f"{_OURS}{dtype}", "ours", dtype, None) for dtype in precisions),
    ]


def run(args: argparse.Namespace) -> dict[str, Any]:
    """Run the comparison; return the results for the file."""
    texts = write_texts(args.home, args.seed)
    contest = Contest("decisions", write_model(args.home), texts, SIZES)
    entries = compare(contestants(), contest, args)
    outputs = [np.array(entry.outputs) for entry in entries]
    return {
        "machine": machine.describe(),
        "threads": args.threads,
        "rounds": args.rounds,
        "engines": {
            entry.name: {
                **numbers(entry),
                "max_difference": float(np.abs(each - outputs[0]).max()),
            }
            for entry, each in zip(entries, outputs, strict=True)
        },
    }


def write_texts(home: Path, seed: int) -> Path:
    """Write texts of words of the model's vocabulary; return the file."""
    options = [option.split() for option in OPTIONS]
    # [CLS], the kind, "question", ":" and [SEP]; [MASK] and an option each; [SEP] and [SEP].
    question = 5 + len(INSTRUCTIONS.split()) + sum(1 + len(each) for each in options)
    dice = random.Random(seed)
    texts = [
        " ".join(f"w{dice.randrange(100)}" for _ in range(TOKENS - question - 2))
        for _ in range(_TEXTS)
    ]
    file = home / f"decisions-{seed}.json"
    file.write_text(json.dumps(texts), encoding="utf-8")
    return file


def write_model(home: Path, sizes: Mapping[str, Any] = LARGE) -> Path:
    """Save a Laya of random weights, with a tokenizer of whole words; return the folder."""
    import torch
    from laya.common import DecisionModel
    from safetensors.torch import save_file
    from transformers import ModernBertConfig, ModernBertModel

    folder = home / "models" / f"laya-{sizes['hidden_size']}"
    if (folder / "model.safetensors").exists():
        return folder
    _write_tokenizer(folder / "tokenizer", sizes["vocab_size"])
    ids: dict[str, Any] = {
        f"{name[1:-1].lower()}_token_id": i for i, name in enumerate(_SPECIAL[:4]) if i != 1
    }
    # With larger weights than usual at the start, or all options are as probable.
    config = ModernBertConfig(
        **sizes, **ids, bos_token_id=2, eos_token_id=3, initializer_range=0.04
    )
    config.save_pretrained(folder / "encoder")
    stated = {
        **{"encoder": "answerdotai/ModernBERT-large", "act_costs": {"review": 0.1}},
        **{"head_layers": _LAYERS, "max_len": 512, "head_max_len": 192},
    }
    (folder / "rl_agent_config.json").write_text(json.dumps(stated), encoding="utf-8")
    torch.manual_seed(0)
    model = DecisionModel(ModernBertModel(config), _LAYERS, n_act=2)
    torch.nn.init.normal_(model.scorer[-1].weight, std=0.3)
    save_file(model.state_dict(), folder / "model.safetensors")
    return folder


def _write_tokenizer(folder: Path, vocab_size: int) -> None:
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    words = [*_SPECIAL, *_HEADING]
    words += [f"w{number}" for number in range(vocab_size - len(words))]
    rust = Tokenizer(models.WordPiece({word: i for i, word in enumerate(words)}, unk_token="[UNK]"))
    rust.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    rust.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    roles = {f"{name[1:-1].lower()}_token": name for name in _SPECIAL}
    fast: Any = PreTrainedTokenizerFast
    fast(tokenizer_object=rust, **roles).save_pretrained(folder)


def report(results: Mapping[str, Any]) -> str:
    """Return the numbers as a text table."""
    engines = results["engines"]
    rates = {
        name: summary([SIZES[0] / seconds for seconds in engine["seconds"][str(SIZES[0])]])
        for name, engine in engines.items()
    }
    peers = [rate["median"] for name, rate in rates.items() if not name.startswith(_OURS)]
    rows = [
        [
            name,
            spread(rates[name], 2),
            f"{rates[name]['median'] / max(peers):.2f}" if peers else "",
            spread(summary(engine["seconds"][str(SIZES[1])]), 0, 1000),
            f"{engine['start']:.1f}",
            f"{engine['peak']:.0f}",
            f"{engine['max_difference']:.1e}",
        ]
        for name, engine in engines.items()
    ]
    header = ["", "decisions/s", "to the best peer", "p50 of one, ms", "start, s", "peak, MB"]
    title = f"Laya, {TOKENS} tokens, {results['threads']} threads, {results['rounds']} rounds"
    return "\n".join(
        [machine.line(results["machine"]), table(title, [*header, "largest difference"], rows)]
    )


def main() -> None:
    script.main(script.parser(__doc__, "decisions"), run, report)


if __name__ == "__main__":
    main()
