"""Tests of the door to images: a process of texts loads nothing behind it."""

import subprocess
import sys

from tests.conftest import Folder


def test_a_model_of_texts_loads_nothing_of_images(tiny_bert: Folder) -> None:
    program = (
        "import sys; from embedwell_models import Embedder; folder = sys.argv[1]\n"
        "embedder = Embedder.load(folder, device='cpu'); embedder.warm()\n"
        "assert embedder.embed(['a text']).shape[0] == 1 and embedder.image_dtype is None\n"
        "assert not {'embedwell_vision', 'PIL'} & {*sys.modules}\n"
        "try: embedder.embed_images([b'?'])\n"
        "except ValueError as error: assert 'no image encoder' in str(error)\n"
        "assert 'embedwell_vision' in sys.modules\n"
    )
    process = subprocess.run(
        [sys.executable, "-c", program, str(tiny_bert())],
        capture_output=True,
        text=True,
        check=False,
    )
    assert process.returncode == 0, process.stderr
