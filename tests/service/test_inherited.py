"""The context that the processes of one server share."""

from pathlib import Path

from embedwell.inherited import InheritedModel, InheritedServer
from embedwell.settings.settings import Settings


def test_a_worker_config_restores_the_context_including_the_key() -> None:
    settings = Settings(api_key="sesame", admin_key="a", port=9, workers=3)  # type: ignore[arg-type]
    model = settings.model_copy(update={"served_name": "b"})
    models = [
        InheritedModel(settings, Path("/model"), 0, rows=4, counters_fd=10, connect_fd=11),
        InheritedModel(model, Path("/b"), 1, rows=4, counters_fd=12, connect_fd=13),
    ]
    context = InheritedServer(settings, models, 9, [[6, 7], [8], [9]], started=12)
    assert context.pass_fds(2) == [9, 10, 11, 12, 13]
    assert InheritedServer.from_worker_config(context.worker_config(2)) == (context, 2)
