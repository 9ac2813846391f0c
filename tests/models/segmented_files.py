"""Tokenizers of vocab.txt, of Japanese and of Vietnamese, with vocabularies of prose."""

import json
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

JAPANESE = [  # Natsume Sōseki, "I Am a Cat" and "Botchan", 1905 and 1906
    "吾輩は猫である。名前はまだ無い。",
    "どこで生れたかとんと見当がつかぬ。何でも薄暗いじめじめした所でニャーニャー泣いていた事だけは記憶している。",
    "吾輩はここで始めて人間というものを見た。しかもあとで聞くとそれは書生という人間中で一番獰悪な種族であったそうだ。",
    "親譲りの無鉄砲で小供の時から損ばかりしている。小学校に居る時分学校の二階から飛び降りて一週間ほど腰を抜かした事がある。",
]
ODD_JAPANESE = [
    *(
        "",
        " ",
        "　　",
        "ABC Ｄｅｆ １２３",
        "㌔㍍ ㈱ ﾊﾝｶｸ ｶﾞ",
        "が は\u3099 が",
        "猫\n名前\t人間\r\n書生",
    ),
    *(
        "東京都の😀と👩‍👩‍👧",
        "[CLS] 猫 [SEP] 犬[MASK]",
        "x" * 120,
        "学校の\u2028二階\x1f腰",
        "Café ÀÉ Σ",
        "。。、！？",
    ),
    *("〜～−–", "e\u0301 \u200b猫\ufeff", "吾輩は猫である。" * 40),
]
VIETNAMESE = [  # Nguyễn Du, "The Tale of Kiều"; words are joined by _
    "Trăm năm trong cõi người_ta , chữ tài chữ mệnh khéo là ghét nhau .",
    "Trải qua một cuộc bể_dâu , những điều trông thấy mà đau_đớn lòng .",
    "Lạ gì bỉ_sắc tư_phong , trời xanh quen thói má hồng đánh ghen .",
]
ODD_VIETNAMESE = [
    *(
        "",
        " ",
        "người_ta\nchữ tài\n",
        "a\n\nb \n c\r\nd",
        "một\u00a0cuộc\u3000bể",
        "😀 chữ",
        "<s> chữ <mask> tài</s>",
    ),
    *("x", "@@ a@@ </w>", "ngườingười_người", "e\u0301 Trăm", "người_ta " * 400, "đau" * 50),
]


def write_japanese(folder: Path, *, subwords: str = "wordpiece", **options: Any) -> Path:
    """Write the tokenizer of a BERT of Japanese; options: of tokenizer_config.json."""
    import fugashi
    import unidic_lite

    tagger = fugashi.GenericTagger(f'-d "{unidic_lite.DICDIR}" -r "{unidic_lite.DICDIR}/mecabrc"')
    text = "".join(JAPANESE)
    words = Counter(node.surface for line in JAPANESE for node in tagger(line))
    letters = sorted({*text, *"abcdefxABCDEFX0123キロメートル株が"})
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    pieces += letters if subwords == "character" else [*words, *(f"##{x}" for x in letters), "xx"]
    folder.mkdir(parents=True, exist_ok=True)
    vocabulary = dict.fromkeys([*pieces, *letters[::2]])
    (folder / "vocab.txt").write_text("\n".join(vocabulary) + "\n", encoding="utf-8")
    own = {
        "tokenizer_class": "BertJapaneseTokenizer",
        "word_tokenizer_type": "mecab",
        "subword_tokenizer_type": subwords,
        "mecab_kwargs": {"mecab_dic": "unidic_lite"},
        "do_lower_case": False,
    }
    (folder / "tokenizer_config.json").write_text(json.dumps({**own, **options}))
    (folder / "config.json").write_text('{"model_type": "bert"}')
    return folder


def write_phobert(folder: Path) -> Path:
    """Write the tokenizer of a PhoBERT, whose merges make symbols that its vocabulary lacks."""
    words = Counter(word for line in VIETNAMESE for word in line.split())
    symbols = {word: (*word[:-1], f"{word[-1]}</w>") for word in words}
    merges: list[tuple[str, str]] = []
    for _ in range(60):
        pairs: Counter[tuple[str, str]] = Counter()
        for word, parts in symbols.items():
            pairs.update(dict.fromkeys(pairwise(parts), words[word]))
        merges.append(max(sorted(pairs), key=pairs.__getitem__))
        symbols = {word: _merged(parts, merges[-1]) for word, parts in symbols.items()}
    made = [a + b for a, b in merges] + sorted({*"".join(VIETNAMESE)} - {" "})
    named = [s.removesuffix("</w>") if s.endswith("</w>") else f"{s}@@" for s in made]
    lines = [f"{name} 9" for name in dict.fromkeys(named[::2])]  # the others are unknown
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "vocab.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    codes = "".join(f"{a} {b} 9\n" for a, b in merges)
    (folder / "bpe.codes").write_text(codes, encoding="utf-8")
    config = {"model_type": "roberta", "tokenizer_class": "PhobertTokenizer"}
    (folder / "config.json").write_text(json.dumps(config))
    return folder


def _merged(parts: tuple[str, ...], pair: tuple[str, str]) -> tuple[str, ...]:
    merged: list[str] = []
    for part in parts:
        if merged and (merged[-1], part) == pair:
            merged[-1] += part
        else:
            merged.append(part)
    return tuple(merged)
