"""``semel log``: every kind of file and every kind of damage is named, and nothing sound is."""

from __future__ import annotations

import io
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from semel.cli.exits import Exit
from semel.cli.main import main
from semel.log.disk import SystemDisk
from semel.log.durability.checkpoints import MetaProperties, read_topic_id, write_meta_properties
from semel.log.recovery.last_run import LastRun
from semel.testing import Broker
from semel.wire.records import iterate_headers
from tests.broker.raw_client import RawClient, batch
from tests.cli.data_directories import TOPIC, fill, make_directory

Damage = Callable[[Path], object]


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("stopped")
    make_directory(folder)
    return folder


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("killed")
    make_directory(folder, kill=True)
    return folder


@pytest.fixture
def directory(stopped: Path, tmp_path: Path) -> Path:
    """A copy that may be damaged."""
    return Path(shutil.copytree(stopped, tmp_path / "data"))


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    def command(*arguments: object, exit_code: int = Exit.OK) -> str:
        try:
            code = main(["log", *map(str, arguments)])
        except SystemExit as ended:
            code = ended.code if isinstance(ended.code, int) else 1
        printed = capsys.readouterr()
        assert code == exit_code, (printed.out, printed.err)
        return printed.out + printed.err

    return command


Run = Callable[..., str]


def findings(run: Run, folder: Path, *options: str, exit_code: int = Exit.FOUND) -> dict[str, Any]:
    """The findings by the name of their file, relative to the data directory."""
    found = json.loads(run("verify", folder, "--json", *options, exit_code=exit_code))
    return {str(Path(finding["path"]).relative_to(folder)): finding for finding in found["findings"]}


def segments(folder: Path) -> list[Path]:
    return sorted((folder / f"{TOPIC}-0").glob("*.log"))


def journal_in_use(folder: Path) -> Path:
    return max(folder.glob("journal.*"), key=lambda path: path.stat().st_size)


def flip(at: int, *, bit: int = 0x04) -> Damage:
    def damage(path: Path) -> None:
        data = bytearray(path.read_bytes())
        data[at] ^= bit
        path.write_bytes(data)

    return damage


def cut(size: int) -> Damage:
    return lambda path: path.write_bytes(path.read_bytes()[:-size])


def zero_end(size: int) -> Damage:
    return lambda path: path.write_bytes(path.read_bytes()[:-size] + bytes(size))


def of_another_topic(path: Path) -> None:
    path.write_text("version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ")


delete = Path.unlink


def be_compacted(folder: Path) -> None:
    """Make the directory one in which the topic was compacted before."""
    (folder / "cleaner-offset-checkpoint").write_text(f"0\n1\n{TOPIC} 0 0\n")


def join_cluster(folder: Path) -> None:
    """Make the directory that of a broker whose metadata is in ZooKeeper."""
    for name in ("metadata", "metadata.copy"):
        (folder / name).unlink(missing_ok=True)
    identity = MetaProperties("cluster", 1, directory_id="AAAAAAAAAAAAAAAAAAAAAA")
    write_meta_properties(SystemDisk(), str(folder / "meta.properties"), identity)


# -- verify -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [(), ("--deep",)])
def test_a_stopped_directory_is_sound(run: Run, stopped: Path, options: tuple[str, ...]) -> None:
    assert findings(run, stopped, *options, exit_code=Exit.OK) == {}
    assert "51 partitions" in run("verify", stopped, *options)


@pytest.mark.parametrize("options", [(), ("--deep",)])
def test_a_killed_directory_is_sound(run: Run, killed: Path, options: tuple[str, ...]) -> None:
    assert all(found["severity"] == "note" for found in findings(run, killed, *options, exit_code=Exit.OK).values())


def test_the_directory_of_a_running_broker_is_sound_and_left_alone(run: Run, tmp_path: Path) -> None:
    with Broker(tmp_path) as broker:
        fill(broker)
        for options in ((), ("--deep",)):
            assert findings(run, tmp_path, *options, exit_code=Exit.OK) == {}
        assert "a broker runs here" in run("verify", tmp_path)


