"""The hub's daemon on PostgreSQL: killed, cut off from its database, started twice by mistake."""

from __future__ import annotations

import json
import signal
import ssl
import subprocess
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.error import HTTPError

import psycopg
import pytest

from metastore import exclusive
from tests.integration.test_cloudhub_process import KUBECTL, PATIENCE, kubectl, run, serving
from tests.support import postgres

CONFIGMAPS = "/api/v1/namespaces/default/configmaps"


@pytest.fixture(scope="module")
def cluster() -> Iterator[postgres.Postgres]:
    if not postgres.installed():
        pytest.skip(postgres.MISSING)
    with postgres.running_postgres(durable=True) as running:
        yield running


def configure(directory: Path, url: str) -> Path:
    directory.mkdir(exist_ok=True)
    path = directory / "hub.toml"
    text = f'[api]\nport = 0\n[broker]\nport = 1\n[store]\nurl = "{url}"\n'
    path.write_text(f'state_dir = "{directory}/state"\n{text}')
    return path


@dataclass
class Api:
    """The running hub of a state directory, by plain HTTP."""

    state: Path

    def call(self, method: str, path: str, body: Any = None) -> tuple[int, dict[str, Any]]:
        """Status and body; 0 while nobody answers."""
        port = json.loads((self.state / "ready.json").read_text())["port"]
        request = urllib.request.Request(f"https://127.0.0.1:{port}{path}", method=method)
        request.add_header("Authorization", f"Bearer {(self.state / 'admin.token').read_text().strip()}")
        if body is not None:
            request.data = json.dumps(body).encode()
            request.add_header("Content-Type", "application/json")
        context = ssl.create_default_context(cafile=str(self.state / "ca.crt"))
        try:
            with urllib.request.urlopen(request, context=context, timeout=30) as answer:
                return answer.status, json.load(answer)
        except HTTPError as error:
            with error:
                return error.code, json.load(error)
        except (OSError, HTTPException):
            return 0, {}

    def create(self, name: str) -> int:
        return self.call("POST", CONFIGMAPS, {"metadata": {"name": name}, "data": {"a": "1"}})[0]

    def names(self) -> set[str]:
        status, found = self.call("GET", CONFIGMAPS)
        assert status == 200, found
        return {item["metadata"]["name"] for item in found["items"]}


def until(true: Callable[[], Any], what: str) -> None:
    deadline = time.monotonic() + PATIENCE
    while not true():
        assert time.monotonic() < deadline, what
        time.sleep(0.05)


class Writing:
    """One create after another, from its own thread, remembering which were acknowledged."""

    def __init__(self, api: Api) -> None:
        self.acknowledged: set[str] = set()
        self.statuses: set[int] = set()
        self._api = api
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._write)

    def __enter__(self) -> Writing:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _write(self) -> None:
        number = 0
        while not self._stop.is_set():
            number += 1
            status = self._api.create(f"load-{number}")
            self.statuses.add(status)
            if status == 201:
                self.acknowledged.add(f"load-{number}")

    def goes_on(self) -> None:
        before = len(self.acknowledged)
        until(lambda: len(self.acknowledged) > before + 5, f"writes go on (seen: {self.statuses})")


@pytest.mark.skipif(KUBECTL is None, reason="kubectl is not installed")
def test_kubectl_against_a_hub_on_postgresql(tmp_path: Path, cluster: postgres.Postgres) -> None:
    """Create, watch, resize, delete; nothing of it lies in a file."""
    directory = tmp_path / "hub"
    with serving(configure(directory, cluster.fresh()), directory):
        state = directory / "state"
        assert not list(state.glob("*.db*"))
        kubectl(state, "run", "web", "--image=copepod/micro:latest")
        command = [str(KUBECTL), "--kubeconfig", str(state / "admin.kubeconfig")]
        watching = [*command, "get", "pods", "--watch", "--output-watch-events", "--no-headers"]
        with subprocess.Popen(watching, stdout=subprocess.PIPE, text=True) as watch:
            assert watch.stdout
            assert watch.stdout.readline().split()[:2] == ["ADDED", "web"]
            resources = {"requests": {"cpu": "100m"}, "limits": {"cpu": "200m"}}
            patch = {"spec": {"containers": [{"name": "web", "resources": resources}]}}
            refused = subprocess.run(
                [*command, "patch", "pod", "web", "--subresource=resize", "--patch", json.dumps(patch)],
                capture_output=True,
                text=True,
                check=False,
            )
            assert "Pod QOS Class may not change as a result of resizing" in refused.stderr
            kubectl(state, "label", "pod", "web", "a=b")
            assert watch.stdout.readline().split()[:2] == ["MODIFIED", "web"]
            kubectl(state, "delete", "pod", "web", "--now")
            until(lambda: watch.stdout and watch.stdout.readline().startswith("DELETED"), "the watch tells the end")
            watch.kill()


