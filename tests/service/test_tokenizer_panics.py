"""A served model whose tokenizer panics for some texts."""

from pathlib import Path

import pytest

from tests.models.tiny import panicking, write_bert
from tests.service.local_server import local_server


@pytest.mark.full
def test_a_panic_of_the_tokenizer_fails_one_request_alone(tmp_path: Path) -> None:
    write_bert(tmp_path, vocab_size=200)
    with local_server(panicking(tmp_path, "e")) as server:
        for path in ("/embed", "/tokens"):
            assert server.post(path, {"inputs": ["the  work"]}).status_code == 500
            assert server.post(path, {"inputs": ["the work"]}).status_code == 200
