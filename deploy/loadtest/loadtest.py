"""Load on an embedding server with real text, in open loop (a rate) or closed loop (clients)."""

import asyncio
import json
import math
import multiprocessing as mp
import queue
import random
import signal
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import httpx

from deploy.loadtest.corpus import Corpus

KINDS = {"query": (3, 16), "passage": (50, 180), "document": (400, 1500)}  # fewest, most words
PHASES = ("tokenize", "queue", "compute")  # the server tells them in x-tokenize-us and so on
PERCENTILES = {"p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99, "max": 1.0}
_FLUSH = 0.25  # seconds between two messages of a process


@dataclass(frozen=True)
class Plan:
    """Load of one process. rate: requests per second; 0 for clients that take turns."""

    url: str
    path: str
    model: str
    api_key: str | None
    rate: float
    clients: int
    duration: float
    warmup: float
    timeout: float
    texts_per_request: int
    mix: dict[str, float]
    seed: int


@dataclass(frozen=True, slots=True)
class Sample:
    """One request, with times in seconds since its scheduled moment.

    Times since sending would hide the delay that a slow response causes for later requests.
    """

    scheduled: float  # since the start of the run
    lag: float  # until it was sent: the load generator's own delay
    total: float  # until the answer was there
    outcome: str  # the status, or the client's exception
    texts: int = 0
    tokens: int = 0
    truncated: int = 0
    phases: dict[str, float] = field(default_factory=dict)

    @property
    def good(self) -> bool:
        return self.outcome == "200"


class Texts:
    """Texts of several kinds, in proportion to the weights of a mix."""

    def __init__(self, mix: dict[str, float], seed: int) -> None:
        self._kinds, self._weights = list(mix), list(mix.values())
        self._random = random.Random(seed)
        self._corpus = Corpus(self._random)

    def draw(self) -> str:
        [kind] = self._random.choices(self._kinds, self._weights)
        return self._corpus.cut(*KINDS[kind])


def request_body(plan: Plan, texts: Texts) -> bytes:
    """Return the body of the next request of a plan."""
    drawn = [texts.draw() for _ in range(plan.texts_per_request)]
    body: dict[str, Any] = {"inputs": drawn}
    if plan.path.startswith("/v1/"):  # as in requests of OpenAI's own clients
        body = {"input": drawn, "model": plan.model, "encoding_format": "base64"}
    return json.dumps(body).encode()


class Sender:
    """Sender of a plan's requests, which keeps a sample of each."""

    def __init__(self, plan: Plan, client: httpx.AsyncClient, begin: float) -> None:
        self._plan, self._client, self._begin = plan, client, begin
        self._texts = Texts(plan.mix, plan.seed)
        self.samples: list[Sample] = []

    def now(self) -> float:
        """Return the seconds since the start of the run."""
        return time.monotonic() - self._begin

    async def send(self, scheduled: float) -> float:
        """Send one request; return the seconds to wait if the server is busy (Retry-After)."""
        body = request_body(self._plan, self._texts)
        lag = self.now() - scheduled
        try:
            response = await self._client.post(self._plan.path, content=body)
        except httpx.HTTPError as error:
            failed = Sample(scheduled, lag, self.now() - scheduled, type(error).__name__)
            self.samples.append(failed)
            return 0.0
        self.samples.append(self._sample(scheduled, lag, response))
        return float(response.headers.get("retry-after", 0))

    def _sample(self, scheduled: float, lag: float, response: httpx.Response) -> Sample:
        def header(name: str) -> int:
            return int(response.headers.get(name, 0))

        return Sample(
            scheduled=scheduled,
            lag=lag,
            total=self.now() - scheduled,
            outcome=str(response.status_code),
            texts=self._plan.texts_per_request,
            tokens=header("x-tokens"),
            truncated=header("x-truncated"),
            phases={phase: header(f"x-{phase}-us") / 1e6 for phase in PHASES},
        )


async def arrivals(plan: Plan, sender: Sender) -> None:
    """Send requests at random moments (open loop), whether or not the server keeps up."""
    dice = random.Random(plan.seed)
    at = dice.expovariate(plan.rate)
    async with asyncio.TaskGroup() as group:
        while at < plan.duration:
            await asyncio.sleep(max(0.0, at - sender.now()))
            group.create_task(sender.send(at))
            at += dice.expovariate(plan.rate)


async def turns(plan: Plan, sender: Sender) -> None:
    """Send requests from clients that wait for each response (closed loop)."""

    async def client() -> None:
        while (now := sender.now()) < plan.duration:
            await asyncio.sleep(await sender.send(now))

    async with asyncio.TaskGroup() as group:
        for _ in range(plan.clients):
            group.create_task(client())


async def drive(
    plan: Plan, wait: Callable[[], object], put: Callable[[list[Sample]], None]
) -> None:
    """Send all requests of one process. wait: returns when all processes are ready."""
    headers = {"content-type": "application/json"}
    if plan.api_key:
        headers["authorization"] = f"Bearer {plan.api_key}"
    # Open loop needs a connection for each unanswered request.
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=None)
    async with httpx.AsyncClient(
        base_url=plan.url, headers=headers, limits=limits, timeout=plan.timeout, trust_env=False
    ) as client:
        wait()
        sender = Sender(plan, client, time.monotonic())
        reporting = asyncio.create_task(_flush(sender, put))
        await (arrivals if plan.rate else turns)(plan, sender)
        reporting.cancel()
        put(sender.samples)


