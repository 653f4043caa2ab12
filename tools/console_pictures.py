"""``make console-pictures``: takes the pictures of docs/console.md in Chromium, from a console with example data."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from semel.blocking import Producer
from semel.testing import Broker
from semel.types import TopicPartition
from tools.chromium import browser, executable
from tools.console_scene import OPEN_ID, run_pipeline, shop
from tools.patience import PATIENCE_S

if TYPE_CHECKING:
    from playwright.sync_api import Browser

FOLDER = Path(__file__).resolve().parent.parent / "docs" / "pictures"
SIZE_BYTES_MAX = 100_000

# Name, page, width, height, the selector to wait for. The colour scheme is light, unless the name ends with "dark".
PICTURES = (
    ("console-overview", "/", 1200, 720, "#live.on"),
    ("console-topics", "/topics", 1200, 430, "#live.on"),
    ("console-topic", "/topic?name=payments", 1200, 860, "#live.on"),
    ("console-producers", "/producers?topic=payments&partition=0", 1200, 420, "#live.on"),
    ("console-groups", "/groups", 1200, 420, "#live.on"),
    ("console-group", "/group?id=billing", 1200, 820, "#live.on"),
    ("console-reset", "/group/reset?id=reports&to=earliest", 1200, 560, "h1"),
    ("console-transactions", "/transactions", 1200, 460, "#live.on"),
    ("console-transaction", f"/transaction?id={OPEN_ID}", 1200, 980, "#live.on"),
    ("console-transaction-dark", "/transaction?id=payments-1", 1200, 820, "#live.on"),
    ("console-pipelines", "/pipelines", 1200, 330, "#live.on"),
    ("console-pipeline", "/pipeline?group=totals-job", 1200, 590, "#live.on"),
    ("console-cluster", "/cluster", 1200, 620, "#live.on"),
    ("console-settings", "/settings?topic=orders&all=1", 1200, 480, "#live.on"),
    ("console-access", "/access", 1200, 420, "#live.on"),
    ("console-lab", "/lab", 1200, 500, "h1"),
    ("console-phone", f"/transaction?id={OPEN_ID}", 390, 780, "#live.on"),
    ("console-scene", "/scene?name=lost-answer&protection=off", 1200, 860, "text=Verdict"),
)
RATE_SECONDS = 60.0


def main() -> int:
    if executable() is None:
        print("semel: there is no chromium on PATH: apt-get install chromium", file=sys.stderr)
        return 1
    with (
        Broker(num_partitions=2, group_initial_rebalance_delay_ms=0) as broker,
        shop(bootstrap_servers=broker.bootstrap_servers),
        pipeline(broker.bootstrap_servers),
        clicks(broker.bootstrap_servers),
        console(broker.bootstrap_servers) as address,
        browser() as chromium,
    ):
        watch_rates(chromium, address)
        for target in take(FOLDER, chromium, address):
            size = target.stat().st_size
            print(f"  docs/pictures/{target.name}: {size} bytes")
            if size > SIZE_BYTES_MAX:
                print(f"semel: {target.name} is larger than {SIZE_BYTES_MAX} bytes: show less", file=sys.stderr)
                return 1
    return 0


def take(folder: Path, chromium: Browser, address: str) -> Iterator[Path]:
    """Take the pictures, and yield the path of each."""
    for name, path, width, height, awaited in PICTURES:
        context = chromium.new_context(
            base_url=address,
            viewport={"width": width, "height": height},
            color_scheme="dark" if name.endswith("dark") else "light",
        )
        page = context.new_page()
        page.set_default_timeout(PATIENCE_S * 1000)
        page.goto(path)
        if path.startswith("/scene"):
            page.click("button[value=run]")
        page.wait_for_selector(awaited)
        page.screenshot(path=folder / f"{name}.png")
        context.close()
        yield folder / f"{name}.png"


def watch_rates(chromium: Browser, address: str) -> None:
    """Keep a page open for a while, because rates are measured only while a page shows them."""
    page = chromium.new_page()
    page.goto(address)
    page.wait_for_timeout(RATE_SECONDS * 1000)
    page.close()


@contextmanager
def clicks(servers: str) -> Iterator[None]:
    """Send a varying number of records to ``clicks`` ten times a second."""
    ends = threading.Event()

    def produce() -> None:
        turn = 0
        with Producer(bootstrap_servers=servers) as producer:
            while not ends.wait(0.1):
                turn += 1
                for number in range(4 + (turn * turn // 7) % 23):
                    producer.send("clicks", b"page", partition=number % 6)

    thread = threading.Thread(target=produce)
    thread.start()
    try:
        yield
    finally:
        ends.set()
        thread.join()


@contextmanager
def pipeline(servers: str) -> Iterator[None]:
    """Write the records and offsets that a Spark pipeline leaves on the brokers."""
    source = TopicPartition("clicks", 0)
    run_pipeline(source, owner="totals-pipeline", group="totals-job", bootstrap_servers=servers)
    yield


@contextmanager
def console(servers: str) -> Iterator[str]:
    """Start a console with the command that users use, and yield its address."""
    command: list[Any] = [sys.executable, "-m", "semel", "console", "--listen", "127.0.0.1:0", "--allow-changes"]
    process = subprocess.Popen([*command, "--bootstrap-server", servers], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield process.stdout.readline().split()[3].rstrip("/,")
    finally:
        process.terminate()
        process.wait()


if __name__ == "__main__":
    sys.exit(main())
