"""The console in a real browser, on Semel and on Apache Kafka."""

from __future__ import annotations

import contextlib
import struct
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from semel.blocking import Admin, Producer
from semel.console.app import PAGES as CONSOLE_PAGES
from semel.console.app import Rules
from semel.testing import Broker
from semel.types import TopicPartition
from tests.console.visitor import running_console
from tools.brokers import apache_kafka, semel
from tools.chromium import browser
from tools.console_pictures import FOLDER, PICTURES, take
from tools.console_scene import HOSTILE_ID, OPEN_ID, run_pipeline, shop
from tools.patience import PATIENCE_S, wait_until
from tools.server import running

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = [pytest.mark.kafka, pytest.mark.needs("chromium"), pytest.mark.xdist_group("chromium")]

PAGES = (
    "/",
    "/topics",
    "/topic?name=payments",
    "/topic?name=audit.events&follow=1",
    "/producers?topic=payments&partition=0",
    "/groups",
    "/group?id=billing",
    "/group/reset?id=reports&to=earliest",
    "/transactions",
    f"/transaction?id={OPEN_ID}",
    "/transaction?id=payments-1",
    "/pipelines",
    "/pipeline?group=totals-job",
    "/settings",
    "/access",
    "/cluster",
    "/lab",
    "/scene?name=lost-answer",
    "/nowhere",
)
SERIOUS = {"serious", "critical"}