def test_verifying_changes_nothing(run: Run, directory: Path) -> None:
    flip(5)(directory / "metadata")
    cut(9)(segments(directory)[0])
    before = {path: path.read_bytes() for path in directory.rglob("*") if path.is_file()}
    run("verify", directory, "--deep", exit_code=Exit.FOUND)
    assert {path: path.read_bytes() for path in directory.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize(
    ("name", "damage", "severity", "said"),
    [
        ("metadata", flip(40), "derived", "makes it again from"),
        ("metadata", delete, "derived", "is missing"),
        ("metadata.copy", cut(3), "derived", "are not"),
        ("meta.properties", flip(0), "derived", "cluster.id is missing"),
        ("meta.properties", delete, "derived", "makes it again from the metadata"),
        ("meta.properties", flip(13), "derived", "the metadata has"),
        ("last-run", flip(12), "derived", "takes the machine for one that died"),
        ("recovery-point-offset-checkpoint", flip(0), "derived", "only version 0 is known"),
        ("replication-offset-checkpoint", cut(4), "derived", "cut off"),
        ("log-start-offset-checkpoint", flip(2), "derived", "entries"),
        ("orders-0/partition.metadata", delete, "derived", "is missing"),
        ("orders-0/partition.metadata", flip(9), "derived", "version|checksum"),
        ("orders-0/partition.metadata", of_another_topic, "loss", "the metadata has"),
        ("orders-0/leader-epoch-checkpoint", flip(0), "derived", "version"),
        ("orders-0/leader-epoch-checkpoint", flip(4, bit=1), "derived", "epoch 0"),
        ("orders-0/leader-epoch-checkpoint", delete, "derived", "epoch 0"),
        ("orders-0/partition.checkpoint", flip(30), "derived", "checksum"),
        ("orders-0/partition.checkpoint", cut(5), "derived", "reads the partition from end to end"),
        ("orders-0/00000000000000000000.checksums", flip(20), "derived", "makes the indexes of the segment again"),
        ("orders-0/00000000000000000000.index", flip(3), "derived", "index|it has offset"),
        ("orders-0/00000000000000000000.index", delete, "derived", "is missing"),
        ("orders-0/00000000000000000000.timeindex", delete, "derived", "is missing"),
        ("orders-0/00000000000000000000.index", cut(3), "derived", "entries are 8 bytes"),
        ("orders-0/00000000000000000000.timeindex", flip(7), "derived", "timestamp"),
        ("orders-0/00000000000000000000.timeindex", flip(11), "derived", "no batch ends|descend|largest"),
    ],
)
def test_a_damaged_file_is_named_with_what_the_next_start_does(
    run: Run, directory: Path, name: str, damage: Damage, severity: str, said: str
) -> None:
    damage(directory / name)
    found = findings(run, directory)
    assert list(found) == [name]
    assert found[name]["severity"] == severity
    assert any(word in found[name]["problem"] + found[name]["next_start"] for word in said.split("|")), found
    assert name in run("verify", directory, exit_code=Exit.FOUND)


def test_the_directory_of_a_broker_whose_metadata_is_in_zookeeper_is_sound(run: Run, directory: Path) -> None:
    for name in ("metadata", "metadata.copy"):
        (directory / name).unlink()
    assert findings(run, directory)["metadata"]["severity"] == "loss"
    join_cluster(directory)
    assert findings(run, directory, exit_code=Exit.OK) == {}


@pytest.mark.parametrize(
    ("name", "damage", "said"),
    [
        ("00000000000000000000.txnindex", delete, "which was aborted"),
        ("00000000000000000000.txnindex", cut(34), "which was aborted"),
        ("00000000000000000000.txnindex", flip(17), "the log has"),
        ("00000000000000000000.txnindex", flip(33, bit=2), "the log has"),
        ("*.snapshot", flip(20), "CRC"),
        ("*.snapshot", cut(5), "CRC"),
    ],
)
def test_a_damaged_derived_file_is_found_by_a_deep_look(
    run: Run, directory: Path, name: str, damage: Damage, said: str
) -> None:
    (path, *_) = sorted((directory / f"{TOPIC}-0").glob(name))
    damage(path)
    found = findings(run, directory, "--deep")
    relative = str(path.relative_to(directory))
    assert list(found) == [relative]
    assert found[relative]["severity"] == "derived"
    assert said in found[relative]["problem"]


def test_a_snapshot_that_is_sound_and_not_true_is_found_by_a_deep_look(run: Run, directory: Path) -> None:
    first, *_, last = sorted((directory / f"{TOPIC}-0").glob("*.snapshot"))
    shutil.copyfile(last, first)
    found = findings(run, directory, "--deep")
    assert list(found) == [str(first.relative_to(directory))]
    assert "the log has" in found[str(first.relative_to(directory))]["problem"]


def test_a_flipped_bit_in_a_record_is_found_by_a_deep_look_and_costs_its_batch(run: Run, directory: Path) -> None:
    name = str(segments(directory)[1].relative_to(directory))
    flip(300_000)(segments(directory)[1])
    assert findings(run, directory, exit_code=Exit.OK) == {}
    (found,) = findings(run, directory, "--deep").values()
    assert (found["severity"], str(Path(found["path"]).relative_to(directory))) == ("loss", name)
    assert "the checksum of batch" in found["problem"]
    assert found["lost"].startswith("offset ")


def positions(path: Path) -> list[int]:
    return [position for position, _ in iterate_headers(path.read_bytes())]


@pytest.mark.parametrize("segment", [0, -1])
@pytest.mark.parametrize("batch_number", [0, 3, -1])
@pytest.mark.parametrize("byte", range(8))
def test_a_flipped_bit_in_the_base_offset_of_a_batch_is_found(
    run: Run, directory: Path, segment: int, batch_number: int, byte: int
) -> None:
    path = segments(directory)[segment]
    flip(positions(path)[batch_number] + byte)(path)
    found = findings(run, directory)[str(path.relative_to(directory))]
    assert found["severity"] == "loss"
    assert "offset" in found["problem"]
    assert found["lost"]


@pytest.mark.parametrize("bit", [0x01, 0x80])
@pytest.mark.parametrize("byte", range(12, 16))
def test_a_flipped_bit_in_the_leader_epoch_of_a_batch_is_found(run: Run, directory: Path, byte: int, bit: int) -> None:
    path = segments(directory)[1]
    flip(positions(path)[3] + byte, bit=bit)(path)
    found = findings(run, directory)
    assert list(found) == [str(path.relative_to(directory))]
    assert "the partition had 0 there" in found[str(path.relative_to(directory))]["problem"]
    assert found[str(path.relative_to(directory))]["severity"] == "derived"


def test_what_the_next_start_does_about_a_batch_inside_a_closed_segment_is_told(run: Run, directory: Path) -> None:
    first, *_, last = segments(directory)
    flip(positions(first)[3] + 7)(first)
    assert findings(run, directory)[str(first.relative_to(directory))]["next_start"] == (
        "serves the partition, and reading fails there"
    )
    flip(positions(last)[3] + 7)(last)
    flip(positions(first)[3] + 7)(first)
    assert "does not serve" in findings(run, directory)[str(last.relative_to(directory))]["next_start"]


@pytest.mark.parametrize("damage", [cut(10), zero_end(10_000)])
def test_a_log_that_ends_early_is_named_with_the_offsets_that_are_lost(
    run: Run, directory: Path, damage: Damage
) -> None:
    last = segments(directory)[-1]
    (end,) = [
        int(line.split()[2])
        for line in (directory / "recovery-point-offset-checkpoint").read_text().splitlines()
        if line.startswith(f"{TOPIC} 0 ")
    ]
    damage(last)
    (found,) = findings(run, directory, "--deep").values()
    assert found["path"] == str(last)
    assert found["severity"] == "loss"
    assert str(end - 1) in found["lost"]
    assert "does not serve" in found["next_start"]


def test_a_segment_that_is_missing_is_named_with_the_offsets_that_are_lost(run: Run, directory: Path) -> None:
    _, second, third, *_ = segments(directory)
    second.unlink()
    found = findings(run, directory)[str(third.relative_to(directory))]
    assert found["severity"] == "loss"
    assert found["lost"].startswith(f"offsets {int(second.stem)} to {int(third.stem) - 1} ")


def test_a_first_segment_that_is_missing_is_known_by_its_index(run: Run, directory: Path) -> None:
    first, second, *_ = segments(directory)
    first.unlink()
    found = findings(run, directory)[str(first.with_suffix(".index").relative_to(directory))]
    assert found["severity"] == "loss"
    assert found["lost"].startswith(f"offsets 0 to {int(second.stem) - 1} ")


def test_an_index_that_compaction_has_not_removed_yet_is_no_loss(run: Run, directory: Path) -> None:
    """Its records are in the segment before it."""
    last = segments(directory)[-1]
    left = last.with_name(f"{int(last.stem) - 1:020d}.index")
    shutil.copy(last.with_suffix(".index"), left)
    (found,) = findings(run, directory, "--deep", exit_code=Exit.OK).values()
    assert (found["severity"], found["path"]) == ("note", str(left))


def test_a_partition_that_is_missing_is_named(run: Run, directory: Path) -> None:
    shutil.rmtree(directory / f"{TOPIC}-0")
    found = findings(run, directory)[f"{TOPIC}-0"]
    assert (found["severity"], found["problem"]) == ("loss", "the folder is missing")


def test_what_the_journal_holds_is_not_lost(run: Run, killed: Path, tmp_path: Path) -> None:
    directory = Path(shutil.copytree(killed, tmp_path / "data"))
    cut(10)(segments(directory)[-1])
    found = findings(run, directory, "--deep", exit_code=Exit.OK)
    assert found[str(segments(directory)[-1].relative_to(directory))]["severity"] == "note"
    # Without the journal the batch behind the cut is simply not there: a torn end, as far as can be known.
    journal = journal_in_use(directory)
    flip(70)(journal)
    found = findings(run, directory, "--deep")
    assert "sound ones of the same generation follow" in found[journal.name]["problem"]
    assert found[journal.name]["severity"] == "loss"


@pytest.mark.parametrize("in_cluster", [False, True])
def test_what_the_journal_holds_is_not_lost_in_a_cluster_either(
    run: Run, killed: Path, tmp_path: Path, in_cluster: bool
) -> None:
    directory = Path(shutil.copytree(killed, tmp_path / "data"))
    if in_cluster:
        join_cluster(directory)
    (log,) = segments(directory)
    flip(16)(log)  # Sound batches follow, and the journal has all of them.
    found = findings(run, directory, "--deep", exit_code=Exit.OK)
    assert found[str(log.relative_to(directory))]["severity"] == "note"


def test_both_metadata_files_damaged_is_a_loss(run: Run, directory: Path) -> None:
    cut(3)(directory / "metadata")
    cut(3)(directory / "metadata.copy")
    found = findings(run, directory)["metadata"]
    assert found["severity"] == "loss"
    assert "refuses the directory" in found["next_start"]


def test_a_directory_that_is_none_is_refused(run: Run, tmp_path: Path) -> None:
    assert "is no directory" in run("verify", tmp_path / "nowhere", exit_code=Exit.USAGE)
    assert "no data directory" in run("verify", tmp_path, exit_code=Exit.USAGE)
    (tmp_path / "meta.properties").write_text("version=1\ncluster.id=x\nnode.id=1\ndirectory.id=y\n")
    assert "Apache Kafka" in run("verify", tmp_path, exit_code=Exit.FAILED)


# -- dump -------------------------------------------------------------------------------------------------------------


def lines(run: Run, *arguments: object, exit_code: int = Exit.OK) -> list[dict[str, Any]]:
    return [json.loads(line) for line in run("dump", *arguments, "--json", exit_code=exit_code).splitlines()]


def test_a_partition_is_dumped_batch_by_batch(run: Run, stopped: Path) -> None:
    shown = lines(run, stopped / f"{TOPIC}-0")
    assert [line["segment"] for line in shown if "segment" in line] == [str(path) for path in segments(stopped)]
    batches = [line for line in shown if "offsets" in line]
    assert batches[0] | {"time": "", "crc": ""} == {
        "offsets": "0..0",
        "records": 1,
        "position": 0,
        "bytes": batches[0]["bytes"],
        "time": "",
        "leader_epoch": 0,
        "producer_id": 0,
        "producer_epoch": batches[0]["producer_epoch"],
        "sequences": "0..0",
        "transactional": True,
        "control": None,
        "codec": None,
        "crc": "",
    }
    assert sum(line["records"] for line in batches) == 24 * 6


def test_records_and_markers_are_dumped_when_asked(run: Run, stopped: Path) -> None:
    shown = lines(run, segments(stopped)[0], "--offsets", "4..5", "--records")
    records = [line for line in shown if "key" in line]
    assert [(line["offset"], line["key"], line["value"][:3]) for line in records] == [(4, "4", "AAA")]
    assert [line for line in shown if "marker" in line] == [{"marker": "abort", "offset": 5, "coordinator_epoch": 0}]
    assert "offset=4" in run("dump", segments(stopped)[0], "--offsets", "4", "--records")


def test_records_of_the_brokers_own_topics_are_decoded(run: Run, stopped: Path) -> None:
    (path,) = [path for path in stopped.glob("__transaction_state-*/*.log") if path.stat().st_size]
    keys = [line["key"] for line in lines(run, path, "--records") if "key" in line]
    assert keys[0] == {"transactional_id": "till"}


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("metadata", "change"),
        ("metadata.copy", "path"),
        ("meta.properties", "line"),
        ("last-run", "line"),
        ("recovery-point-offset-checkpoint", "partition"),
        ("orders-0/leader-epoch-checkpoint", "leader_epoch"),
        ("orders-0/partition.metadata", "line"),
        ("orders-0/00000000000000000000.index", "position"),
        ("orders-0/00000000000000000000.timeindex", "timestamp"),
        ("orders-0/00000000000000000000.txnindex", "first_offset"),
        ("orders-0/*.snapshot", "producer_epoch"),
    ],
)
def test_every_kind_of_file_is_dumped_and_says_where_it_is_unsound(
    run: Run, directory: Path, name: str, key: str
) -> None:
    path = sorted(directory.glob(name))[0]
    first, *_ = lines(run, path)
    assert key in first
    if key != "line":
        cut(3)(path)
        assert "unsound" in lines(run, path, exit_code=Exit.FOUND)[-1]


