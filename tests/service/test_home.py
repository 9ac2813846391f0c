"""What the processes of one server are told."""

from pathlib import Path

from service.home import Home
from service.settings import Settings


def test_a_letter_tells_another_process_all_with_the_key() -> None:
    settings = Settings(api_key="sesame", port=9, workers=3)  # type: ignore[arg-type]
    home = Home(settings, Path("/model"), 9, 10, 11, started=12)
    assert Home.read(home.letter(2)) == (home, 2)
