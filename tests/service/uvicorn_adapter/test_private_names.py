"""The private names of uvicorn that the adapter uses: a release that lacks one fails here."""

import asyncio

import pytest
import uvicorn
from uvicorn.protocols.http.flow_control import HIGH_WATER_LIMIT, FlowControl
from uvicorn.protocols.http.httptools_impl import (
    STATUS_LINE,
    HttpToolsProtocol,
    RequestResponseCycle,
)
from uvicorn.server import ServerState

METHODS = {
    HttpToolsProtocol: "connection_made connection_lost data_received on_headers_complete on_body "
    "on_message_complete _unset_keepalive_if_required _should_upgrade _start_asgi_task "
    "pause_writing resume_writing shutdown",
    FlowControl: "pause_reading resume_reading pause_writing resume_writing drain",
    uvicorn.Server: "run on_tick",
}
ATTRIBUTES = (
    "config loop logger connections tasks flow cycle pipeline parser transport server_state scope "
    "headers"
)


@pytest.mark.parametrize("owner", METHODS)
def test_every_method_is_there(owner: type) -> None:
    assert not [name for name in METHODS[owner].split() if not callable(getattr(owner, name, None))]


def test_every_attribute_of_a_connection_is_there() -> None:
    async def connection() -> HttpToolsProtocol:
        config = uvicorn.Config(lambda *_: None)
        config.http_protocol_class = HttpToolsProtocol
        return HttpToolsProtocol(config, ServerState(), {}, asyncio.get_running_loop())

    created = asyncio.run(connection())
    assert not [name for name in ATTRIBUTES.split() if not hasattr(created, name)]


def test_every_field_of_a_cycle_is_there() -> None:
    fields = set(RequestResponseCycle.__init__.__code__.co_names)
    assert fields >= {
        *("scope", "keep_alive", "waiting_for_100_continue", "disconnected", "response_started"),
        *("response_complete", "message_event", "body", "more_body"),
    }


def test_status_lines_and_the_high_water_limit_are_there() -> None:
    assert STATUS_LINE[200] == b"HTTP/1.1 200 OK\r\n"
    assert HIGH_WATER_LIMIT == 1 << 16
