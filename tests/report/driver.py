"""A browser under command, by the W3C WebDriver protocol: a few lines in place of a package."""

import json
import os
import re
import shutil
import subprocess
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_HERE = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # the driver is on this machine


def installed() -> bool:
    """Whether there is a browser to drive."""
    return bool(shutil.which("chromedriver") and (shutil.which("chromium") or shutil.which("google-chrome")))


class Browser:
    """One window."""

    def __init__(self, address: str) -> None:
        self._address = address
        arguments = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
        # Sandboxes need privileges that a container has not; the page is ours.
        options = {"args": arguments, "binary": shutil.which("chromium") or shutil.which("google-chrome")}
        wanted = {
            "browserName": "chrome",
            "goog:chromeOptions": options,
            "goog:loggingPrefs": {"browser": "ALL", "performance": "ALL"},
        }
        made = self._call("POST", "/session", {"capabilities": {"alwaysMatch": wanted}})
        self._session = f"/session/{made['sessionId']}"

    def open(self, address: str) -> None:
        self._call("POST", f"{self._session}/url", {"url": address})

    def run(self, script: str, *arguments: object) -> Any:
        body = {"script": script, "args": list(arguments)}
        return self._call("POST", f"{self._session}/execute/sync", body)

    def wait(self, script: str, *arguments: object) -> Any:
        """Run a script that calls the last of its arguments when it is done; at most 30 seconds."""
        body = {"script": script, "args": list(arguments)}
        return self._call("POST", f"{self._session}/execute/async", body)

    def log(self, kind: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self._call("POST", f"{self._session}/se/log", {"type": kind})
        return found

    def resize(self, width: int, height: int) -> None:
        self._call("POST", f"{self._session}/window/rect", {"width": width, "height": height})

    def command(self, name: str, **parameters: Any) -> Any:
        """A command of the browser's own protocol."""
        return self._call("POST", f"{self._session}/goog/cdp/execute", {"cmd": name, "params": parameters})

    def close(self) -> None:
        self._call("DELETE", self._session)

    def _call(self, method: str, path: str, body: object = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(
            self._address + path, data, {"Content-Type": "application/json"}, method=method
        )
        with _HERE.open(request, timeout=60) as answer:
            return json.load(answer)["value"]


@contextmanager
def browser() -> Iterator[Browser]:
    """A browser that is gone afterwards."""
    driver = shutil.which("chromedriver")
    assert installed() and driver is not None, "chromium and chromedriver are not installed: .ci/browser does it"
    with subprocess.Popen(
        [driver, "--port=0"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=os.environ
    ) as process:
        try:
            assert process.stdout is not None
            port = None
            while port is None:
                line = process.stdout.readline()
                assert line, "chromedriver ended without a word"
                found = re.search(r"successfully on port (\d+)", line)
                port = found and found[1]
            window = Browser(f"http://127.0.0.1:{port}")
            try:
                yield window
            finally:
                window.close()
        finally:
            process.terminate()
