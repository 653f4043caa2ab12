"""The scenes of the lab in the console: played in a process of their own, one at a time, by its own pages only."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pytest
from jinja2 import nodes

from semel.console import scene_runs
from semel.console.app import Rules
from semel.console.pages import FOLDER, make_environment
from semel.console.scene_runs import RunState, SceneBusy, SceneRun, SceneRuns
from semel.console.views import lab
from semel.lab.chinese import CHINESE
from semel.lab.scenes import SCENES
from tests.console.visitor import Answer, Visitor, running_console
from tools.patience import PATIENCE_S, wait_until

AWAY = {"bootstrap_servers": "127.0.0.1:1"}
"""A scene has its own broker: it does not matter that there is none here."""
SCENE = "/scene?name=lost-answer"


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    with running_console(AWAY) as started:
        yield started


@pytest.fixture
def player(port: int) -> Iterator[Visitor]:
    """A visitor who leaves nothing running."""
    visitor = Visitor(port)
    yield visitor
    for scene in SCENES[:2]:
        for protection in ("on", "off"):
            path = f"/scene?name={scene.name}&protection={protection}"
            visitor.post(path, {"token": visitor.get(path).token, "do": "stop"})


def do(visitor: Visitor, path: str, wish: str) -> Answer:
    return visitor.post(path, {"token": visitor.get(path).token, "do": wish})


def seen(visitor: Visitor, path: str, said: str) -> str:
    """The page, once it says so."""
    pages: list[str] = []

    def has_come() -> bool:
        pages.append(visitor.get(path).text)
        return said in pages[-1]

    wait_until(has_come, lambda: pages[-1])
    return pages[-1]


def test_the_list_has_every_scene_in_both_languages(player: Visitor) -> None:
    english, chinese = player.get("/lab").text, player.get("/lab", lang="zh")
    for scene in SCENES:
        assert scene.title in english
        assert CHINESE[scene.title] in chinese.text
    assert "With it" not in chinese.text
    assert 'lang="zh"' in chinese.body
    assert "semel lab --lang zh" in chinese.text


def test_a_scene_is_stepped_through_and_ends_with_its_verdict(player: Visitor) -> None:
    sent = do(player, SCENE, "step")
    assert (sent.status, sent.headers["location"]) == (303, SCENE)
    first = seen(player, SCENE, "Next step")
    assert "1. A producer, a broker, an empty log." in first
    assert "clients producer" in first
    assert "orders:0 end 0" in first
    do(player, SCENE, "step")
    second = seen(player, SCENE, "2. Record a is written and acknowledged. clients")
    assert "3. " not in second  # Nothing goes on before it is asked for.
    assert "producer → Produce orders:0(pid=0 epoch=0 seq=0)" in second
    assert "0 a 0/0#0 end 1" in second
    assert "Verdict" not in second
    do(player, SCENE, "run")
    last = seen(player, SCENE, "Verdict: it holds")
    assert "✓ duplicates 0 0" in last
    assert "✓ records in the log 3 3" in last
    assert re.findall(r" ([1-5])\. ", last) == ["5", "4", "3", "2", "1"]


def test_without_its_protection_the_harm_is_counted_in_chinese_too(player: Visitor) -> None:
    path = f"{SCENE}&protection=off"
    do(player, path, "run")
    page = seen(player, path, "Verdict: it does not hold")
    assert "✗ duplicates 1 0" in page
    assert "Switched off: idempotence (enable.idempotence)" in page
    chinese = player.get(f"{path}&lang=zh").text
    assert "✗ 重复的记录 1 0" in chinese
    assert CHINESE["Verdict: it does not hold"] in chinese
    assert "Without the protection: Verdict: it does not hold" in _with_run(player)


def _with_run(player: Visitor) -> str:
    """The page of the scene with its protection, played."""
    do(player, SCENE, "run")
    return seen(player, SCENE, "Verdict: it holds")


def test_the_steps_come_by_themselves(player: Visitor) -> None:
    do(player, SCENE, "step")
    with player.events(SCENE) as events:
        # Three events in a second at most: so many are the time that a test waits.
        assert any("Next step" in event for event in islice(events, int(PATIENCE_S) * 4))
        do(player, SCENE, "run")
        assert any("Verdict: it holds" in event for event in islice(events, int(PATIENCE_S) * 4))


def test_one_scene_is_played_at_a_time_and_each_visitor_sees_only_his_own(player: Visitor, port: int) -> None:
    do(player, SCENE, "step")
    seen(player, SCENE, "Next step")
    other = Visitor(port)
    assert "Next step" not in other.get(SCENE).text
    refused = do(other, SCENE, "step")
    assert (refused.status, "Another visitor plays a scene" in refused.text) == (409, True)
    # The same visitor leaves one scene for another.
    do(player, "/scene?name=window-of-five", "step")
    seen(player, "/scene?name=window-of-five", "Next step")
    assert "It was stopped." in player.get(SCENE).text
    do(player, "/scene?name=window-of-five", "stop")
    assert do(other, SCENE, "step").status == 303
    do(other, SCENE, "stop")


def test_a_form_that_is_not_from_its_own_page_starts_nothing(player: Visitor, port: int) -> None:
    token = player.get(SCENE).token
    other = Visitor(port)
    other.get("/lab")
    for answer in (
        player.post(SCENE, {"do": "step"}),
        other.post(SCENE, {"do": "step", "token": token}),
        Visitor(port).post(SCENE, {"do": "step", "token": token}),
        player.post(SCENE, {"do": "step", "token": token}, Origin="http://evil.example"),
        player.post(SCENE, {"do": "step", "token": token}, **{"Sec-Fetch-Site": "cross-site"}),
    ):
        assert answer.status == 403, answer.body
    assert player.get(f"{SCENE}&do=step&token={token}").status == 200
    assert "A broker is started" not in player.get(SCENE).text
    assert "Play it step by step" in player.get(SCENE).text


def test_what_cannot_be_is_said(player: Visitor) -> None:
    for path, said in (
        ("/scene?name=nowhere", "there is no such scene"),
        (f"{SCENE}&lang=tlh", "it is one of en, zh"),
        (f"{SCENE}&protection=half", "it is on or off"),
    ):
        page = player.get(path)
        assert (page.status, said in page.text) == (400, True), page.text
    wrong = do(player, SCENE, "dance")
    assert (wrong.status, "it is step, run or stop" in wrong.text) == (400, True)


def test_a_console_that_others_can_reach_starts_no_process_unless_changes_are_allowed() -> None:
    with running_console(AWAY, Rules(loopback_only=False)) as port:
        visitor = Visitor(port)
        page = visitor.get(SCENE)
        assert "This console starts no processes for its visitors" in page.text
        assert "data-next" not in page.body
        visitor.get("/login")
        refused = visitor.post(SCENE, {"do": "step"})
        assert (refused.status, "--allow-changes" in refused.body) == (403, True)
    with running_console(AWAY, Rules(loopback_only=False, allow_changes=True)) as port:
        visitor = Visitor(port)
        assert do(visitor, SCENE, "step").status == 303
        seen(visitor, SCENE, "Next step")


def test_where_visitors_log_in_only_those_that_have_may_play() -> None:
    settings = {**AWAY, "security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "SCRAM-SHA-256"}
    with running_console(settings, Rules(allow_changes=True)) as port:
        visitor = Visitor(port)
        sent = visitor.get("/lab")
        assert (sent.status, sent.headers["location"]) == (303, "/login?next=%2Flab")
        token = visitor.get("/login").token
        refused = visitor.post(SCENE, {"do": "step", "token": token})
        assert (refused.status, refused.body) == (403, "log in first\n")


def alive(group: int) -> list[str]:
    """The processes of a process group that have not ended."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            name, state, _, its_group = re.match(r"\d+ \((.*)\) (\S) (\d+) (\d+)", stat.read_text()).groups()  # type: ignore[union-attr]
        except OSError:
            continue  # It has ended meanwhile.
        if int(its_group) == group and state not in "ZX":
            found.append(name)
    return found