def test_the_journal_is_dumped(run: Run, killed: Path) -> None:
    shown = lines(run, journal_in_use(killed))
    assert {line["entry"] for line in shown} == {"data"}
    assert all(line["batches"] for line in shown)


def test_a_damaged_segment_is_dumped_up_to_where_it_is_sound(run: Run, directory: Path) -> None:
    flip(300_000)(segments(directory)[0])
    unsound = [line for line in lines(run, segments(directory)[0], exit_code=Exit.FOUND) if "unsound" in line]
    assert "checksum" in unsound[0]["unsound"]
    cut(10)(segments(directory)[0])
    assert "the file has" in lines(run, segments(directory)[0], exit_code=Exit.FOUND)[-1]["unsound"]


@pytest.mark.parametrize("text", ["x", "1..y", "..", ""])
def test_offsets_that_are_none_are_refused(run: Run, stopped: Path, text: str) -> None:
    assert "FIRST..LAST" in run("dump", segments(stopped)[0], "--offsets", text, exit_code=Exit.USAGE)


def test_what_cannot_be_dumped_is_refused(run: Run, directory: Path) -> None:
    (directory / "notes.txt").write_text("")
    assert "has no name of a file" in run("dump", directory / "notes.txt", exit_code=Exit.USAGE)
    assert "has no segments" in run("dump", directory, exit_code=Exit.USAGE)
    assert "does not exist" in run("dump", directory / "nowhere", exit_code=Exit.USAGE)


