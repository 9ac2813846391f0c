"""Admission: expected wait = tokens queued / tokens per second."""

import pytest

from service.admission import Admission
from service.errors import Overloaded


def test_nothing_is_refused_before_a_rate_is_known() -> None:
    admission = Admission(1.0, lambda: 0.0)
    with admission.admit(10**9), admission.admit(10**9):
        assert admission.is_open and admission.wait == 0


def test_a_wait_beyond_the_limit_is_refused_with_the_time_to_return() -> None:
    admission = Admission(1.0, lambda: 100.0)
    with admission.admit(400):  # however large, a request that finds no queue is admitted
        assert admission.wait == 4
        with pytest.raises(Overloaded) as refused, admission.admit(1):
            raise AssertionError("admitted")
        assert refused.value.retry == pytest.approx(3.0)
    assert admission.queued == 0 and admission.is_open


def test_a_wait_of_just_the_limit_is_admitted() -> None:
    admission = Admission(1.0, lambda: 100.0)
    with admission.admit(100), admission.admit(1):
        assert not admission.is_open


def test_what_fails_leaves_the_queue() -> None:
    admission = Admission(1.0, lambda: 100.0)
    with pytest.raises(RuntimeError), admission.admit(100):
        raise RuntimeError
    assert admission.queued == 0
