"""Tests of the sockets on which a server listens."""

import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest

from service.http.listeners import claim, listeners

LOCAL = "127.0.0.1"
IPV6 = pytest.mark.skipif(
    not socket.has_dualstack_ipv6(),
    reason="needs an address of IPv6, which many containers do not have",
)


@contextmanager
def opened(*found: socket.socket) -> Iterator[None]:
    """Closes all at the end."""
    with ExitStack() as stack:
        for listener in found:
            stack.enter_context(listener)
        yield


def test_a_port_is_one_servers_alone_before_that_answers_anyone() -> None:
    [first] = claim(LOCAL, 0)
    port = first.getsockname()[1]
    with first:
        with pytest.raises(OSError, match=f"cannot listen on {LOCAL} port {port}: .*in use"):
            claim(LOCAL, port)
        [second] = listeners(LOCAL, port)
        with second:
            assert second.getsockname() == first.getsockname()
            with pytest.raises(OSError, match="cannot listen"):
                claim(LOCAL, port)


def test_new_connections_are_dealt_out_among_all_doors() -> None:
    [first] = claim(LOCAL, 0)
    [second] = listeners(LOCAL, first.getsockname()[1])
    with opened(first, second):
        clients = [socket.create_connection(first.getsockname()) for _ in range(64)]
        for one in (first, second):
            one.settimeout(5)
            one.accept()[0].close()
        for client in clients:
            client.close()


@IPV6
def test_all_addresses_of_ipv6_are_none_of_ipv4() -> None:
    first = claim("::", 0)
    second = listeners("::", first[0].getsockname()[1])
    with opened(*first, *second):
        for [one] in (first, second):
            assert one.getsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY)


def test_a_name_has_a_door_at_each_address_that_the_machine_has_all_on_one_port() -> None:
    first = claim("localhost", 0)
    second = listeners("localhost", first[0].getsockname()[1])
    with opened(*first, *second):
        assert len({listener.getsockname()[1] for listener in first}) == 1
        assert [one.getsockname() for one in first] == [one.getsockname() for one in second]
        found = socket.getaddrinfo("localhost", 0, type=socket.SOCK_STREAM)
        names = {address[0] for *_, address in found}
        if not socket.has_dualstack_ipv6():
            names.discard("::1")
        assert {listener.getsockname()[0] for listener in first} == names


@pytest.mark.parametrize("host", ["192.0.2.1", "no-such-host.invalid"])
def test_an_address_that_is_not_the_machines_is_refused(host: str) -> None:
    with pytest.raises(OSError, match=f"cannot listen on {host} port 0"):
        claim(host, 0)
