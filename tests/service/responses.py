"""Checked contents of responses."""

from typing import Any

import httpx
import numpy as np

from tests.service.server import error_of


def vectors(response: httpx.Response) -> np.ndarray[Any, np.dtype[np.float32]]:
    assert response.status_code == 200, response.text
    return np.array(response.json(), dtype=np.float32)


def error(response: httpx.Response, status: int) -> dict[str, Any]:
    assert response.status_code == status, response.text
    content = error_of(response)
    assert content["request_id"] == response.headers["x-request-id"]
    return content