async def _flush(sender: Sender, put: Callable[[list[Sample]], None]) -> None:
    while True:
        await asyncio.sleep(_FLUSH)
        put(sender.samples)
        sender.samples = []


def work(
    plan: Plan, wait: Callable[[], object], results_queue: "mp.Queue[list[Sample] | float]"
) -> None:
    """Run one process: put its samples, then its share of a core, into the queue."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides about the end
    used = time.process_time()
    asyncio.run(drive(plan, wait, results_queue.put))
    results_queue.put((time.process_time() - used) / plan.duration)


def run(plans: Sequence[Plan], progress: Callable[[list[Sample]], None]) -> "Run":
    """Run the plans, each in a process of its own."""
    context = mp.get_context("spawn")
    results_queue: mp.Queue[list[Sample] | float] = context.Queue()
    wait = context.Barrier(len(plans)).wait
    processes = [context.Process(target=work, args=(plan, wait, results_queue)) for plan in plans]
    for process in processes:
        process.start()
    run = Run()
    try:
        while len(run.cores) < len(plans):
            message = _receive(results_queue, processes)
            if isinstance(message, float):
                run.cores.append(message)
            else:
                run.samples += message
            progress(run.samples)
    finally:
        for process in processes:
            process.terminate()
    return run


def _receive(
    results_queue: "mp.Queue[list[Sample] | float]", processes: Sequence[Any]
) -> list[Sample] | float:
    while True:
        try:
            return results_queue.get(timeout=1)
        except queue.Empty:
            if any(process.exitcode for process in processes):
                raise SystemExit("a process of the load test died") from None


@dataclass
class Run:
    """Result of a run. cores: the share of a core that each process used."""

    samples: list[Sample] = field(default_factory=list)
    cores: list[float] = field(default_factory=list)


def report(plan: Plan, run: Run) -> dict[str, Any]:
    """Return the numbers of a run without warm-up; times are milliseconds of responses with 200."""
    window = [sample for sample in run.samples if sample.scheduled >= plan.warmup]
    good = [sample for sample in window if sample.good]
    # Counts responses within the time, because the queue of an overloaded server is not a rate.
    answered = [
        sample
        for sample in run.samples
        if sample.good and plan.warmup <= sample.scheduled + sample.total < plan.duration
    ]
    seconds = plan.duration - plan.warmup
    return {
        "requests": len(window),
        "outcomes": dict(Counter(sample.outcome for sample in window).most_common()),
        "offered_per_second": len(window) / seconds,
        "requests_per_second": len(answered) / seconds,
        "texts_per_second": sum(sample.texts for sample in answered) / seconds,
        "tokens_per_second": sum(sample.tokens for sample in answered) / seconds,
        "truncated_texts": sum(sample.truncated for sample in good),
        "milliseconds": {name: spread(values) for name, values in phases(good).items()},
        "client_cores": max(run.cores),
    }


def phases(samples: Sequence[Sample]) -> dict[str, list[float]]:
    """Return the parts of the time until a response; `other` is network, HTTP and waiting."""
    parts = {"lag": [sample.lag for sample in samples]}
    parts |= {phase: [sample.phases[phase] for sample in samples] for phase in PHASES}
    parts["other"] = [sample.total - sample.lag - sum(sample.phases.values()) for sample in samples]
    return parts | {"total": [sample.total for sample in samples]}


def spread(seconds: Sequence[float]) -> dict[str, float]:
    """Return percentiles (nearest rank) in milliseconds."""
    ordered = sorted(seconds)
    last = len(ordered) - 1
    return {
        name: round(1000 * ordered[min(last, math.ceil(share * len(ordered)) - 1)], 3)
        for name, share in PERCENTILES.items()
        if ordered
    }


def split(plan: Plan, processes: int) -> list[Plan]:
    """Split a plan into one plan for each process."""
    return [
        replace(
            plan,
            rate=plan.rate / processes,
            clients=plan.clients // processes + (number < plan.clients % processes),
            seed=plan.seed * processes + number,
        )
        for number in range(processes)
    ]
