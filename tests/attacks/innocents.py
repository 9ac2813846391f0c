"""Clients that send short texts all the time: `python -m tests.attacks.innocents URL`.

A process of its own, whose times an attack from Python does not add to. It ends with its input,
and prints the seconds of each answered request and what became of the others, as JSON.
"""

import json
import sys
import threading
import time

import httpx

_CLIENTS, _PAUSE = 2, 0.02  # seconds


def run(url: str) -> None:
    """Ask until the input ends."""
    ended, seconds, lost = threading.Event(), list[float](), list[str]()

    def ask() -> None:
        with httpx.Client(base_url=url, timeout=60) as client:
            while not ended.wait(_PAUSE):
                began = time.monotonic()
                try:
                    response = client.post("/embed", json={"inputs": "an innocent text"})
                except httpx.HTTPError as error:
                    lost.append(repr(error))
                    continue
                seconds.append(time.monotonic() - began)
                if response.status_code != 200:
                    lost.append(f"{response.status_code} {response.text}")

    threads = [threading.Thread(target=ask) for _ in range(_CLIENTS)]
    for thread in threads:
        thread.start()
    sys.stdout.write("started\n")
    sys.stdout.flush()
    sys.stdin.read()
    ended.set()
    for thread in threads:
        thread.join()
    json.dump({"seconds": seconds, "lost": lost}, sys.stdout)


if __name__ == "__main__":
    run(sys.argv[1])