@pytest.fixture(scope="module", params=["semel", pytest.param("apache-kafka", marks=pytest.mark.needs("kafka"))])
def servers(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp(request.param)
    make = semel if request.param == "semel" else apache_kafka
    server = make(folder, settings={"group.initial.rebalance.delay.ms": "0"})
    settings = {"bootstrap_servers": server.bootstrap_servers}
    with running(server), shop(**settings):
        run_pipeline(TopicPartition("clicks", 0), owner="totals-pipeline", group="totals-job", **settings)
        yield server.bootstrap_servers


@pytest.fixture(scope="module")
def address(servers: str) -> Iterator[str]:
    with running_console({"bootstrap_servers": servers}, Rules(allow_changes=True)) as port:
        yield f"http://127.0.0.1:{port}"


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    with browser() as started:
        yield started


@pytest.fixture
def page(chromium: Browser, address: str) -> Iterator[Page]:
    """A window that fails its test if a page complains, asks another site, or opens a dialog."""
    context = chromium.new_context(base_url=address, viewport={"width": 1200, "height": 800})
    context.set_default_timeout(PATIENCE_S * 1000)
    opened = context.new_page()
    complaints: list[str] = []

    def note(kind: str, text: str) -> None:
        # A page that is not there is asked for on purpose, and Chromium says so.
        if "404" not in text:
            complaints.append(f"{kind}: {text}")

    opened.on("console", lambda message: note(message.type, message.text))
    opened.on("pageerror", lambda error: note("error", str(error)))
    opened.on("dialog", lambda dialog: (note("dialog", dialog.message), dialog.dismiss()))
    opened.on("request", lambda asked: None if asked.url.startswith(address) else note("foreign", asked.url))
    yield opened
    context.close()
    assert complaints == []


def test_every_page_is_shown_without_complaint_or_barrier(page: Page) -> None:
    from axe_playwright_python.sync_playwright import Axe

    found: dict[str, list[str]] = {}
    for path in PAGES:
        page.goto(path)
        page.wait_for_selector("h1")
        assert page.evaluate("document.querySelectorAll('img[src=x], b').length") == 0, path
        violations = Axe().run(page).response["violations"]
        page.emulate_media(color_scheme="dark")
        violations += Axe().run(page, options={"runOnly": ["color-contrast"]}).response["violations"]
        page.emulate_media(color_scheme="light")
        bad = [f"{one['id']}: {one['nodes'][0]['html']}" for one in violations if one["impact"] in SERIOUS]
        if bad:
            found[path] = bad
    assert found == {}


def test_a_page_changes_in_place_and_leaves_what_is_typed(page: Page, servers: str) -> None:
    page.goto("/topic?name=audit.events&follow=1")
    page.wait_for_selector("#live.on")
    page.fill("input[name=key]", "half typed")
    page.evaluate("document.querySelector('.records tbody tr').dataset.mine = 'yes'")
    with Producer(bootstrap_servers=servers) as producer:
        producer.send("audit.events", b"seen at once").result(PATIENCE_S)
    page.wait_for_selector("text=seen at once")
    assert page.input_value("input[name=key]") == "half typed"
    # The row that was there is the same element, one place further down.
    assert page.locator(".records tbody tr").count() >= 3
    assert page.evaluate("document.activeElement.name") == "key"


def test_what_is_typed_stays_when_a_section_above_it_comes_and_goes(page: Page, servers: str) -> None:
    """As when the first records of a transaction begin to hold up readers while its name is typed to abort it."""
    page.goto(f"/transaction?id={OPEN_ID}")
    page.wait_for_selector("#live.on")
    page.keyboard.press("p")
    page.wait_for_selector("text=Paused")
    page.fill("input[name=typed]", "half typed")
    whole = page.inner_html("main")
    held = page.evaluate("document.querySelector('[aria-labelledby=held-title]').outerHTML")
    for html, count in ((whole.replace(held, ""), 0), (whole, 1)):
        page.evaluate("html => show(html)", html)
        assert page.locator("[aria-labelledby=held-title]").count() == count
        assert page.input_value("input[name=typed]") == "half typed"
        assert page.evaluate("document.activeElement.name") == "typed"


def click(page: Page, selector: str) -> None:
    """Click on what leads to another page, and wait until that is loaded: keys reach a page once its script has run."""
    with page.expect_navigation():
        page.click(selector)


def press(page: Page, key: str) -> None:
    """The same by a key. A scene's old page may show the next step already, while the new one is on its way."""
    with page.expect_navigation():
        page.keyboard.press(key)


def go(page: Page, keys: str, path: str) -> None:
    """Press keys until they have led there: on a busy machine the second one may come too late for the first. Escape
    ends what an earlier attempt has begun."""
    from playwright.sync_api import TimeoutError as PlaywrightTimeout

    def has_led_there() -> bool:
        page.keyboard.press("Escape")
        page.keyboard.type(keys)
        with contextlib.suppress(PlaywrightTimeout):
            page.wait_for_url(lambda url: url.endswith(path), timeout=5000)
        return page.url.endswith(path)

    wait_until(has_led_there, lambda: page.url)
    page.wait_for_load_state()


def test_keys_lead_from_page_to_page_and_into_lists(page: Page) -> None:
    page.goto("/")
    for keys, path in (("gg", "/groups"), ("gx", "/transactions"), ("gc", "/cluster"), ("gt", "/topics")):
        go(page, keys, path)
    go(page, "/ord", "/topics?q=ord")
    wait_until(lambda: page.locator("tbody tr").count() == 1, page.url)
    page.keyboard.press("Escape")
    page.keyboard.press("j")
    press(page, "Enter")
    assert page.url.endswith("/topic?name=orders")
    page.keyboard.press("?")
    page.wait_for_selector("dialog[open]")


def test_hostile_names_and_records_are_text(page: Page) -> None:
    page.goto("/transactions")
    click(page, f"text={HOSTILE_ID}")
    assert page.inner_text("h1") == HOSTILE_ID
    page.goto("/groups")
    click(page, f"text={HOSTILE_ID}")
    assert page.inner_text("h1") == HOSTILE_ID
    page.goto("/topic?name=audit.events&partition=0&offset=0")
    assert "<script>alert('records are text')</script>" in page.inner_text(".records")


def test_every_page_has_a_picture_in_the_document(chromium: Browser, address: str, tmp_path: Path) -> None:
    """The pictures that stand there can be taken today, of pages that are as large."""
    assert {path.partition("?")[0] for _, path, *_ in PICTURES} == {*CONSOLE_PAGES}
    document = (FOLDER.parent / "console.md").read_text()
    for taken, (name, _, width, height, _) in zip(take(tmp_path, chromium, address), PICTURES, strict=True):
        assert f"](pictures/{name}.png)" in document
        kept = FOLDER / taken.name
        assert size_of(taken) == size_of(kept) == (width, height), "run make console-pictures"


def size_of(picture: Path) -> tuple[int, int]:
    """Width and height, as the header of a PNG has them."""
    width, height = struct.unpack_from(">II", picture.read_bytes(), 16)
    return width, height


def test_everything_fits_a_phone(chromium: Browser, address: str) -> None:
    context = chromium.new_context(base_url=address, viewport={"width": 375, "height": 720}, has_touch=True)
    page = context.new_page()
    for path in PAGES:
        page.goto(path)
        page.wait_for_selector("h1")
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), f"{path} is wider than a phone"
    context.close()


def test_a_scene_of_the_lab_is_played_step_by_step_and_again_without_its_protection(page: Page) -> None:
    from axe_playwright_python.sync_playwright import Axe

    page.goto("/lab")
    click(page, "text=A lost answer")
    press(page, "n")
    page.wait_for_selector("#step-title:has-text('1. ')")
    for number in (2, 3):
        page.wait_for_selector("button:has-text('Next step')")
        assert page.locator(".verdict").count() == 0
        press(page, "n")
        page.wait_for_selector(f"#step-title:has-text('{number}. ')")
    columns = page.locator("section .columns > div").all_inner_texts()
    titles = [" ".join(text.split("\n")[0].split()) for text in columns]
    assert titles == ["clients", "on the wire", "log ○ open × aborted"]  # noqa: RUF001
    assert "producer ✗← Produce: the answer is lost" in columns[1]
    click(page, "button:has-text('Play it to the end')")
    page.wait_for_selector("text=Verdict: it holds")
    # An earlier step can be opened.
    page.click("summary:has-text('2. ')")
    assert "orders:0" in page.inner_text("details[open]")

    click(page, "[data-switch]")
    page.wait_for_selector("text=Switched off:")
    click(page, "button:has-text('Play it to the end')")
    page.wait_for_selector("text=Verdict: it does not hold")
    assert "✗ duplicates 1 0" in [" ".join(text.split()) for text in page.locator(".verdict tr.bad").all_inner_texts()]
    violations = Axe().run(page).response["violations"]
    assert [one["id"] for one in violations if one["impact"] in SERIOUS] == []
    click(page, "text=中文")
    page.wait_for_selector("text=场景 1 · 丢失的应答")
    assert "重复的记录" in page.inner_text(".verdict")
    page.set_viewport_size({"width": 375, "height": 720})
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_a_group_shows_the_generations_that_the_log_has(page: Page) -> None:
    page.goto("/group?id=billing")
    rows = page.locator("section[aria-labelledby=generations-title] tbody tr").all_inner_texts()
    # Apache Kafka writes a record of a group before the first member is in it.
    row = [row for row in rows if "empty" not in row][-1]
    assert row.split()[1:4] == ["rebalanced", "1", "range"]
    assert "billing-worker-1 leader" in row
    assert [partition for partition in ("orders:0", "orders:1", "orders:2") if partition not in row] == []


