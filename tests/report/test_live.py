"""`mixtailor watch`: what is served, what is refused, and a page that follows its files."""

import http.client
import json
import os
import shutil
import threading
import time
from collections.abc import Iterator
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest

pytest.importorskip("torch")

from mixtailor.report.live import Live, Server
from mixtailor.trackers import Journal

_spec = spec_from_file_location("report_driver", Path(__file__).with_name("driver.py"))
assert _spec is not None and _spec.loader is not None
driver = module_from_spec(_spec)
_spec.loader.exec_module(driver)

browser = pytest.mark.skipif(
    not driver.installed() and os.environ.get("MIXTAILOR_BROWSER") != "required",
    reason="chromium and chromedriver are not installed",
)


@pytest.fixture(scope="module")
def copied(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The experiment, where a test may change it."""
    out = tmp_path_factory.mktemp("live")
    shutil.copytree(folder.parent, out / "results")
    return out / "results" / folder.name


@pytest.fixture(scope="module")
def server(copied: Path) -> Iterator[Server]:
    made = Server(copied, port=0, interval=0.1)
    thread = threading.Thread(target=made.run)
    thread.start()
    yield made
    made.close()
    thread.join(10)
    assert not thread.is_alive()


def asked(server: Server, path: str, host: str | None = None, method: str = "GET") -> tuple[int, dict[str, str], bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=20)
    connection.putrequest(method, path, skip_host=True)
    connection.putheader("Host", f"127.0.0.1:{server.port}" if host is None else host)
    connection.endheaders()
    answer = connection.getresponse()
    found = answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read()
    connection.close()
    return found


def test_the_page_is_served(server: Server) -> None:
    status, headers, body = asked(server, "/")
    assert status == 200 and b"Round by round" in body and b"12 of 12 runs complete" in body
    assert headers["x-frame-options"] == "DENY" and headers["cache-control"] == "no-store"
    assert "access-control-allow-origin" not in headers


def test_it_listens_on_this_machine_alone(server: Server) -> None:
    assert server._server.server_address[0] == "127.0.0.1"
    assert server.address == f"http://localhost:{server.port}/"


@pytest.mark.parametrize("host", ["evil.example", "evil.example:{port}", "127.0.0.1", "127.0.0.1:1", ""])
def test_another_host_is_refused(server: Server, host: str) -> None:
    """A page elsewhere that points its own name at this machine reads nothing."""
    for path in ("/", "/events"):
        status, _, body = asked(server, path, host.format(port=server.port))
        assert status == 421 and b"<" not in body


@pytest.mark.parametrize("host", ["localhost:{port}", "LOCALHOST:{port}", "[::1]:{port}"])
def test_names_of_this_machine_are_known(server: Server, host: str) -> None:
    assert asked(server, "/", host.format(port=server.port))[0] == 200


PATHS = [
    "/../../etc/passwd", "/%2e%2e/%2e%2e/etc/passwd", "//etc/passwd", "/experiment.json", "/?x", "/events/../", "*",
    "http://evil.example/",
]  # fmt: skip


@pytest.mark.parametrize("path", PATHS)
def test_no_file_is_served_by_its_path(server: Server, path: str) -> None:
    assert asked(server, path)[0] == 404


def test_nothing_but_get(server: Server) -> None:
    assert asked(server, "/", method="POST")[0] == 501


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"There is no folder .* to watch"):
        Server(tmp_path / "none", port=0)


def test_a_port_that_is_taken(server: Server, copied: Path) -> None:
    with pytest.raises(ValueError, match=f"Port {server.port} of 127.0.0.1 cannot be used"):
        Server(copied, port=server.port)


def test_an_empty_folder_waits_and_a_damaged_one_says_so(tmp_path: Path) -> None:
    live = Live(tmp_path)
    assert b"There is nothing to show yet" in live.page()
    Journal(tmp_path, title="begun").log(1, {"accuracy": 0.5})
    assert b"begun" in live.page()
    (tmp_path / "journal.jsonl").write_text("[1]\n")
    assert b"is no line of a journal" in live.page()


def test_the_page_is_made_once_for_each_change(copied: Path) -> None:
    live = Live(copied)
    assert live.page() is live.page()


def test_too_many_listeners_are_sent_away(copied: Path) -> None:
    made = Server(copied, port=0, interval=0.1)
    thread = threading.Thread(target=made.run)
    thread.start()
    held = []
    try:
        for _ in range(16):
            connection = http.client.HTTPConnection("127.0.0.1", made.port, timeout=20)
            connection.request("GET", "/events", headers={"Host": f"127.0.0.1:{made.port}"})
            assert connection.getresponse().status == 200
            held.append(connection)
        assert asked(made, "/events")[0] == 503
    finally:
        for connection in held:
            connection.close()
        made.close()
        thread.join(10)


@browser
@pytest.mark.parametrize(("width", "scheme"), [(1200, "light"), (390, "dark")])
def test_the_page_follows_its_files(server: Server, copied: Path, width: int, scheme: str) -> None:
    """A run that is not complete any more is shown as such, without a reload, and what the reader chose stays."""
    index = json.loads((copied / "experiment.json").read_text())
    summary = copied.parent / "runs" / index["entries"][0]["hash"] / "summary.json"
    wait = """const [text, done] = arguments, look = () => document.getElementById('live').textContent.includes(text)
        ? done(scrollY) : setTimeout(look, 50); look();"""
    with driver.browser() as window:
        window.command("Emulation.setDeviceMetricsOverride", width=width, height=800, deviceScaleFactor=1, mobile=False)
        window.command("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        window.open(server.address)
        window.wait(wait, "Live.")
        window.run(
            """const s = document.querySelector('#scale select'); s.value = 'all'; s.dispatchEvent(new Event('change'));
            document.querySelector('#legend button').click(); window.scrollTo(0, 300);
            const own = document.querySelector('#server select'); own.selectedIndex = 2;
            own.dispatchEvent(new Event('change')); document.querySelector('#words details').open = true;"""
        )
        chosen = "return document.querySelector('#server select').selectedOptions[0].text"
        server_shown = window.run(chosen)
        kept = summary.read_bytes()
        summary.unlink()
        try:
            assert window.wait(wait, "11 of 12 runs complete, 1 under way") == 300
            state = """return [document.querySelector('#scale select').value,
                document.querySelector('#words details').open,
                document.querySelector('#legend button').getAttribute('aria-pressed'),
                document.documentElement.scrollWidth]"""
            assert window.run(state)[:3] == ["all", True, "false"] and window.run(state)[3] <= width
            assert window.run(chosen) == server_shown  # its place in the list may have changed
        finally:
            summary.write_bytes(kept)
        window.wait(wait, "12 of 12 runs complete")
        assert [entry for entry in window.log("browser") if entry["level"] in ("SEVERE", "WARNING")] == []


@browser
def test_a_server_of_clients_is_followed(tmp_path: Path) -> None:
    """The folder is empty at first: the page waits, then shows rounds, accuracy and who was quarantined."""
    made = Server(tmp_path, port=0, interval=0.1)
    thread = threading.Thread(target=made.run)
    thread.start()
    try:
        with driver.browser() as window:
            window.open(made.address)
            assert "nothing to show yet" in window.run("return document.body.textContent")
            journal = Journal(tmp_path, title="clients")
            journal.round(1, None, workers=["ann", "bob"], quarantined={"bob": "not finite"})
            journal.log(1, {"server/accuracy": 0.25})
            until = time.monotonic() + 30
            while time.monotonic() < until and window.run("return document.title") != "clients":
                time.sleep(0.1)
            told = window.run("return document.querySelector('#clients .flagged').textContent")
            assert "bob" in told and "not finite" in told
    finally:
        made.close()
        thread.join(10)
