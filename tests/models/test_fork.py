"""A process that is forked after the model has computed on several threads."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import Folder
from tests.models.built import BUILT

_TIMEOUT = 300  # seconds; a child that waits for threads of its parent never ends

_PROGRAM = """
import multiprocessing, sys
import numpy as np, torch
from embedwell_models.embedder import Embedder
from embedwell_models.encoder.threads import set_thread_count, thread_count

set_thread_count(2)
texts = [f"the work {n} " * 20 for n in range(16)]
model = Embedder.load(sys.argv[1], device="cpu", dtype=sys.argv[2], isa=sys.argv[3])
expected = model.embed(texts)

def embed(start):
    assert (torch.get_num_threads(), thread_count()) == (1, 2)
    return model.embed(texts[start::4])

with multiprocessing.get_context("fork").Pool(2) as pool:
    parts = pool.map(embed, range(4))
for start, part in enumerate(parts):
    np.testing.assert_allclose(part, expected[start::4], atol=1e-5)
assert torch.get_num_threads() == thread_count() == 2
np.testing.assert_array_equal(model.embed(texts), expected)
print("done")
"""


@pytest.mark.parametrize("isa", ["auto", "none"] if BUILT else ["none"])
def test_a_forked_process_computes_the_same_vectors(tiny_bert: Folder, isa: str) -> None:
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", _PROGRAM]
    process = subprocess.Popen(
        [*command, str(tiny_bert()), "float32", isa],
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2] / "models")},
    )
    try:
        output, _ = process.communicate(timeout=_TIMEOUT)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, 9)
            process.wait()
    assert process.returncode == 0 and output == "done\n"
