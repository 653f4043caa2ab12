"""``semel cluster up`` and ``semel cluster status``: several brokers, as a user meets them."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from semel import blocking
from semel.cli.exits import Exit
from semel.cli.local_cluster.cluster_file import ClusterFile
from semel.cli.main import main
from semel.testing import Cluster
from tools.load import create_topic
from tools.patience import PATIENCE_S, wait_until

READY = re.compile(
    r"semel cluster ready on (?P<servers>[\d.:,]+), ZooKeeper on (?P<zookeeper>[\d.:]+), data in (?P<folder>\S+)\n"
)


# status


@pytest.fixture
def status(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("NO_COLOR", "1")

    def run(*arguments: str, exit_code: int = Exit.OK) -> str:
        code = main(["cluster", "status", *arguments])
        printed = capsys.readouterr()
        assert code == exit_code, printed.err
        return printed.out

    return run


def test_status_shows_brokers_leaders_and_what_is_away(status: Any, capsys: pytest.CaptureFixture[str]) -> None:
    with Cluster(brokers=3, broker_rack="a") as cluster:
        create_topic(cluster.bootstrap_servers, "orders", partitions=4, leaders=[1, 2, 3, 2])
        servers = ("--bootstrap-server", cluster.brokers[1].bootstrap_servers)
        shown = json.loads(status(*servers, "--json"))
        (controller,) = [broker["id"] for broker in shown["brokers"] if broker["controller"]]
        assert shown["controller"] == controller
        assert (shown["topics"], shown["partitions"], shown["without_leader"]) == (1, 4, [])
        assert shown["brokers"] == [
            {
                "id": node_id,
                "address": broker.bootstrap_servers,
                "rack": "a",
                "state": "up",
                "controller": node_id == controller,
                **dict.fromkeys(("leads", "replicas", "in_sync"), 2 if node_id == 2 else 1),
            }
            for node_id, broker in cluster.brokers.items()
        ]

        cluster.brokers[2].stop(kill=True)
        killed = json.loads(status(*servers, "--json", exit_code=Exit.FOUND))
        assert [broker["state"] for broker in killed["brokers"]] == ["up", "no answer", "up"]

        assert main(["cluster", "info", *servers, "--json"]) == Exit.OK
        told = json.loads(capsys.readouterr().out)["brokers"]
        assert [broker["log_bytes"] is None for broker in told] == [False, True, False]

        assert main(["topic", "describe", "orders", *servers, "--json"]) == Exit.OK
        rows = json.loads(capsys.readouterr().out)["partitions"]
        assert [row["end"] for row in rows] == [0, None, 0, None]

        cluster.expire_session(2)
        table = status(*servers, exit_code=Exit.FOUND)
        assert "without leader    2: orders:1, orders:3\n" in table
        assert re.search(r"^ 2 +- +- +not registered +no +0 +2 +2$", table, re.MULTILINE), table


def test_status_shows_which_partitions_lack_in_sync_replicas(status: Any) -> None:
    with Cluster(brokers=3) as cluster:
        create_topic(cluster.bootstrap_servers, "copied", partitions=3, replicas=3)
        servers = ("--bootstrap-server", cluster.brokers[1].bootstrap_servers)
        assert "under replicated  none\n" in status(*servers)
        cluster.brokers[2].stop()
        table = status(*servers, exit_code=Exit.FOUND)
        assert "without leader    none\n" in table
        assert "under replicated  3: copied:0, copied:1, copied:2\n" in table


def test_status_of_a_folder_without_a_cluster_is_wrong_usage(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["cluster", "status", "--data-dir", str(tmp_path)])
    assert ended.value.code == Exit.USAGE
    assert capsys.readouterr().err == (f"semel: --data-dir {tmp_path}: `semel cluster up` was never run there\n")


# up


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "semel", "cluster", *arguments]


@contextmanager
def up(folder: Path, *arguments: str) -> Iterator[tuple[subprocess.Popen[str], re.Match[str]]]:
    process = subprocess.Popen(
        command("up", "--data-dir", str(folder), *arguments), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        ready = READY.fullmatch(line)
        assert ready is not None, (line, process.stderr.read() if process.stderr else "")
        yield process, ready
    finally:
        # Not SIGKILL: it could not end what it has started.
        process.terminate()
        process.communicate(timeout=PATIENCE_S)


@pytest.mark.needs("java")
@pytest.mark.xdist_group("cluster-up")
def test_up_is_one_cluster_that_outlives_a_kill_and_a_restart(tmp_path: Path, status: Any) -> None:
    with up(tmp_path, "--port", "0", "--set", "num.partitions=3") as (process, ready):
        assert ready["folder"] == str(tmp_path)
        with blocking.Producer(bootstrap_servers=ready["servers"], transactional_id="up") as producer:
            producer.begin()
            for partition in range(3):
                producer.send("orders", b"%d" % partition, partition=partition)
            producer.commit()
        shown = json.loads(status("--data-dir", str(tmp_path), "--json"))
        assert [(broker["id"], broker["state"]) for broker in shown["brokers"]] == [(1, "up"), (2, "up"), (3, "up")]
        epochs = {broker["id"]: broker["epoch"] for broker in shown["brokers"]}
        assert len({broker["session"] for broker in shown["brokers"]}) == 3

        os.kill(int((tmp_path / "broker-2.pid").read_text()), signal.SIGKILL)

        def is_back() -> bool:
            now = {broker["id"]: broker for broker in json.loads(_status_of(tmp_path))["brokers"]}
            return bool(now[2]["state"] == "up" and now[2]["epoch"] > epochs[2])

        wait_until(is_back, "broker 2 is not started again", pause_s=0.5)
        process.send_signal(signal.SIGINT)
        out, errors = process.communicate(timeout=PATIENCE_S)
        assert (process.returncode, out) == (0, "")
        assert errors == "semel: broker 2 was ended by signal 9, and is started again\n"
    known = ClusterFile.read(tmp_path)
    assert known is not None
    assert [port for port in known.ports if _is_taken(port)] == []
    assert list(tmp_path.glob("*.pid")) == []
    assert "no member" not in (tmp_path / "broker-1.txt").read_text(), "a broker that stops is not expelled"

    with up(tmp_path) as (process, again):
        assert (again["servers"], again["zookeeper"]) == (ready["servers"], ready["zookeeper"])
        # Not all replicas may be in sync again already.
        assert json.loads(_status_of(tmp_path))["cluster"] == shown["cluster"]
        with blocking.Consumer(
            bootstrap_servers=again["servers"], isolation_level="read_committed", auto_offset_reset="earliest"
        ) as consumer:
            consumer.assign([("orders", partition) for partition in range(3)])
            found: set[bytes | None] = set()
            while len(found) < 3:
                found |= {record.value for record in consumer.poll(1000)}
        assert found == {b"0", b"1", b"2"}
        process.terminate()
        process.communicate(timeout=PATIENCE_S)
        assert process.returncode == 0


def _status_of(folder: Path) -> str:
    done = subprocess.run(command("status", "--data-dir", str(folder), "--json"), capture_output=True, text=True)
    return done.stdout or '{"brokers": [{"id": 2, "state": "no answer", "epoch": 0}]}'


def _is_taken(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def failed(*arguments: str, before: str = "") -> tuple[int, str]:
    code = f"import sys; {before}from semel.cli.main import main; sys.exit(main())"
    done = subprocess.run(
        [sys.executable, "-c", code, "cluster", "up", *arguments], capture_output=True, text=True, timeout=PATIENCE_S
    )
    assert done.stdout == ""
    return done.returncode, done.stderr


def test_what_is_missing_is_said_in_one_sentence(tmp_path: Path) -> None:
    data = ("--data-dir", str(tmp_path / "data"), "--port", "0")
    code, said = failed(*data, before="sys.modules['kazoo'] = None; ")
    assert (code, said) == (1, "semel: a cluster needs kazoo, which is not installed: pip install 'semel[cluster]'\n")
    code, said = failed(*data, "--zookeeper-jars", str(tmp_path))
    assert code == 1
    assert said == (
        f"semel: there is no zookeeper-*.jar in {tmp_path}: name a folder that has it with --zookeeper-jars DIR\n"
    )
    no_java = "import semel.spark.java as j; j.packaged_java = lambda: None; import os; os.environ['PATH'] = ''; "
    code, said = failed(*data, before=no_java + "os.environ.pop('JAVA_HOME', None); ")
    assert code == 1
    assert said.startswith("semel: ZooKeeper needs Java 17 or newer, and there is none: no JAVA_HOME, no java. ")
    assert not (tmp_path / "data").exists()


@pytest.mark.needs("java")
def test_a_port_that_is_taken_is_named(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        code, said = failed("--data-dir", str(tmp_path), "--port", str(port))
    assert (code, said) == (1, f"semel: cannot listen: 127.0.0.1:{port} is in use by another process\n")


@pytest.mark.parametrize(
    ("arguments", "rule"),
    [
        (["--brokers", "5"], "is a cluster of 2. Name another --data-dir"),
        (["--port", "1234"], "is on 127.0.0.1:9092,127.0.0.1:9093. Name another --data-dir"),
        (["--brokers", "0"], "a cluster has at least one"),
        (["--set", "nonsense"], "it takes the form KEY=VALUE"),
    ],
)
def test_what_contradicts_the_cluster_that_is_there_is_wrong_usage(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], rule: str
) -> None:
    ClusterFile.planned(2, 9092).write(tmp_path)
    with pytest.raises(SystemExit) as ended:
        main(["cluster", "up", "--data-dir", str(tmp_path), *arguments])
    assert ended.value.code == Exit.USAGE
    assert rule in capsys.readouterr().err


def test_ports_follow_each_other_and_are_kept(tmp_path: Path) -> None:
    planned = ClusterFile.planned(3, 9092)
    assert planned.bootstrap_servers == "127.0.0.1:9092,127.0.0.1:9093,127.0.0.1:9094"
    assert ([broker.brokers for broker in planned.brokers], planned.zookeeper) == ([9095, 9096, 9097], 9098)
    planned.write(tmp_path)
    assert ClusterFile.read(tmp_path) == planned
    with pytest.raises(ValueError, match="65531 to 65537"):
        ClusterFile.planned(3, 65_531)


def test_one_broker_does_without_kazoo(tmp_path: Path) -> None:
    code = (
        "import sys; from semel.cli.main import main; code = main(); "
        "print([name for name in sys.modules if name.partition('.')[0] == 'kazoo']); sys.exit(code)"
    )
    arguments = ["serve", "--data-dir", str(tmp_path), "--listen", "127.0.0.1:0"]
    process = subprocess.Popen([sys.executable, "-c", code, *arguments], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline().startswith("semel ready on ")
    process.terminate()
    out, _ = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, out) == (0, "[]\n")