# -- repair -----------------------------------------------------------------------------------------------------------


def committed(folder: Path) -> list[tuple[int, bytes]]:
    """What a reader of committed records gets from a broker on this directory."""
    with Broker(folder) as broker:
        return [(record.offset, record.value[:1]) for record in broker.committed(TOPIC) if record.value is not None]


@pytest.fixture(scope="module")
def sound(stopped: Path, tmp_path_factory: pytest.TempPathFactory) -> list[tuple[int, bytes]]:
    return committed(Path(shutil.copytree(stopped, tmp_path_factory.mktemp("sound") / "data")))


def test_there_is_nothing_to_repair_in_a_sound_directory(run: Run, directory: Path) -> None:
    assert run("repair", directory) == "nothing to repair\n"


@pytest.mark.parametrize(
    ("name", "damage"),
    [
        ("metadata", flip(40)),
        ("metadata.copy", delete),
        ("meta.properties", flip(0)),
        ("meta.properties", flip(13)),
        ("last-run", flip(12)),
        ("orders-0/partition.metadata", delete),
        ("orders-0/leader-epoch-checkpoint", flip(4, bit=1)),
        ("orders-0/00000000000000000000.index", flip(3)),
        ("orders-0/00000000000000000000.timeindex", flip(11)),
        ("orders-0/00000000000000000000.txnindex", delete),
        ("orders-0/00000000000000000000.txnindex", cut(34)),
        ("orders-0/*.snapshot", flip(20)),
        ("orders-0/00000000000000000062.checksums", flip(20)),
        ("orders-0/00000000000000000000.index", flip(7)),
    ],
)
def test_what_can_be_made_again_is_repaired_and_nothing_is_lost(
    run: Run, directory: Path, sound: list[tuple[int, bytes]], name: str, damage: Damage
) -> None:
    damage(sorted(directory.glob(name))[-1])
    assert "done:" in run("repair", directory, "--yes")
    assert committed(directory) == sound
    assert findings(run, directory, "--deep", exit_code=Exit.OK) == {}


