"""Listening sockets, the number of processes that listen, and the place of each engine."""

import os
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from embedwell.launch.bootstrap import (
    default_workers,
    open_exclusive,
    open_model_contexts,
    open_shared,
    place_engines,
)
from embedwell.settings.settings import Settings
from embedwell_models.encoder.cpus import available_cpus, node_cpus, within_quotas

LOCAL = "127.0.0.1"
IPV6 = pytest.mark.skipif(
    not socket.has_dualstack_ipv6(),
    reason="needs an address of IPv6, which many containers do not have",
)


@contextmanager
def closing_all(*sockets: socket.socket) -> Iterator[None]:
    """Close the sockets at the end of the block."""
    with ExitStack() as stack:
        for listener in sockets:
            stack.enter_context(listener)
        yield


def test_a_claimed_port_cannot_be_claimed_by_another_server() -> None:
    [first] = open_exclusive(LOCAL, 0)
    port = first.getsockname()[1]
    with first:
        with pytest.raises(OSError, match=f"cannot listen on {LOCAL} port {port}: [^:(]*in use;"):
            open_exclusive(LOCAL, port)
        [second] = open_shared(LOCAL, port)
        with second:
            assert second.getsockname() == first.getsockname()
            with pytest.raises(OSError, match="cannot listen"):
                open_exclusive(LOCAL, port)


def test_new_connections_are_distributed_among_all_listeners() -> None:
    [first] = open_exclusive(LOCAL, 0)
    [second] = open_shared(LOCAL, first.getsockname()[1])
    with closing_all(first, second):
        clients = [socket.create_connection(first.getsockname()) for _ in range(64)]
        for listener in (first, second):
            listener.settimeout(120)
            listener.accept()[0].close()
        for client in clients:
            client.close()


@IPV6
def test_the_ipv6_wildcard_listens_on_ipv4_too() -> None:
    first = open_exclusive("::", 0)
    port = first[0].getsockname()[1]
    second = open_shared("::", port)
    with closing_all(*first, *second):
        for host in ("127.0.0.1", "::1"):
            socket.create_connection((host, port), timeout=60).close()
        with pytest.raises(OSError, match=f"cannot listen on 0.0.0.0 port {port}"):
            open_exclusive("0.0.0.0", port)


def test_a_host_name_is_listened_on_at_all_its_addresses_with_one_port() -> None:
    first = open_exclusive("localhost", 0)
    second = open_shared("localhost", first[0].getsockname()[1])
    with closing_all(*first, *second):
        assert len({listener.getsockname()[1] for listener in first}) == 1
        assert [listener.getsockname() for listener in first] == [
            listener.getsockname() for listener in second
        ]
        addresses = socket.getaddrinfo("localhost", 0, type=socket.SOCK_STREAM)
        names = {address[0] for *_, address in addresses}
        if not socket.has_dualstack_ipv6():
            names.discard("::1")
        assert {listener.getsockname()[0] for listener in first} == names


@pytest.mark.parametrize("host", ["192.0.2.1", "no-such-host.invalid"])
def test_an_address_of_another_machine_is_refused(host: str) -> None:
    with pytest.raises(OSError, match=f"cannot listen on {host} port 0"):
        open_exclusive(host, 0)


def test_each_device_has_its_own_counters_and_sockets() -> None:
    settings = Settings(devices="cpu,cpu,cpu", served_name="small")
    with ExitStack() as stack:
        models, engine_fds = open_model_contexts(settings, [(settings, Path("a"))], stack)
    assert [model.label for model in models] == [f"small on cpu#{number}" for number in (1, 2, 3)]
    descriptors = [fd for model in models for fd in (model.counters_fd, model.connect_fd)]
    assert len({*descriptors, *engine_fds}) == 9


def test_the_number_of_http_processes_follows_the_processors_and_the_device() -> None:
    cpus = [1, 2, 7, 8, 16, 96]
    assert [default_workers(count, gpu=False, platform="linux") for count in cpus] == [
        *(1, 1, 1, 2, 4, 8)
    ]
    assert [default_workers(count, gpu=True, platform="linux") for count in cpus] == [
        *(1, 1, 3, 4, 8, 8)
    ]
    assert default_workers(96, gpu=True, platform="darwin") == 1


ALLOWED = sorted(os.sched_getaffinity(0))
ABSENT = [ALLOWED[-1] + 1, ALLOWED[-1] + 2]


@pytest.fixture
def system(tmp_path: Path) -> Path:
    """Three nodes: all processors that this process may use, the first one, and two others."""
    for node, cpus in enumerate((ALLOWED, ALLOWED[:1], ABSENT)):
        folder = tmp_path / f"node/node{node}"
        folder.mkdir(parents=True)
        (folder / "cpulist").write_text(",".join(map(str, cpus)) + "\n")
    return tmp_path


def placed(
    devices: str, system: Path, **settings: int
) -> tuple[list[str], list[int], list[list[int]]]:
    """The devices, threads and processors of the engines."""
    options = Settings.model_validate({"devices": devices, **settings})
    engines = place_engines(options, [(options, Path("a"))], system)
    return (
        [settings.device for settings, *_ in engines],
        [settings.threads for settings, *_ in engines],
        [[*cpus] for *_, cpus in engines],
    )


def test_an_engine_of_a_node_is_bound_to_its_processors(system: Path) -> None:
    first = ALLOWED[:1]
    both = within_quotas(len(ALLOWED), 2)
    assert placed("cpu:0,cpu:1", system) == (["cpu", "cpu"], [both, 1], [ALLOWED, first])
    assert placed("cpu:1", system) == (["cpu"], [1], [first])
    assert placed("cpu:1,cpu:1", system) == (["cpu", "cpu"], [1, 1], [first, first])


def test_a_node_without_a_usable_processor_is_refused(system: Path) -> None:
    for node in (2, 3):
        with pytest.raises(OSError, match=f"cpu:{node}: "):
            placed(f"cpu:0,cpu:{node}", system)


def test_a_list_of_processors_may_have_ranges(tmp_path: Path) -> None:
    (tmp_path / "node/node0").mkdir(parents=True)
    (tmp_path / "node/node0/cpulist").write_text("0-1023,2000,2004-2005\n")
    assert node_cpus(0, tmp_path) == ALLOWED


def test_engines_on_all_processors_share_them(tmp_path: Path) -> None:
    share = max(1, available_cpus() // 2)
    assert placed("cpu,cpu", tmp_path) == (["cpu", "cpu"], [share, share], [[], []])


def test_the_number_of_threads_may_be_set(system: Path) -> None:
    assert placed("cpu:0,cpu:1", system, threads=7)[1] == [7, 7]


def test_gpus_leave_the_threads_to_the_engine(system: Path) -> None:
    assert placed("cuda:0,cuda:1", system) == (["cuda:0", "cuda:1"], [0, 0], [[], []])


def test_without_several_devices_a_model_has_an_engine(system: Path) -> None:
    options = Settings(device="cpu")
    models = [(options, Path("a")), (options, Path("b"))]
    assert place_engines(options, models, system) == [(*model, ()) for model in models]
