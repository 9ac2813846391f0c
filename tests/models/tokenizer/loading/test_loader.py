"""Tests of a folder's tokenizer, against transformers, and of the errors if it has none."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from tokenizers import AddedToken, normalizers, processors
from tokenizers import Tokenizer as Rust
from transformers import AutoTokenizer, Siglip2Tokenizer

from embedwell_models.errors import ModelError
from embedwell_models.tokenizer.loading import loader, tokenizer_kind
from embedwell_models.tokenizer.tokenizer import Tokenizer
from tests.models import kinds, raw
from tests.models.tiny import VOCABULARY, write_tokenizer


@pytest.mark.parametrize("case", raw.CASES)
def test_older_files_are_refused_with_the_command(case: str, tmp_path: Path) -> None:
    folder = raw.write(case, tmp_path)
    with pytest.raises(ModelError, match=r"has no tokenizer\.json: `embedwell convert"):
        Tokenizer(folder, 64)


def test_the_error_names_a_folder_without_a_tokenizer(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"has no tokenizer\.json$"):
        Tokenizer(tmp_path, 64)


def test_the_error_names_the_folder_of_a_broken_tokenizer(tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").write_text("{}", encoding="utf-8")
    with pytest.raises(ModelError, match=r"tokenizer\.json cannot be read"):
        Tokenizer(tmp_path, 64)


def test_tokenizer_json_takes_precedence_over_older_files(tmp_path: Path) -> None:
    folder = kinds.write("wordlevel", raw.write("bert", tmp_path))
    assert tokenizer_kind.files(folder) == [folder / "tokenizer.json"]
    assert len(Tokenizer(folder, 64).encode(["the work"])[0].ids) == 2


def test_a_marker_of_the_vocabulary_is_one_token(tmp_path: Path) -> None:
    write_tokenizer(tmp_path)
    ids = [
        Tokenizer(tmp_path, 64, markers=names).encode(["##a of"])[0].ids
        for names in ((), ("##a ",))
    ]
    assert [len(row) for row in ids] == [6, 4]
    assert ids[1][1] == VOCABULARY["##a"]


def test_markers_that_the_vocabulary_lacks_are_texts(tmp_path: Path) -> None:
    write_tokenizer(tmp_path)
    plain, marked = (Tokenizer(tmp_path, 64, markers=names) for names in ((), ("[Q] ", " ", "")))
    assert marked.encode(["[Q] of"])[0].ids == plain.encode(["[Q] of"])[0].ids


def test_a_tokenizer_that_panics_while_it_is_loaded_is_refused(tmp_path: Path) -> None:
    write_tokenizer(tmp_path)
    path = str(tmp_path / "tokenizer.json")
    rust = Rust.from_file(path)
    rust.normalizer = normalizers.Precompiled(b"\4\0\0\0" + b"\xff" * 4)  # leads beyond its end
    rust.save(path)
    with pytest.raises(ModelError, match="its file is broken: index out of bounds"):
        loader.load(tmp_path)


EOS = "<|endoftext|>"
QUERY = AddedToken("[Q]", special=True, normalized=False)
MASK = AddedToken("[MASK]", lstrip=True, special=True, normalized=False)
TEXTS = [
    *("Thé Lícense of THIS Work", "the 東京 work", " the work", "the work", ""),
    *("of [Q] the [MASK]work [q] [R]", "work <pad>the <mask> of"),
]


def write(folder: Path, kind: str, **files: Any) -> Path:
    """The tokenizer.json of a kind, and the other files by their names."""
    kinds.write(kind, folder)
    for name, content in files.items():
        (folder / f"{name}.json").write_text(json.dumps(content), encoding="utf-8")
    return folder


def listed(*tokens: AddedToken, start: int = 300) -> dict[str, Any]:
    """Return added tokens in the format of added_tokens_decoder."""
    ids = Rust.from_str(kinds.text("wordpiece")).get_vocab()
    return {
        str(ids.get(token.content, start + index)): token.__getstate__()
        for index, token in enumerate(tokens)
    }


def options(**values: Any) -> dict[str, Any]:
    return {"tokenizer_config": values}


def assert_same(folder: Path) -> None:
    """Assert that ids, and offsets of all but special tokens, equal those of transformers."""
    ours, theirs = Tokenizer(folder, 64), AutoTokenizer.from_pretrained(folder)
    for text in TEXTS:
        expected = theirs(text, return_offsets_mapping=True)
        tokens = ours.tokens(text)
        assert [token.id for token in tokens] == expected["input_ids"], text
        offsets = [(token.start or 0, token.stop or 0) for token in tokens]
        assert offsets == expected["offset_mapping"], text
    assert ours.vocab_size == len(theirs)


BERT = {
    "lower": {"do_lower_case": True},
    "cased": {"do_lower_case": False},
    "accents": {"strip_accents": False},
    "bare": {"do_lower_case": False, "strip_accents": True},
    "chinese": {"tokenize_chinese_chars": False},
    "unsaid": {},
}


@pytest.mark.parametrize("named", ["BertTokenizer", "BertTokenizerFast", "DistilBertTokenizer"])
@pytest.mark.parametrize("values", BERT.values(), ids=BERT)
def test_the_options_of_a_bert_class_override_its_file(
    tmp_path: Path, named: str, values: Mapping[str, Any]
) -> None:
    files = options(tokenizer_class=named, **values)
    assert_same(write(tmp_path, "wordpiece", config={"model_type": "bert"}, **files))


@pytest.mark.parametrize("kind", ["bert", "distilbert", "electra", "ernie", "nomic_bert"])
def test_a_model_without_a_tokenizer_class_uses_that_of_its_family(
    tmp_path: Path, kind: str
) -> None:
    files = options(do_lower_case=False)
    assert_same(write(tmp_path, "wordpiece", config={"model_type": kind}, **files))


def test_the_class_overrides_a_cased_file(tmp_path: Path) -> None:
    folder = write(tmp_path, "wordpiece", config={"model_type": "bert"})
    path = folder / "tokenizer.json"
    path.write_text(kinds.text("wordpiece").replace('"lowercase":true', '"lowercase":false'))
    assert_same(folder)


@pytest.mark.parametrize("named", ["PreTrainedTokenizerFast", "TokenizersBackend"])
def test_a_generic_class_leaves_the_file_as_it_is(tmp_path: Path, named: str) -> None:
    files = options(tokenizer_class=named, do_lower_case=False)
    card = {"model_type": "bert", "tokenizer_class": "BertTokenizer"}
    assert_same(write(tmp_path, "wordpiece", config=card, **files))


def test_the_class_may_be_named_in_config_json(tmp_path: Path) -> None:
    card = {"model_type": "roberta", "tokenizer_class": "BertTokenizer"}
    assert_same(write(tmp_path, "wordpiece", config=card, **options(do_lower_case=False)))


@pytest.mark.parametrize("values", [{}, {"add_prefix_space": True}, {"add_prefix_space": False}])
@pytest.mark.parametrize("kind", ["roberta", "gpt2"])
def test_the_options_decide_whether_a_space_is_put_before_a_text(
    tmp_path: Path, kind: str, values: dict[str, Any]
) -> None:
    files = options(eos_token={"roberta": "</s>", "gpt2": EOS}[kind], **values)
    assert_same(write(tmp_path, kind, config={"model_type": kind}, **files))


ADDED: Mapping[str, dict[str, Any]] = {
    "listed": options(added_tokens_decoder=listed(QUERY)),
    "again": options(added_tokens_decoder=listed(QUERY, MASK)),
    "named": options(eos_token="[Q]", additional_special_tokens=["[R]"]),
    "objects": options(mask_token={"__type": "AddedToken", **MASK.__getstate__()}),
    "older": {
        "added_tokens": {"[Q]": 300},
        "special_tokens_map": {"mask_token": MASK.__getstate__()},
    },
}


@pytest.mark.parametrize("named", ["BertTokenizer", "PreTrainedTokenizerFast"])
@pytest.mark.parametrize("files", ADDED.values(), ids=ADDED)
def test_tokens_of_the_files_next_to_tokenizer_json_are_added(
    tmp_path: Path, files: Mapping[str, Any], named: str
) -> None:
    files = {**files, **options(**files.get("tokenizer_config", {}), tokenizer_class=named)}
    assert_same(write(tmp_path, "wordpiece", config={"model_type": "bert"}, **files))


def test_an_added_token_with_contradictory_ids_is_refused(tmp_path: Path) -> None:
    files = options(added_tokens_decoder=listed(QUERY, start=777))
    with pytest.raises(ModelError, match=r"'\[Q\]' has id 300 .* and 777 next to it"):
        Tokenizer(write(tmp_path, "wordpiece", **files), 64)


def qwen(folder: Path, **values: Any) -> Path:
    """Qwen 2 without a template, as GTE lays it out."""
    files = options(eos_token=EOS, tokenizer_class="Qwen2Tokenizer", **values)
    write(folder, "qwen", config={"model_type": "qwen2"}, **files)
    rust = Rust.from_file(str(folder / "tokenizer.json"))
    rust.post_processor = processors.ByteLevel(trim_offsets=False)
    rust.save(str(folder / "tokenizer.json"))
    return folder


OWN = {
    "pair": {"AutoTokenizer": ["tokenization_qwen.Qwen2Tokenizer", "x.Qwen2TokenizerFast"]},
    "slow": {"AutoTokenizer": ["tokenization_qwen.Qwen2Tokenizer", None]},
    "list": ["organisation/name--tokenization_qwen.Qwen2Tokenizer", None],
}


@pytest.mark.parametrize("auto_map", OWN.values(), ids=OWN)
def test_a_custom_class_appends_eos_if_the_options_say_so(tmp_path: Path, auto_map: object) -> None:
    plain = Tokenizer(qwen(tmp_path), 64).encode(TEXTS)
    ended = Tokenizer(qwen(tmp_path, auto_map=auto_map, add_eos_token=True), 64)
    (eos,) = ended.special_tokens.suffix
    assert ended.name(eos) == EOS
    assert [row.ids for row in ended.encode(TEXTS)] == [[*row.ids, eos] for row in plain]
    silent = Tokenizer(qwen(tmp_path, auto_map=auto_map, add_eos_token=False), 64)
    assert silent.encode(TEXTS) == plain


def test_eos_is_appended_only_once(tmp_path: Path) -> None:
    files = options(auto_map=OWN["pair"], add_eos_token=True, eos_token=EOS)
    ended = Tokenizer(write(tmp_path, "qwen", **files), 64)
    assert [token.text for token in ended.tokens("of")] == ["of", EOS]


def test_eos_is_appended_behind_the_tokens_of_a_template(tmp_path: Path) -> None:
    plain = Tokenizer(qwen(tmp_path), 64).encode(TEXTS)
    folder = qwen(tmp_path, auto_map=OWN["pair"], add_eos_token=True)
    rust = Rust.from_file(str(folder / "tokenizer.json"))
    first = rust.token_to_id("of")
    rust.post_processor = processors.TemplateProcessing(
        single=["of", "$A"], special_tokens=[("of", first)]
    )
    rust.save(str(folder / "tokenizer.json"))
    ended = Tokenizer(folder, 64)
    special = ended.special_tokens
    assert (special.prefix, [ended.name(id) for id in special.suffix]) == ([first], [EOS])
    assert [ended.strip(row) for row in ended.encode(TEXTS)] == [row.ids for row in plain]


def mistral(folder: Path, template: str, pair: str | None = None, **values: Any) -> Path:
    """A folder like those of Mistral, with the post-processor `template`."""
    files = options(bos_token="<s>", eos_token="</s>", tokenizer_class="LlamaTokenizer", **values)
    write(folder, "llama", config={"model_type": "mistral"}, **files)
    rust = Rust.from_file(str(folder / "tokenizer.json"))
    special = [(name, rust.token_to_id(name)) for name in ("<s>", "</s>")]
    rust.post_processor = processors.TemplateProcessing(
        single=template, pair=pair, special_tokens=special
    )
    rust.save(str(folder / "tokenizer.json"))
    return folder


@pytest.mark.parametrize("template", ["<s> $A", "$A", "<s> $A </s>"])
def test_a_known_class_appends_eos_if_the_options_say_so(tmp_path: Path, template: str) -> None:
    ended = Tokenizer(mistral(tmp_path, template, add_eos_token=True), 64)
    plain = AutoTokenizer.from_pretrained(mistral(tmp_path, "<s> $A </s>"))
    start = slice(None if template.startswith("<s>") else 1, None)
    expected = [plain(text)["input_ids"][start] for text in TEXTS]
    assert [row.ids for row in ended.encode(TEXTS)] == expected
    assert [ended.name(id) for id in ended.special_tokens.suffix] == ["</s>"]


def test_each_text_of_a_pair_gets_the_eos_that_the_options_add(tmp_path: Path) -> None:
    folder = mistral(tmp_path, "<s> $A", "<s> $A <s>:1 $B:1", add_eos_token=True)
    rust = loader.load(folder).rust
    pair = rust.encode("of", "the")
    assert [token for token in pair.tokens if token in {"<s>", "</s>"}] == ["<s>", "</s>"] * 2
    assert pair.tokens[-1] == "</s>" and pair.type_ids[-1] == 1
    assert mistral(tmp_path, "<s> $A", "<s> $A </s> $B", add_eos_token=True)
    assert loader.load(folder).rust.encode("of", "the").tokens.count("</s>") == 2


@pytest.mark.parametrize(
    ("template", "values", "problem"),
    [
        ("<s> $A </s>", {"add_eos_token": False}, "add_eos_token: false, but .* adds </s>"),
        ("<s> $A", {"add_bos_token": False}, "add_bos_token: false, but .* adds <s>"),
        ("$A </s>", {"add_bos_token": True}, "add_bos_token: true, but .* does not add <s>"),
        ("<s> $A", {"add_bos_token": True, "add_eos_token": True}, None),
        ("<s> $A", {"add_bos_token": True, "add_eos_token": False}, None),
        ("$A", {}, None),
    ],
)
def test_options_that_contradict_the_post_processor_are_warned_of(
    tmp_path: Path,
    template: str,
    values: Mapping[str, Any],
    problem: str | None,
    caplog: pytest.LogCaptureFixture,
) -> None:
    Tokenizer(mistral(tmp_path, template, **values), 64)
    assert bool(caplog.messages) == (problem is not None)
    if problem:
        assert re.search(problem, caplog.messages[0])


def test_an_unknown_custom_class_is_refused(tmp_path: Path) -> None:
    folder = qwen(tmp_path, auto_map={"AutoTokenizer": ["tokenization_own.OwnTokenizer", None]})
    with pytest.raises(ModelError, match=r"OwnTokenizer.* is code of the model, which is not run"):
        Tokenizer(folder, 64)


@pytest.mark.parametrize("files", [{"tokenizer_class": "RoFormerTokenizerFast"}, {}])
def test_a_tokenizer_that_needs_another_library_is_refused(
    files: dict[str, str], tmp_path: Path
) -> None:
    folder = write(tmp_path, "wordpiece", config={"model_type": "roformer"}, **options(**files))
    with pytest.raises(ModelError, match="splits words by jieba"):
        Tokenizer(folder, 64)
    named = options(tokenizer_class="BertTokenizer")
    assert_same(write(tmp_path, "wordpiece", config={"model_type": "roformer"}, **named))


def test_the_files_next_to_tokenizer_json_determine_ids_too(tmp_path: Path) -> None:
    folder = write(tmp_path, "wordpiece", **options(do_lower_case=True), added_tokens={})
    names = [path.name for path in tokenizer_kind.files(folder)]
    assert names == ["tokenizer.json", "tokenizer_config.json", "added_tokens.json"]


@pytest.mark.parametrize("model_type", ["siglip", "siglip2"])
@pytest.mark.parametrize("named", ["GemmaTokenizer", "GemmaTokenizerFast", "Siglip2Tokenizer"])
def test_texts_of_siglip2_are_lowercased_as_in_training(
    named: str, model_type: str, tmp_path: Path
) -> None:
    texts = TEXTS[:-1]  # the last one has special tokens that the vocabulary lacks
    write(tmp_path, "gemma", tokenizer_config={"tokenizer_class": named})
    as_gemma = Tokenizer(tmp_path, 64).encode(texts)
    write(tmp_path, "gemma", config={"model_type": model_type})
    ours = Tokenizer(tmp_path, 64)
    found = [list(row.ids) for row in ours.encode(texts)]
    assert found == Siglip2Tokenizer.from_pretrained(tmp_path)(texts)["input_ids"]
    assert found == [list(row.ids) for row in ours.encode([text.lower() for text in texts])]
    assert (found[0] == list(as_gemma[0].ids)) == (named == "Siglip2Tokenizer")