def started(runs: SceneRuns, number: int) -> SceneRun:
    """A scene that shows its first step and waits."""
    scene = next(one for one in runs.texts().scenes if one.number == number)
    runs.start("a visitor", scene, protected=True, steps_through=True)
    run = runs.find("a visitor", scene, protected=True)
    assert run is not None
    return run


def test_the_end_of_the_console_ends_a_scene_with_the_processes_that_it_has_started() -> None:
    runs = SceneRuns()
    run = started(runs, 11)  # Its driver is a process of its own.
    wait_until(lambda: run.state is RunState.WAITING, lambda: run.state)
    assert len(alive(run.process_id)) == 2
    runs.close()
    wait_until(lambda: not alive(run.process_id), lambda: alive(run.process_id))
    assert (run.is_over, run.said) == (True, scene_runs.STOPPED)
    with pytest.raises(SceneBusy):
        started(runs, 1)


def test_a_scene_that_takes_its_time_ends_all_the_same() -> None:
    runs = SceneRuns(seconds_max=0.1)
    run = started(runs, 1)
    wait_until(lambda: run.is_over, lambda: run.state)
    assert (run.said, alive(run.process_id)) == (scene_runs.TOO_LONG, [])


def test_a_scene_that_tells_too_much_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scene_runs, "BYTES_MAX", 1000)
    run = started(SceneRuns(), 1)
    run.go_on(to_the_end=True)
    wait_until(lambda: run.is_over, lambda: run.state)
    assert (run.said, run.verdict) == (scene_runs.TOO_MUCH, None)


def test_a_process_that_dies_is_said_to_have_died(monkeypatch: pytest.MonkeyPatch) -> None:
    runs = SceneRuns()
    runs.texts()
    monkeypatch.setattr(scene_runs, "_PROCESS", ("/bin/false",))
    run = started(runs, 1)
    wait_until(lambda: run.is_over, lambda: run.state)
    assert run.said == scene_runs.GONE


def test_every_text_of_the_pages_is_there_in_chinese() -> None:
    environment = make_environment()
    said = {lab.BUSY, scene_runs.STOPPED, scene_runs.TOO_LONG, scene_runs.TOO_MUCH, scene_runs.GONE}
    for name in ("lab.html", "scene.html"):
        parsed = environment.parse((FOLDER / "templates" / name).read_text())
        for call in parsed.find_all(nodes.Call):
            if isinstance(call.node, nodes.Name) and call.node.name == "say":
                said |= {text.value for text in _texts(call.args[0])}
    assert len(said) > 30
    assert [text for text in sorted(said) if text not in CHINESE] == []


def _texts(node: nodes.Node) -> Iterator[nodes.Const]:
    """A text, or the two of a choice."""
    match node:
        case nodes.Const():
            yield node
        case nodes.CondExpr(expr1=first, expr2=second):
            yield from _texts(first)
            if second is not None:
                yield from _texts(second)
