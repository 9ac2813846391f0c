"""The context that the processes of one server share."""

from pathlib import Path

from service.context import ServerContext
from service.settings import Settings


def test_a_worker_config_restores_the_context_including_the_key() -> None:
    settings = Settings(api_key="sesame", port=9, workers=3)  # type: ignore[arg-type]
    context = ServerContext(settings, Path("/model"), 9, [[6, 7], [8], [9]], 10, 11, started=12)
    assert ServerContext.from_worker_config(context.worker_config(2)) == (context, 2)
