"""Start a program in the background: `python -I detached.py PID_FILE PROGRAM [ARGUMENT]...`.

The program inherits a lock of PID_FILE, so that the file is locked for as long as it runs. This is
a program and not a function, because a process with threads cannot fork safely.
"""

import fcntl
import os
import signal
import sys


def main(pid_file: str, *command: str) -> None:
    """Run the command in a child process, and end."""
    fd = os.open(pid_file, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600)
    fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    os.set_inheritable(fd, True)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # it is ignored under nohup
    if pid := os.fork():
        os.write(fd, str(pid).encode())
    else:
        os.execvp(command[0], command)  # noqa: S606 - no shell is wanted


if __name__ == "__main__":
    main(*sys.argv[1:])
