"""The effect of signals to stop, on processes of the tests' own."""

import signal
import subprocess
import sys

import pytest

SLEEP = """
import time
from embedwell.launch.signals import install_signal_handlers
install_signal_handlers({})
try:
    print("ready", flush=True)
    time.sleep(20)
finally:
    print("cleaned up")
"""


def output_after_signal(program: str, signal_number: signal.Signals) -> tuple[int, str]:
    """The exit status and the further output of a program that gets a signal when it is ready."""
    command = [sys.executable, "-c", program]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stdout.readline() == "ready\n"
        process.send_signal(signal_number)
        return process.wait(20), process.stdout.read()


@pytest.mark.parametrize("signal_number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_process_with_signal_handlers_cleans_up(signal_number: signal.Signals) -> None:
    assert output_after_signal(SLEEP.format(0), signal_number) == (0, "cleaned up\n")


def test_the_default_exit_status_is_that_of_the_signal() -> None:
    assert output_after_signal(SLEEP.format(""), signal.SIGINT) == (130, "cleaned up\n")
    assert output_after_signal(SLEEP.format(""), signal.SIGTERM) == (143, "cleaned up\n")


def test_a_second_signal_ends_the_cleanup_without_a_traceback() -> None:
    program = """
import time
from embedwell.launch.signals import install_signal_handlers
install_signal_handlers(0)
try:
    print("ready", flush=True)
    time.sleep(600)
finally:
    print("ready", flush=True)
    time.sleep(600)
"""
    command = [sys.executable, "-c", program]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True) as process:
        assert process.stdout is not None and process.stderr is not None
        for _ in range(2):
            assert process.stdout.readline() == "ready\n"
            process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130
        assert process.stderr.read() == ""


def test_the_command_handles_signals_before_it_loads_anything() -> None:
    # A container's first process is not sent a signal that it does not handle.
    program = """
import signal, sys, time, types
class Loads:
    def find_spec(self, name, *_):
        if name == "embedwell.cli.commands":
            print("ready", flush=True)
            time.sleep(20)
sys.meta_path.insert(0, Loads())
from embedwell.__main__ import main
assert not {"click", "pydantic", "models"} & set(sys.modules)
main()
"""
    assert output_after_signal(program, signal.SIGTERM) == (143, "")
