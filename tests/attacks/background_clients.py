"""Clients that send short texts all the time during an attack.

`python -m tests.attacks.background_clients URL` is a process of its own, so that an attacker in
Python does not slow its measurements. It runs until the end of its stdin, then prints the seconds
of each answered request, and all failures, as JSON.
"""

import json
import sys
import threading
import time

import httpx

_CLIENTS, _PAUSE = 2, 0.02  # seconds


def run(url: str) -> None:
    """Send requests until stdin ends, then print the results."""
    stop, seconds, failures = threading.Event(), list[float](), list[str]()

    def send_requests() -> None:
        with httpx.Client(base_url=url, timeout=60) as client:
            while not stop.wait(_PAUSE):
                start = time.monotonic()
                try:
                    response = client.post("/embed", json={"inputs": "a short text"})
                except httpx.HTTPError as error:
                    failures.append(repr(error))
                    continue
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
