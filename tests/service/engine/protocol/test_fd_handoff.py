"""How a process gets a line to the engine."""

import os

import pytest

from service.engine.protocol.fd_handoff import hand_over, handoff_pair, request_connection


def test_a_line_has_an_end_at_whoever_asked_and_one_at_the_engine() -> None:
    asking, giving = handoff_pair()
    with asking, giving:
        (ours, running), (theirs, computed) = request_connection(asking.fileno()), hand_over(giving)
        with ours, theirs:
            ours.sendall(b"a job")
            assert theirs.recv(10) == b"a job"
            assert not theirs.get_inheritable()
        computed.begin(7)
        assert 7 in running and 8 not in running


def test_lines_are_given_in_the_order_in_which_they_were_asked_for() -> None:
    asking, giving = handoff_pair()
    with asking, giving:
        for number in range(3):
            with request_connection(asking.fileno())[0] as ours:
                ours.sendall(b"%d" % number)
        for number in range(3):
            with hand_over(giving)[0] as theirs:
                assert theirs.recv(10) == b"%d" % number


def test_who_asks_where_too_many_wait_is_refused_and_holds_nothing() -> None:
    asking, giving = handoff_pair()
    with asking, giving:
        lines = []
        with pytest.raises(BlockingIOError):
            while True:
                lines.append(request_connection(asking.fileno())[0])
        before = len(os.listdir("/proc/self/fd"))
        with pytest.raises(BlockingIOError):
            request_connection(asking.fileno())
        assert len(os.listdir("/proc/self/fd")) == before
        for line in lines:
            line.close()
