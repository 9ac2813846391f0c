"""Clients that send requests to /embed all the time during an attack.

`python -m tests.attacks.background_clients URL` is a process of its own, so that an attacker in
Python does not slow its measurements. It reads the bodies to send from the first line of its stdin,
runs until the end of its stdin, then prints the seconds of each answered request, and all failures,
as JSON. Each client sends one request at least.
"""

import json
import sys
import threading
import time
from itertools import cycle

import httpx

_CLIENTS, _PAUSE = 2, 0.02  # seconds


def run(url: str) -> None:
    """Send requests until stdin ends, then print the results."""
    bodies = json.loads(sys.stdin.readline())
    stop, seconds, failures = threading.Event(), list[float](), list[str]()

    def send_requests() -> None:
        with httpx.Client(base_url=url, timeout=60) as client:
            for body in cycle(bodies):
                send(client, body)
                if stop.wait(_PAUSE):
                    return

    def send(client: httpx.Client, body: object) -> None:
        start = time.monotonic()
        try:
            response = client.post("/embed", json=body)
        except httpx.HTTPError as error:
            failures.append(repr(error))
            return
        seconds.append(time.monotonic() - start)
        if response.status_code != 200:
            failures.append(f"{response.status_code} {response.text}")

    threads = [threading.Thread(target=send_requests) for _ in range(_CLIENTS)]
    for thread in threads:
        thread.start()
    sys.stdout.write("started\n")
    sys.stdout.flush()
    sys.stdin.read()
    stop.set()
    for thread in threads:
        thread.join()
    json.dump({"seconds": seconds, "failures": failures}, sys.stdout)


if __name__ == "__main__":
    run(sys.argv[1])
