"""Traits of a route that the middleware needs before it calls the route, which declares them."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from embedwell.http.error_responses import NATIVE, ErrorFormat


@dataclass(frozen=True)
class RouteTraits:
    """Traits of a route that the middleware needs before it calls the route.

    error_format: format of its errors. base_path: beginning of all paths of its API, below which
    unknown paths have the same format; "" for none.
    without_key: whether GET requests need no key, which others always need.
    is_health_check: whether it is answered if the server has too many connections, too.
    is_monitoring: whether GET requests only observe the server, as do those of health checks.
    computes: whether all requests wait for an engine, so that a long queue refuses them unread.
    uploads: whether it streams a body of any type to the disk, which may be larger than others.
    """

    error_format: ErrorFormat = NATIVE
    base_path: str = ""
    without_key: bool = False
    is_health_check: bool = False
    is_monitoring: bool = False
    computes: bool = False
    uploads: bool = False

    def joined(self, other: "RouteTraits") -> "RouteTraits":
        """Return the traits of a path that has two routes, which differ in their methods."""
        return replace(
            self,
            without_key=self.without_key or other.without_key,
            is_health_check=self.is_health_check or other.is_health_check,
            is_monitoring=self.is_monitoring or other.is_monitoring,
            computes=self.computes or other.computes,
            uploads=self.uploads or other.uploads,
        )


class TraitsByPath(dict[str, RouteTraits]):
    """The traits of every path: those of a route, or for an unknown path the format of its API."""

    def __init__(self, routes: Iterable[tuple[str, RouteTraits]]) -> None:
        """routes: path and traits of each route; a path can have parameters and several routes."""
        super().__init__()
        beginnings: dict[str, RouteTraits] = {}
        for path, traits in routes:
            beginning, parameter, _ = path.partition("{")
            by_path = beginnings if parameter else self
            before = by_path.get(beginning)
            by_path[beginning] = traits if before is None else before.joined(traits)
            if traits.base_path:
                beginnings.setdefault(
                    traits.base_path, RouteTraits(error_format=traits.error_format)
                )
        # The traits of a longer beginning have precedence.
        self._beginnings = sorted(beginnings.items(), key=lambda item: -len(item[0]))

    def __missing__(self, path: str) -> RouteTraits:
        for beginning, traits in self._beginnings:
            if path.startswith(beginning):
                return traits
        return _UNKNOWN


_UNKNOWN = RouteTraits()
