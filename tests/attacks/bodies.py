"""Requests that attacks send."""

import json
from typing import Any


def post(path: str, body: Any) -> bytes:
    content = json.dumps(body).encode()
    head = f"POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-length: {len(content)}\r\n\r\n"
    return head.encode() + content


ROWS = [[float(index), 1.0] for index in range(1999)]
