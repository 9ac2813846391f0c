"""Tables of sentence-transformers' WordEmbeddings compared with the library itself."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer import modules as st
from sentence_transformers.sentence_transformer.modules.tokenizer import WhitespaceTokenizer

from embedwell_classic.convert.model import convert_folder
from embedwell_classic.words.table import WordTable
from embedwell_models.config.model_options import ModelOptions
from embedwell_models.description import model_fingerprint
from embedwell_models.description.footprint import Footprint
from embedwell_models.description.model_description import ModelDescription
from embedwell_models.embedder import Embedder
from embedwell_models.errors import ModelError
from tests.models.classic.convert.older import pickled
from tests.models.model_files.chains import randomised
from tests.models.word_files import WIDTH, WORDS, vectors

VOCABULARY = ["PADDING_TOKEN", *WORDS]
TEXTS = [
    *("the king", "Berlin, (QUEEN) «man»", "", " ", "nothing known", "PADDING_TOKEN the"),
    *("the\u00a0U.S.\u2003the\tking\n日本", "'king' king-queen -- x", "STRASSE straße"),
]
TABLE = vectors(len(VOCABULARY))
Modules = Sequence[Any]


def save(folder: Path, after: Modules, **options: Any) -> SentenceTransformer:
    """Save a table, and what follows it; return the library's model."""
    tokenizer = WhitespaceTokenizer(VOCABULARY, **{"stop_words": {"the"}, **options})
    table = st.WordEmbeddings(tokenizer, TABLE)
    model = SentenceTransformer(modules=[table, *after], device="cpu")
    model.save_pretrained(str(folder), create_model_card=False)
    return model


def load(folder: Path) -> Embedder:
    return Embedder.load(folder, device="cpu")


def weights() -> Any:
    words = {"king": 3.0, "berlin": 0.5, "x": 0.0}
    return st.WordWeights(VOCABULARY, words, unknown_word_weight=0.25)


CHAINS: dict[str, Callable[[], Modules]] = {
    "mean": lambda: [st.Pooling(WIDTH)],
    "max": lambda: [st.Pooling(WIDTH, "max")],
    "two": lambda: [st.Pooling(WIDTH, ("mean_sqrt_len_tokens", "max"))],
    "weightedmean": lambda: [st.Pooling(WIDTH, "weightedmean")],
    "weights": lambda: [weights(), st.Pooling(WIDTH)],
    "weights, two": lambda: [
        weights(),
        st.Pooling(WIDTH, ("mean", "mean_sqrt_len_tokens", "max")),
        st.Normalize(),
    ],
    "dense": lambda: [st.Pooling(WIDTH), randomised(st.Dense(WIDTH, 5)), st.Normalize()],
}


@pytest.mark.parametrize("chain", CHAINS)
def test_every_chain_equals_sentence_transformers(tmp_path: Path, chain: str) -> None:
    theirs, ours = save(tmp_path, CHAINS[chain]()), load(tmp_path)
    # Of a text without words, the maximum there is that of no numbers.
    texts = [text for text in TEXTS if ours.tokenize([text])[0]]
    known = [text for text in texts if not {*ours.tokenize([text])[0]} <= {len(TABLE)}]
    compared = known if "max" in ours.recipe.pooling else TEXTS
    assert len(known) == 6
    np.testing.assert_allclose(ours.embed(compared), theirs.encode(compared), atol=1e-6)
    assert ours.dim == ModelDescription.read(tmp_path).dim == theirs.encode(["x"]).shape[1]


@pytest.mark.parametrize("options", [{"do_lower_case": True}, {"stop_words": set()}], ids=str)
def test_the_options_of_the_tokenizer_count(tmp_path: Path, options: dict[str, Any]) -> None:
    theirs = save(tmp_path, [st.Pooling(WIDTH)], **options)
    np.testing.assert_allclose(load(tmp_path).embed(TEXTS), theirs.encode(TEXTS), atol=1e-6)


def test_a_text_is_the_same_bits_alone_and_in_a_batch(tmp_path: Path) -> None:
    save(tmp_path, [weights(), st.Pooling(WIDTH, ("mean", "max"))])
    ours = load(tmp_path)
    alone = np.concatenate([ours.embed([text]) for text in TEXTS])
    assert ours.embed(TEXTS).tobytes() == alone.tobytes()


def test_unknown_words_have_tokens_but_do_not_change_the_mean(tmp_path: Path) -> None:
    save(tmp_path, [st.Pooling(WIDTH)], stop_words=set())
    ours = load(tmp_path)
    tokens = ours.tokenizer.tokens("the unknown King!")
    assert [token.text for token in tokens] == ["the", "unknown", "King"]
    assert [ours.tokenizer.in_vocabulary(token.id) for token in tokens] == [True, False, True]
    (states,) = ours.hidden([[token.id for token in tokens]])
    np.testing.assert_array_equal(states, [TABLE[1], np.zeros(WIDTH), TABLE[2]])
    np.testing.assert_array_equal(*ours.embed(["the unknown king", "the king"]))