def test_s80_killed_under_load_and_started_again(tmp_path: Path, cluster: postgres.Postgres) -> None:
    """S-80: no acknowledged write lost; a watch resumes from the resourceVersion it had."""
    directory = tmp_path / "hub"
    config, api = configure(directory, cluster.fresh()), Api(directory / "state")
    with serving(config, directory) as process:
        status, made = api.call("POST", CONFIGMAPS, {"metadata": {"name": "before"}})
        assert status == 201
        with Writing(api) as load:
            load.goes_on()
            process.send_signal(signal.SIGKILL)
            process.wait(PATIENCE)
    assert load.statuses <= {201, 0}
    with serving(config, directory) as process:
        assert load.acknowledged | {"before"} <= api.names()
        version = made["metadata"]["resourceVersion"]
        status, _ = api.call("GET", f"{CONFIGMAPS}?resourceVersion={version}&resourceVersionMatch=Exact")
        assert status == 200
        port = json.loads((directory / "state" / "ready.json").read_text())["port"]
        request = urllib.request.Request(f"https://127.0.0.1:{port}{CONFIGMAPS}?watch=1&resourceVersion={version}")
        request.add_header("Authorization", f"Bearer {(directory / 'state' / 'admin.token').read_text().strip()}")
        context = ssl.create_default_context(cafile=str(directory / "state" / "ca.crt"))
        with urllib.request.urlopen(request, context=context, timeout=30) as watch:
            seen: set[str] = set()
            while not load.acknowledged <= seen:
                seen.add(json.loads(watch.readline())["object"]["metadata"]["name"])
        assert "before" not in seen
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE) == 0


def test_s32_the_database_restarts_under_a_running_hub(tmp_path: Path, cluster: postgres.Postgres) -> None:
    """S-32 for a server: what cannot be stored is refused with 503 and words, and all goes on by itself."""
    directory = tmp_path / "hub"
    api = Api(directory / "state")
    with serving(configure(directory, cluster.fresh()), directory) as process:
        with Writing(api) as load:
            load.goes_on()
            cluster.stop()
            try:
                until(lambda: 503 in load.statuses, "writes are refused")
                status, refused = api.call("GET", f"{CONFIGMAPS}/load-1")
                assert (status, refused["reason"]) == (503, "ServiceUnavailable")
                assert "the store cannot be" in refused["message"]
                assert "Traceback" not in json.dumps(refused)
            finally:
                cluster.start()
            load.goes_on()
        assert load.statuses == {201, 503}
        assert load.acknowledged <= api.names()
        process.send_signal(signal.SIGTERM)
        _, log = process.communicate(timeout=PATIENCE)
        assert process.returncode == 0
        assert "Traceback" not in log, log


def test_a_second_hub_on_the_same_database_is_refused(tmp_path: Path, cluster: postgres.Postgres) -> None:
    """Started twice by mistake: the second says who has the database, and does nothing; the first goes on."""
    url = cluster.fresh()
    first, second = tmp_path / "first", tmp_path / "second"
    with serving(configure(first, url), first) as process:
        refused = run("--config", str(configure(second, url)))
        assert refused.returncode == 1
        assert "is in use by copepod " in refused.stderr
        assert f"/{process.pid} since " in refused.stderr
        assert "a database serves one hub at a time" in refused.stderr
        assert "Traceback" not in refused.stderr
        assert Api(first / "state").create("still") == 201
        process.send_signal(signal.SIGKILL)
        process.wait(PATIENCE)
    with serving(configure(second, url), second):
        assert "still" in Api(second / "state").names()


def test_who_lost_the_database_to_another_ends(tmp_path: Path, cluster: postgres.Postgres) -> None:
    """Cut off from the database it takes it again; when another was faster it writes nothing more, and ends."""
    url, directory = cluster.fresh(), tmp_path / "hub"
    api = Api(directory / "state")
    with serving(configure(directory, url), directory) as process:
        with psycopg.connect(url, autocommit=True) as mine:
            cut(mine, process.pid)
            until(lambda: api.create("again") in (201, 409), "it reconnects and writes")
            process.send_signal(signal.SIGSTOP)
            cut(mine, process.pid)
            mine.execute(f"SELECT pg_advisory_lock({exclusive.KEY})".encode())
            process.send_signal(signal.SIGCONT)
            assert api.create("late") != 201
            _, log = process.communicate(timeout=PATIENCE)
        assert process.returncode == 1
        assert "a database serves one hub at a time" in log


def cut(connection: psycopg.Connection[Any], process: int) -> None:
    """End that process' writing connection, as a network does."""
    named = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE %s"
    connection.execute(named.encode(), (f"copepod %/{process}",))
