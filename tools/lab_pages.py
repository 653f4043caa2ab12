"""Writes the pages of the lab, ``docs/lab.md`` and ``docs/lab.zh.md``, and their diagrams, from scenes that are played.

    python -m tools.lab_pages      plays every scene twice, and writes the pages from the runs

Both pages are made by one function, so they have the same headings, tables and pictures. The facts in the tables come
from the verdicts; a picture is drawn from the requests and responses of a run (``semel.lab.sequence``).
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from semel.lab.playing import Played, play
from semel.lab.quiet_log import quiet_log
from semel.lab.scene import Fact
from semel.lab.scenes import SCENES
from semel.lab.sequence import diagram
from semel.lab.words import LANGUAGES, translated
from tools import sequence_diagram

DOCS: Final = Path(__file__).resolve().parent.parent / "docs"
PAGES: Final = {"en": "lab.md", "zh": "lab.zh.md"}

STEPS: Final = {"rebalance": (1, 4)}
"""The steps that are drawn of a scene whose steps differ only in numbers."""

_OPENING: Final = {
    "en": """# The lab

<!-- Made by `python -m tools.lab_pages` from scenes that were played. -->

[中文](lab.zh.md)

`semel lab` shows how exactly-once works, on real brokers with real faults. Each scene shows the state of the clients, the requests on the
wire and the log side by side, and ends with a verdict that is computed from what was read back. Repeated without its protection, the
duplicate, the loss or the zombie is seen to happen. Brokers run inside the command, with their data in memory: nothing else is needed, and
nothing is left behind. All scenes together take some twenty seconds.

What dies is a process of its own and ends by SIGKILL: the coordinator of scene 7, which is one broker of a cluster, and the drivers of scene 11,
which run the steps of a pipeline without Spark. In scene 12 no process dies: the first coordinator lives on, and does not know that it was replaced. The
clusters of scenes 7 and 12 coordinate through a model of ZooKeeper in memory, where a broker's session is ended at once instead of after
`zookeeper.session.timeout.ms`.

```console
$ semel lab --list
$ semel lab --scene 1
$ semel lab --scene 1 --without-protection
```

With `--step` it waits for Enter after each step; with `--lang zh` it speaks Chinese. The same scenes can be played in the browser ([the console](console.md#the-lab)). The pictures and numbers on this page are those of such a run.
To watch clients of your own in the same way, put `semel trace` in front of a broker ([the command line](cli.md#semel-trace)); `semel txn trace`, `semel group
trace` and `semel producer list --window` tell from the log what has happened, and `Producer.state` what a producer is doing ([the client](client.md)).

In a log `○` is a record of an open transaction and `×` one of an aborted one; `0/1#2` is producer id 0, epoch 1, sequence 2. On the wire `→` is a
request, `←` an answer, `✗` one that is lost, `‖` one that the network holds.

The same scenes are notebooks, step by step, with the outputs of a run: `examples/notebooks/`. `semel.lab.notebook` is what their cells use: `run(1).step(3)`.
""",
    "zh": """# 实验室

<!-- Made by `python -m tools.lab_pages` from scenes that were played. -->

[English](lab.md)

`semel lab` 在真实的 broker 上用真实的故障展示 exactly-once 如何工作。每个场景并排显示客户端的状态、网络上的请求和日志，最后给出根据读回的数据
计算出来的结论。关闭保护再演一遍，就能看到重复、丢失或僵尸真的发生。broker 在命令内部运行，数据在内存中：不需要别的东西，也不会留下任何东西。
所有场景加起来大约二十秒。

死去的都是单独的进程，由 SIGKILL 结束：场景 7 的协调者（集群中的一个 broker），以及场景 11 的 driver（执行流水线的各个步骤，但没有 Spark）。场景 12 没有进程
死去：第一个协调者仍然活着，只是不知道自己已被取代。场景 7 和 12 的集群通过内存中的 ZooKeeper 模型协调，其中 broker 的会话立即结束，而不是等到
`zookeeper.session.timeout.ms` 之后。

<!-- not run: the English page has the same -->
```console
$ semel lab --list
$ semel lab --scene 1
$ semel lab --scene 1 --without-protection
```

`--step` 在每一步之后等待回车；`--lang zh` 使用中文。同样的场景也可以在浏览器里运行（[控制台](console.md#the-lab)）。本页的图和数字都来自这样的一次运行。
要以同样的方式观察自己的客户端，把 `semel trace` 放在 broker 前面（[命令行](cli.md#semel-trace)）；`semel txn trace`、`semel group trace` 和
`semel producer list --window` 从日志里讲述发生过什么，`Producer.state` 说明生产者正在做什么（[客户端](client.md)）。

日志中 `○` 是未结束事务的记录，`×` 是已中止事务的记录；`0/1#2` 表示 producer id 0、epoch 1、sequence 2。网络上 `→` 是请求，`←` 是应答，`✗` 表示丢失，
`‖` 表示被网络扣住。

同样的场景也是笔记本，一步一个单元格，带有一次运行的输出：`examples/notebooks/`。单元格使用 `semel.lab.notebook`：`run(1).step(3)`。
""",
}

_WORDS: Final = {
    "en": ("What protects: {0}.", "counted", "with it", "without it", "With its protection", "Without its protection"),
    "zh": ("保护：{0}。", "统计", "有保护", "无保护", "有保护", "无保护"),
}


def main() -> int:
    with quiet_log():
        played = {scene.name: (play(scene), play(scene, protected=False)) for scene in SCENES}
    for runs in played.values():
        for run in runs:
            if not run.is_as_claimed:
                print(f"{run.scene.name}, protected={run.protected}: {run.verdict}", file=sys.stderr)
                return 1
            (DOCS / "diagrams" / f"{picture_name(run)}.txt").write_text(diagram(run, steps=STEPS.get(run.scene.name)))
    for language in LANGUAGES:
        (DOCS / PAGES[language]).write_text(page(list(played.values()), language))
    sequence_diagram.main()
    return 0


def picture_name(run: Played) -> str:
    return f"lab-{run.scene.number:02}-{run.scene.name}" + ("" if run.protected else "-unprotected")


def page(played: list[tuple[Played, Played]], language: str) -> str:
    return "\n".join([_OPENING[language], *(line for runs in played for line in _section(*runs, language))])


def fact_cells(fact: Fact) -> str:
    """Return the value of a fact, in bold if it does not hold."""
    return f"{fact.found}" if fact.holds else f"**{fact.found}**"


def _section(protected: Played, unprotected: Played, language: str) -> Iterator[str]:
    scene = protected.scene
    protects, counted, with_it, without_it, *pictures = _WORDS[language]
    yield f"## {scene.number}. {translated(scene.title, language)}"
    yield ""
    yield f"{translated(scene.lesson, language)} {protects.format(translated(scene.protection, language))}"
    yield ""
    yield f"| {counted} | {with_it} | {without_it} |"
    yield "|---|---|---|"
    others = {fact.name: fact for fact in unprotected.verdict.facts}
    for fact in protected.verdict.facts:
        other = fact_cells(others[fact.name]) if fact.name in others else ""
        yield f"| {translated(fact.name, language)} | {fact_cells(fact)} | {other} |"
    yield ""
    for run, words in zip((protected, unprotected), pictures, strict=True):
        yield f"![{words}: {translated(scene.title, language)}](pictures/{picture_name(run)}.svg)"
        yield ""


if __name__ == "__main__":
    sys.exit(main())