def test_an_older_folder_is_converted_and_read(tmp_path: Path) -> None:
    theirs = save(tmp_path / "new", [weights(), st.Pooling(WIDTH)])
    inner = tmp_path / "new" / "0_WordEmbeddings"
    inner.mkdir()
    for name in (
        "model.safetensors",
        "wordembedding_config.json",
        "whitespacetokenizer_config.json",
    ):
        (tmp_path / "new" / name).rename(inner / name)
    pickled(inner)
    path = tmp_path / "new" / "modules.json"
    listed = json.loads(path.read_text())
    listed[0]["path"] = inner.name
    path.write_text(json.dumps(listed))
    convert_folder(tmp_path / "new", tmp_path / "target")
    ours = load(tmp_path / "target").embed(TEXTS)
    np.testing.assert_allclose(ours, theirs.encode(TEXTS), atol=1e-6)


def test_a_folder_is_described_without_its_weights(tmp_path: Path) -> None:
    save(tmp_path, [weights(), st.Pooling(WIDTH)])
    folder = ModelDescription.read(tmp_path)
    assert (folder.task, folder.outputs) == ("embed", ("dense",))
    assert Footprint.of(folder).parameters == TABLE.size + len(TABLE)
    table = WordTable.of(folder)
    assert table is not None and len(table) == len(VOCABULARY)
    np.testing.assert_array_equal(table[2:5], TABLE[2:5])


def test_the_weights_of_words_and_the_vocabulary_decide_the_fingerprint(tmp_path: Path) -> None:
    save(tmp_path, [weights(), st.Pooling(WIDTH)])
    names = ("1_WordWeights/model.safetensors", "whitespacetokenizer_config.json")
    for name in (*names, "wordembedding_config.json"):
        before, path = (
            model_fingerprint.fingerprint(ModelDescription.read(tmp_path)),
            tmp_path / name,
        )
        path.write_bytes(path.read_bytes().rstrip(b"\n") + b"\n")
        changed = name.endswith(".json")
        if not changed:
            raw = bytearray(path.read_bytes()[:-1])
            raw[-1] ^= 1
            path.write_bytes(raw)
        assert model_fingerprint.fingerprint(ModelDescription.read(tmp_path)) != before, name


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"wordembedding_config.json": {"tokenizer_class": "a.PhraseTokenizer"}}, "Phrase"),
        (
            {"2_Pooling/config.json": {"pooling_mode": "weightedmean"}},
            "WordWeights with",
        ),
    ],
)
def test_what_is_not_implemented_is_refused_by_name(
    tmp_path: Path, change: dict[str, Any], message: str
) -> None:
    save(tmp_path, [weights(), st.Pooling(WIDTH)])
    for name, content in change.items():
        (tmp_path / name).write_text(json.dumps(content))
    with pytest.raises(ModelError, match=message):
        ModelDescription.read(tmp_path)


@pytest.mark.parametrize(
    "values",
    [
        {"word_weights": {"king": 9.0}},
        {"unknown_word_weight": 7},
        {"vocab": VOCABULARY[::-1]},
        {"vocab": VOCABULARY[:5]},
    ],
    ids=str,
)
def test_options_of_other_weights_than_the_tensor_are_refused(
    values: dict[str, Any], tmp_path: Path
) -> None:
    save(tmp_path, [weights(), st.Pooling(WIDTH)])
    path = tmp_path / "1_WordWeights" / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **values}))
    with pytest.raises(ModelError, match=f"config.json: .*{next(iter(values))}.* contradict"):
        load(tmp_path)


@pytest.mark.parametrize(
    "name",
    ["1_WordWeights/config.json", "wordembedding_config.json", "whitespacetokenizer_config.json"],
)
def test_an_unknown_option_is_refused_by_its_name(name: str, tmp_path: Path) -> None:
    save(tmp_path, [weights(), st.Pooling(WIDTH)])
    path = tmp_path / name
    path.write_text(json.dumps({**json.loads(path.read_text()), "new_gate": 2}))
    with pytest.raises(ModelError, match=rf"{name}: new_gate = 2 is not known"):
        load(tmp_path)


@pytest.mark.parametrize("kinds", [["WordEmbeddings", "LSTM"], ["WordEmbeddings"], ["WordWeights"]])
def test_other_modules_after_a_table_are_refused(tmp_path: Path, kinds: list[str]) -> None:
    save(tmp_path, [st.Pooling(WIDTH)])
    listed = [
        {"type": f"sentence_transformers.models.{kind}", "path": f"{index}_{kind}" * bool(index)}
        for index, kind in enumerate(kinds)
    ]
    (tmp_path / "modules.json").write_text(json.dumps(listed))
    with pytest.raises(ModelError, match=r"not supported|has no Pooling"):
        ModelDescription.read(tmp_path)


def test_a_pooling_of_the_operator_counts(tmp_path: Path) -> None:
    save(tmp_path, [st.Pooling(WIDTH)])
    ours = Embedder.load(tmp_path, device="cpu", pooling="max")
    ids = [WORDS.index(word) + 1 for word in ("queen", "man")]
    np.testing.assert_array_equal(ours.embed(["queen man"])[0], TABLE[ids].max(axis=0))
    with pytest.raises(ModelError, match="'splade' is not supported"):
        ModelDescription.read(tmp_path, ModelOptions(pooling="splade"))


def test_weights_of_another_number_of_words_are_refused(tmp_path: Path) -> None:
    save(tmp_path, [weights(), st.Pooling(WIDTH)])
    table = tmp_path / "model.safetensors"
    (tmp_path / "1_WordWeights" / "model.safetensors").write_bytes(table.read_bytes())
    with pytest.raises(ModelError, match="1_WordWeights has"):
        load(tmp_path)
