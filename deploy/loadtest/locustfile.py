"""Requests of the load test for Locust (https://locust.io), run from the repository's folder.

PYTHONPATH=. locust -f deploy/loadtest/locustfile.py --host http://127.0.0.1:8080
"""

import os
import random

from locust import FastHttpUser, task

from deploy.loadtest.corpus import Corpus
from deploy.loadtest.loadtest import KINDS

WEIGHTS = {"query": 70, "passage": 25, "document": 5}
KEY = os.environ.get("EMBEDWELL_API_KEY")
HEADERS = {"authorization": f"Bearer {KEY}"} if KEY else {}


class Client(FastHttpUser):
    """A client that waits for each response before its next request."""

    def on_start(self) -> None:
        self.corpus = Corpus(random.Random())

    @task
    def embed(self) -> None:
        [kind] = random.choices(list(WEIGHTS), list(WEIGHTS.values()))
        text = self.corpus.cut(*KINDS[kind])
        self.client.post("/embed", json={"inputs": [text]}, headers=HEADERS)
