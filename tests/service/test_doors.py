"""Tests of the sockets on which a server listens."""

import socket

import pytest

from service.home import claim, door

LOCAL = "127.0.0.1"


def test_a_port_is_one_servers_alone_before_that_answers_anyone() -> None:
    with claim(LOCAL, 0) as first:
        port = first.getsockname()[1]
        with pytest.raises(OSError, match=f"cannot listen on {LOCAL} port {port}"):
            claim(LOCAL, port)
        with door(LOCAL, port) as second:
            assert second.getsockname() == first.getsockname()
            with pytest.raises(OSError, match="cannot listen"):
                claim(LOCAL, port)


def test_new_connections_are_dealt_out_among_all_doors() -> None:
    with claim(LOCAL, 0) as first, door(LOCAL, first.getsockname()[1]) as second:
        clients = [socket.create_connection(first.getsockname()) for _ in range(64)]
        for one in (first, second):
            one.settimeout(5)
            one.accept()[0].close()
        for client in clients:
            client.close()


@pytest.mark.skipif(not socket.has_dualstack_ipv6(), reason="the system has no IPv6")
def test_all_addresses_of_ipv6_are_none_of_ipv4() -> None:
    with claim("::", 0) as first, door("::", first.getsockname()[1]) as second:
        for one in (first, second):
            assert one.getsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY)
