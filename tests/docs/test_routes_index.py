"""The index of the routes whose modules are imported when they are used."""

from docs.build.routes_index import routes
from embedwell.routes.index import ROUTES


def test_the_index_has_each_route(minilm_folder: object) -> None:
    index, now = {name: [*entries] for name, entries in ROUTES.items()}, routes()
    stale = [name for name in {**index, **now} if index.get(name) != now.get(name)]
    assert not stale, "run python -m docs.build.routes_index"