def test_a_loss_is_not_accepted_without_being_told(run: Run, directory: Path) -> None:
    cut(10)(segments(directory)[-1])
    before = {path: path.read_bytes() for path in directory.rglob("*") if path.is_file() and path.name != ".lock"}
    said = run("repair", directory, "--yes", exit_code=Exit.FOUND)
    assert f"--accept-loss {TOPIC}-0" in said
    assert {path: path.read_bytes() for path in before} == before


@pytest.mark.parametrize(
    "damage",
    [
        lambda paths: cut(10)(paths[-1]),
        lambda paths: zero_end(5000)(paths[1]),
        lambda paths: flip(300_000)(paths[1]),
        lambda paths: paths[1].unlink(),
        lambda paths: flip(16)(paths[1]),
        lambda paths: (paths[1].unlink(), be_compacted(paths[1].parent.parent)),
    ],
    ids=["cut", "zeroed in the middle", "flipped record", "missing segment", "flipped header", "missing, compacted"],
)
def test_a_partition_whose_loss_is_accepted_serves_what_is_before_the_damage(
    run: Run, directory: Path, sound: list[tuple[int, bytes]], damage: Callable[[list[Path]], object]
) -> None:
    damage(segments(directory))
    said = run("repair", directory, "--yes", "--accept-loss", f"{TOPIC}-0")
    end = int(said.partition(f"cut {TOPIC}-0 at offset ")[2].partition(",")[0])
    left = committed(directory)
    # A transaction whose marker is gone is open again, and so are the records behind its first one.
    assert left == sound[: len(left)]
    assert len([offset for offset, _ in sound if offset < end]) - len(left) <= 5
    assert findings(run, directory, "--deep", exit_code=Exit.OK) == {}
    with Broker(directory) as broker, RawClient(broker.port) as client:
        # In between are at most the markers of transactions that the cut has opened again.
        assert end <= client.produce(TOPIC, batch(b"goes on")).base_offset <= end + 2


