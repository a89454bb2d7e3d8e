"""Draws ``docs/player.png`` from the report of the demo: ``python docs/shots.py results/demo/report.html``."""

import base64
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "report"))

from driver import browser

PREPARE = """
const pick = (id, text) => {
  const select = document.querySelector(`#${id} select`);
  select.selectedIndex = [...select.options].findIndex((option) => option.text.includes(text));
  select.dispatchEvent(new Event("change"));
};
pick("scene", "epsilon 0.1");
pick("server", "our pool");
document.querySelector("#views button[value=whole]").click();
document.querySelector("#modes button[value=attacker]").click();
const box = document.querySelector(".player").getBoundingClientRect();
return [box.left + scrollX, box.top + scrollY, box.width, box.height];
"""


def draw(report: Path, target: Path) -> None:
    """One picture of the player, as large as it is."""
    with browser() as window:
        window.command("Emulation.setDeviceMetricsOverride", width=1120, height=900, deviceScaleFactor=1, mobile=False)
        window.command("Emulation.setScrollbarsHidden", hidden=True)
        window.command("Emulation.setEmulatedMedia", features=[{"name": "prefers-reduced-motion", "value": "reduce"}])
        window.open(report.resolve().as_uri())
        x, y, width, height = window.run(PREPARE)
        time.sleep(1)
        clip = {"x": x - 8, "y": y - 8, "width": width + 16, "height": height + 16, "scale": 1}
        shot = window.command("Page.captureScreenshot", clip=clip, captureBeyondViewport=True)
        target.write_bytes(base64.b64decode(shot["data"]))


if __name__ == "__main__":
    draw(Path(sys.argv[1]), Path(__file__).with_name("player.png"))
