"""About a thousand texts on which the vectors of two precisions are compared.

Prose and code come from Python itself. None of them is a reference sentence of the package.
"""

import argparse
import heapq
import inspect
import json
import random
import string
import textwrap
import zipfile
from collections.abc import Callable, Mapping, Sequence

from deploy.loadtest.corpus import Corpus

_SCRIPTS = {
    "Arabic": "المدينة القديمة تقع على ضفة النهر حيث يعيش كثير من الناس منذ قرون",
    "Bengali": "নদীর ধারে একটি ছোট গ্রাম আছে যেখানে মানুষ মাছ ধরে জীবন কাটায়",
    "Chinese": "我们 昨天 在 图书馆 里 看到 一 本 关于 海洋 动物 的 新 书 很 有意思",
    "Greek": "το παλιό λιμάνι είναι γεμάτο βάρκες και τα παιδιά παίζουν δίπλα στη θάλασσα",
    "Hebrew": "הספר הישן נמצא על המדף ליד החלון והילדים קוראים בו כל ערב",
    "Hindi": "बाज़ार में आज बहुत भीड़ है और लोग ताज़े फल और सब्ज़ियाँ खरीद रहे हैं",
    "Japanese": "駅 の 前 に 新しい 喫茶店 が できた ので 友達 と コーヒー を 飲み ました",
    "Korean": "어제 저녁 에 친구 와 함께 강가 를 걸으며 오랫동안 이야기 를 나누었다",
    "Polish": "żółta łódź płynie powoli wzdłuż brzegu gdzie dzieci łowią ryby każdego ranka",
    "Russian": "старый мост через реку закрыли на ремонт поэтому автобус идёт другой дорогой",
    "Thai": "วันนี้ อากาศ ดี มาก เรา จึง ไป เดินเล่น ที่ สวน ใกล้ บ้าน",
    "Turkish": "küçük çocuk bahçede gördüğü kuşu annesine anlatırken çok heyecanlıydı",
    "Ukrainian": "щороку восени птахи відлітають на південь і повертаються навесні",
    "Vietnamese": "buổi sáng người dân trong làng mang rau và cá ra chợ để bán",
}
_LATIN = ("Polish", "Turkish", "Vietnamese")
_MODULES = (argparse, heapq, inspect, json, random, string, textwrap, zipfile)
_EMOJI = "😂🙏🚀🐙🎉🌧️🧪📦🇯🇵🇩🇪👩‍💻💔✅❌"
_LINE = 3, 16  # fewest and most lines of a piece of code


def texts(seed: int = 0) -> Mapping[str, Sequence[str]]:
    """Return 1,048 texts by their kind. The same seed gives the same texts."""
    dice = random.Random(seed)
    corpus, lines = Corpus(dice), _lines_of_code()
    kinds: Sequence[tuple[str, int, Callable[[], str]]] = (
        ("short prose", 250, lambda: corpus.cut(2, 14)),
        ("passages", 80, lambda: corpus.cut(40, 150)),
        ("code", 150, lambda: _piece(dice, lines)),
        ("other scripts", 200, lambda: _script(dice)),
        ("one word", 150, lambda: corpus.cut(1, 1).strip(string.punctuation) or "the"),
        ("one character", 60, lambda: _character(dice)),
        ("numbers and signs", 100, lambda: _signs(dice)),
    )
    drawn = {kind: [draw() for _ in range(count)] for kind, count, draw in kinds}
    runs = [sign * count for sign in "?!.-_=#*0aあ😂" for count in (10, 50, 100, 300)]
    return drawn | {"empty": ["", " ", "\n", "\t", "  \n\n "] * 2, "runs of one sign": runs}


def _lines_of_code() -> Sequence[str]:
    return [line for module in _MODULES for line in inspect.getsource(module).splitlines()]


def _piece(dice: random.Random, lines: Sequence[str]) -> str:
    count = dice.randint(*_LINE)
    start = dice.randrange(len(lines) - count)
    return textwrap.dedent("\n".join(lines[start : start + count])) or "pass"


def _script(dice: random.Random) -> str:
    name = dice.choice([*_SCRIPTS])
    words = _SCRIPTS[name].split()
    joint = "" if name in ("Chinese", "Japanese", "Thai") else " "
    return joint.join(dice.choices(words, k=dice.randint(1, 24)))


def _character(dice: random.Random) -> str:
    others = "".join(_SCRIPTS[name] for name in _SCRIPTS if name not in _LATIN)
    alphabet = dice.choice([string.ascii_letters, string.digits, string.punctuation, others])
    return dice.choice(alphabet.replace(" ", ""))


def _signs(dice: random.Random) -> str:
    alphabet = dice.choice([string.digits + " .,%", string.punctuation, _EMOJI, string.hexdigits])
    if dice.random() < 0.2:
        return dice.choice(alphabet) * dice.randint(2, 60)
    return "".join(dice.choices(alphabet, k=dice.randint(2, 40)))