@pytest.mark.parametrize("suffixes", [(".log",), (".log", ".index", ".timeindex", ".txnindex", ".checksums")])
def test_a_missing_segment_of_a_topic_that_may_be_compacted_is_no_hole(
    run: Run, directory: Path, suffixes: tuple[str, ...]
) -> None:
    join_cluster(directory)  # So the topic's settings are not known.
    first, second, *_ = segments(directory)
    for suffix in suffixes:
        second.with_suffix(suffix).unlink(missing_ok=True)
    assert "loss" in {found["severity"] for found in findings(run, directory).values()}
    assert f"at offset {int(second.stem)}," in run("repair", directory, "--yes", "--accept-loss", f"{TOPIC}-0")
    assert segments(directory) == [first]
    assert findings(run, directory, "--deep", exit_code=Exit.OK) == {}


def test_a_broker_of_a_cluster_whose_loss_is_accepted_leaves_the_in_sync_set(run: Run, directory: Path) -> None:
    join_cluster(directory)
    topic_id = read_topic_id(SystemDisk(), f"{directory}/{TOPIC}-0/partition.metadata")
    cut(10)(segments(directory)[-1])
    run("repair", directory, "--yes", "--accept-loss", f"{TOPIC}-0")
    assert LastRun.read(SystemDisk(), str(directory), has_logs=True).lost == {(topic_id, 0)}


