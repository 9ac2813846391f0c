"""The effect of signals to stop, on processes of the tests' own."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

SLEEP = """
import time
from embedwell.launch.signals import install_signal_handlers
install_signal_handlers({})
try:
    print("ready", flush=True)
    time.sleep(600)
finally:
    print("cleaned up")
"""


def output_after_signal(program: str, signal_number: signal.Signals) -> tuple[int, str]:
    """The exit status and the further output of a program that gets a signal when it is ready."""
    command = [sys.executable, "-c", program]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stdout.readline() == "ready\n"
        process.send_signal(signal_number)
        return process.wait(120), process.stdout.read()


def run_python(program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a program to its end."""
    command = [sys.executable, "-c", program, *arguments]
    return subprocess.run(command, check=False, capture_output=True, text=True, timeout=120)


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
        assert process.wait(120) == 130
        assert process.stderr.read() == ""


def test_the_command_handles_signals_before_it_loads_anything() -> None:
    # A container's first process is not sent a signal that it does not handle.
    program = """
import signal, sys, time, types
class Loads:
    def find_spec(self, name, *_):
        if name == "embedwell.cli.commands":
            print("ready", flush=True)
            time.sleep(600)
sys.meta_path.insert(0, Loads())
from embedwell.__main__ import main
assert not {"click", "pydantic", "models"} & set(sys.modules)
main()
"""
    assert output_after_signal(program, signal.SIGTERM) == (143, "")


LOSES = """
import signal
from embedwell.launch.signals import end_at_signals, install_signal_handlers, was_signalled
class Loses:
    def __del__(self):
        signal.raise_signal(signal.SIGTERM)
{}
Loses()
print(was_signalled())
"""


def test_a_signal_whose_exception_is_lost_is_known() -> None:
    result = run_python(LOSES.format("install_signal_handlers(0)"))
    assert (result.returncode, result.stdout) == (0, "True\n")
    assert "Exception ignored" in result.stderr


def test_a_signal_ends_a_process_where_an_exception_would_be_lost() -> None:
    result = run_python(LOSES.format("end_at_signals()"))
    assert (result.returncode, result.stdout, result.stderr) == (143, "", "")


def test_a_process_without_a_signal_knows_of_none() -> None:
    program = "from embedwell.launch.signals import *; install_signal_handlers()"
    assert run_python(f"{program}; print(was_signalled())").stdout == "False\n"


def test_a_server_ends_at_a_signal_whose_exception_was_lost(minilm_folder: Path) -> None:
    program = """
import signal, sys
class Loses:
    def __del__(self):
        signal.raise_signal(signal.SIGTERM)
class Loads:
    def find_spec(self, name, *_):
        if name == "embedwell.launch.bootstrap":
            Loses()
sys.meta_path.insert(0, Loads())
sys.argv = ["embedwell", "serve", sys.argv[1], "--port", "0"]
from embedwell.__main__ import main
main()
"""
    result = run_python(program, str(minilm_folder))
    assert result.returncode == 0
    assert "Exception ignored" in result.stderr and "listens on" not in result.stderr
