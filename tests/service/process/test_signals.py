"""What a signal to stop does to a process, in processes of the tests' own."""

import signal
import subprocess
import sys

import pytest

SLEEP = """
import time
from service.process.signals import install_signal_handlers
install_signal_handlers({})
try:
    print("now", flush=True)
    time.sleep(20)
finally:
    print("in good order")
"""


def end(program: str, number: signal.Signals) -> tuple[int, str]:
    """The status, and the last words, of a program that is sent a signal when it says so."""
    command = [sys.executable, "-c", program]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stdout.readline() == "now\n"
        process.send_signal(number)
        return process.wait(20), process.stdout.read()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_process_with_signal_handlers_ends_in_good_order(number: signal.Signals) -> None:
    assert end(SLEEP.format(0), number) == (0, "in good order\n")


def test_a_process_without_a_status_of_its_own_ends_with_the_one_that_shells_know() -> None:
    assert end(SLEEP.format(""), signal.SIGINT) == (130, "in good order\n")
    assert end(SLEEP.format(""), signal.SIGTERM) == (143, "in good order\n")


def test_a_second_signal_ends_a_process_that_is_still_ending_without_a_traceback() -> None:
    program = """
import time
from service.process.signals import install_signal_handlers
install_signal_handlers(0)
try:
    print("now", flush=True)
    time.sleep(600)
finally:
    print("now", flush=True)
    time.sleep(600)
"""
    command = [sys.executable, "-c", program]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True) as process:
        assert process.stdout is not None and process.stderr is not None
        for _ in range(2):
            assert process.stdout.readline() == "now\n"
            process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130
        assert process.stderr.read() == ""


def test_the_command_handles_signals_before_it_loads_anything() -> None:
    # A container's first process is not sent a signal that it does not handle.
    program = """
import signal, sys, time, types
class Loads:
    def find_spec(self, name, *_):
        if name == "service.cli.commands":
            print("now", flush=True)
            time.sleep(20)
sys.meta_path.insert(0, Loads())
from service.__main__ import main
assert not {"click", "pydantic", "models"} & set(sys.modules)
main()
"""
    assert end(program, signal.SIGTERM) == (143, "")