def test_metadata_whose_loss_is_accepted_is_what_is_sound(run: Run, directory: Path) -> None:
    cut(3)(directory / "metadata")
    cut(40)(directory / "metadata.copy")
    damaged = (directory / "metadata").read_bytes()
    assert "--accept-loss metadata" in run("repair", directory, "--yes", exit_code=Exit.FOUND)
    run("repair", directory, "--yes", "--accept-loss", "metadata")
    assert (directory / "metadata").read_bytes() == (directory / "metadata.copy").read_bytes()
    assert (directory / "metadata.damaged").read_bytes() == damaged
    assert not [name for name in findings(run, directory, exit_code=Exit.OK) if name.startswith("metadata")]


def test_a_directory_in_use_is_not_repaired(run: Run, tmp_path: Path) -> None:
    with Broker(tmp_path):
        assert "is in use by another broker" in run("repair", tmp_path, exit_code=Exit.FAILED)


def test_repairing_asks_on_a_terminal_only(run: Run, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    flip(40)(directory / "metadata")
    damaged = (directory / "metadata").read_bytes()
    monkeypatch.setattr("sys.stdin", io.StringIO("y\n"))
    assert "--yes" in run("repair", directory, exit_code=Exit.USAGE)
    monkeypatch.setattr("sys.stdin", Terminal("n\n"))
    assert "nothing was done" in run("repair", directory, exit_code=Exit.FAILED)
    assert (directory / "metadata").read_bytes() == damaged
    monkeypatch.setattr("sys.stdin", Terminal("y\n"))
    assert "done: make" in run("repair", directory)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True
