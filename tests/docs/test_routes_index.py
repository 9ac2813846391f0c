"""The index of the routes whose modules are imported when they are used."""

from docs.build.routes_index import routes
from embedwell.routes.index import ROUTES


def test_the_index_has_each_route(minilm_folder: object) -> None:
    index = {name: [*entries] for name, entries in ROUTES.items()}
    assert index == routes(), "run python -m docs.build.routes_index"