def test_a_pipeline_shows_its_batches(page: Page) -> None:
    page.goto("/")
    go(page, "gp", "/pipelines")
    click(page, "text=totals-pipeline")
    assert page.url.endswith("/pipeline?group=totals-job")
    rows = page.locator("section[aria-labelledby=attempts-title] tbody tr").all_inner_texts()
    told = [(words[0], words[1], words[-1]) for words in (row.split() for row in rows)]
    assert told == [
        ("1", "committed", "2"), ("1", "aborted", "2"), ("0", "committed", "3"), ("start", "committed", "none"),
    ]  # fmt: skip


def test_a_transaction_is_aborted_by_hand(page: Page, servers: str) -> None:
    with Producer(bootstrap_servers=servers, transactional_id="by hand") as producer:
        producer.begin()
        producer.send("audit.events", b"never").result(PATIENCE_S)
        page.goto("/transactions?state=open")
        click(page, "text=by hand")
        button = page.locator("button.danger")
        assert button.is_disabled()
        page.fill("input[name=typed]", "by han")
        assert button.is_disabled()
        page.fill("input[name=typed]", "by hand")
        button.click()
        page.wait_for_selector("text=nothing is open")
        assert "CompleteAbort" in page.inner_text(".lives")
        producer.close(timeout_ms=0)


def test_a_form_on_another_page_changes_nothing(chromium: Browser, address: str, servers: str) -> None:
    """A page of another origin on the same machine: the browser sends the session's cookie with its form."""

    def offset() -> int:
        with Admin(bootstrap_servers=servers) as admin:
            return admin.groups.list_offsets("reports", [("clicks", 0)])[TopicPartition("clicks", 0)].offset

    before = offset()
    context = chromium.new_context()
    window = context.new_page()
    window.set_default_timeout(PATIENCE_S * 1000)
    window.goto(f"{address}/group/reset?id=reports&to=earliest")
    assert window.locator("button.danger").is_visible()
    with foreign_form(f"{address}/group/reset?id=reports&to=earliest") as foreign:
        window.goto(foreign)
        with window.expect_navigation() as sent:
            window.click("button")
    assert sent.value is not None
    assert (sent.value.url, sent.value.status) == (f"{address}/group/reset?id=reports&to=earliest", 403)
    assert "cookie" in sent.value.request.all_headers()
    context.close()
    assert (before, offset()) == (5, 5)


@contextlib.contextmanager
def foreign_form(target: str) -> Iterator[str]:
    """The address of a page that posts to ``target``."""
    page = f'<form method="post" action="{target}"><input name="token" value="{"0" * 64}"><button>Win</button></form>'

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(page.encode())

        def log_message(self, format: str, *values: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/"
        finally:
            server.shutdown()
            thread.join()


def test_a_visitor_logs_in_and_out(chromium: Browser) -> None:
    from axe_playwright_python.sync_playwright import Axe

    with Broker(users={"alice": "wonder<land>"}) as broker:
        settings = {
            "bootstrap_servers": broker.bootstrap_servers,
            "security_protocol": "SASL_PLAINTEXT",
            "sasl_mechanism": "SCRAM-SHA-256",
        }
        with running_console(settings) as port:
            context = chromium.new_context(base_url=f"http://127.0.0.1:{port}")
            window = context.new_page()
            window.set_default_timeout(PATIENCE_S * 1000)
            window.goto("/topics")
            assert window.url.endswith("/login?next=%2Ftopics")
            violations = Axe().run(window).response["violations"]
            assert [one["id"] for one in violations if one["impact"] in SERIOUS] == []
            for password in ("no", "wonder<land>"):
                window.fill("input[name=user]", "alice")
                window.fill("input[name=password]", password)
                click(window, "main button")
            assert window.url.endswith("/topics")
            window.wait_for_selector("#live.on")
            # Scripts see no cookie, so none can take it elsewhere.
            assert window.evaluate("document.cookie") == ""
            click(window, "text=Log out")
            assert "/login" in window.url
            context.close()
