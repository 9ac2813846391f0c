"""Tests of how an HTTP process connects to the engine."""

import os

import pytest

from embedwell.engine.wire.engine_sockets import (
    accept_connection,
    handoff_pair,
    request_connection,
)


def test_a_connection_has_an_end_in_the_requesting_process_and_one_in_the_engine() -> None:
    requesting, accepting = handoff_pair()
    with requesting, accepting:
        (host_end, running), (engine_end, engine_running) = (
            request_connection(requesting.fileno()),
            accept_connection(accepting),
        )
        with host_end, engine_end:
            host_end.sendall(b"a job")
            assert engine_end.recv(10) == b"a job"
            assert not engine_end.get_inheritable()
        engine_running.begin(7)
        assert 7 in running and 8 not in running


def test_connections_are_accepted_in_the_order_of_their_requests() -> None:
    requesting, accepting = handoff_pair()
    with requesting, accepting:
        for number in range(3):
            with request_connection(requesting.fileno())[0] as host_end:
                host_end.sendall(b"%d" % number)
        for number in range(3):
            with accept_connection(accepting)[0] as engine_end:
                assert engine_end.recv(10) == b"%d" % number


def test_a_request_that_is_refused_as_too_many_wait_leaks_no_descriptor() -> None:
    requesting, accepting = handoff_pair()
    with requesting, accepting:
        connections = []
        with pytest.raises(BlockingIOError):
            while True:
                connections.append(request_connection(requesting.fileno())[0])
        before = len(os.listdir("/proc/self/fd"))
        with pytest.raises(BlockingIOError):
            request_connection(requesting.fileno())
        assert len(os.listdir("/proc/self/fd")) == before
        for connection in connections:
            connection.close()
