"""Images that take much longer to open than to send."""

import base64
import struct
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.attacks.harness import attack
from tests.models.image_models import encoded, picture, write_clip
from tests.service.server import Server

pytestmark = pytest.mark.attack

JPEG = encoded(picture(64, 64), "JPEG")
MANY_PARTS = JPEG[:2] + 290_000 * b"\xff\xe1\x00\x12Exif\0\0aaaaaaaaaa" + JPEG[2:]
EXIF = (
    b"II*\0\x08\0\0\0\x00\x10"
    + b"".join(struct.pack("<HHII", tag, 7, 1 << 20, 8) for tag in range(1 << 12))
    + b"\0\0\0\0"
)
WARNED = encoded(picture(64, 64), "PNG", exif=EXIF)
"""Pillow warns of each of its 4096 tags."""
LONG_TEXT = "a b " * 10_000


def as_json(image: bytes) -> dict[str, str]:
    return {"image": base64.b64encode(image).decode()}


def test_jpegs_of_many_parts_delay_no_other_image_and_no_long_text(tmp_path: Path) -> None:
    folder = tmp_path / "clip"
    folder.mkdir()
    write_clip(folder)
    inputs = [as_json(JPEG), LONG_TEXT, "a short text"]
    with (
        Server(tmp_path / "log", model=folder) as server,
        attack("4 x JPEG of 290,000 parts", server, inputs=inputs) as report,
        ThreadPoolExecutor(4) as attackers,
    ):
        body = {"inputs": as_json(MANY_PARTS)}
        responses = attackers.map(lambda _: server.post("/embed", body), range(4))
        assert {response.status_code for response in responses} == {400}
        assert server.post("/embed", {"inputs": as_json(WARNED)}).status_code == 200
        assert server.log.count("\n") < 100, "a client fills the log"
    report.check(growth=300)
