"""Every page of the site as a phone and a desktop show it, on sheets to look at: ``python docs/sheets.py site sheets``.

A page is cut into columns and several of them share a sheet. Pages that are wider than their window are named at the
end, and the exit code is then 1. It needs chromium and Pillow.
"""

import base64
import io
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from PIL import Image, ImageDraw

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "report"))

from driver import Browser, browser

WIDTHS = {"phone": 390, "desktop": 1280}
HIGH = 1500  # of a sheet
WIDE = {"phone": 1560, "desktop": 1706}


def pages(site: Path) -> list[str]:
    """The pages that readers meet, the reference last; not the source views of the theme."""
    found = [path.relative_to(site).as_posix() for path in site.rglob("*.html") if "_static" not in path.parts]
    return sorted(found, key=lambda name: ("api/generated" in name, name))


def shots(window: Browser, site: Path, names: Sequence[str], width: int) -> Iterator[tuple[str, Image.Image, int]]:
    """Each page as a whole, and how many pixels it is too wide."""
    for name in names:
        window.open((site / name).resolve().as_uri())
        size = "const page = document.documentElement; return [page.scrollWidth, page.scrollHeight]"
        wide, high = window.run(size)
        clip = {"x": 0, "y": 0, "width": width, "height": min(high, 40_000), "scale": 1}
        shot = window.command("Page.captureScreenshot", clip=clip, captureBeyondViewport=True)
        yield name, Image.open(io.BytesIO(base64.b64decode(shot["data"]))).convert("RGB"), wide - width


def columns(name: str, shot: Image.Image, kind: str) -> Iterator[Image.Image]:
    """A page in columns as high as a sheet, with its name above; desktops at a third less of their size."""
    if kind == "desktop":
        shot = shot.resize((shot.width * 2 // 3, shot.height * 2 // 3), Image.Resampling.LANCZOS)
    for top in range(0, shot.height, HIGH - 20):
        column = Image.new("RGB", (shot.width, HIGH), "#888888")
        column.paste(shot.crop((0, top, shot.width, min(shot.height, top + HIGH - 20))), (0, 20))
        ImageDraw.Draw(column).text((4, 4), f"{name}, from {top}", fill="#ffffff")
        yield column


def main() -> int:
    site, target = Path(sys.argv[1]), Path(sys.argv[2])
    names = [name for name in pages(site) if len(sys.argv) < 4 or any(part in name for part in sys.argv[3:])]
    target.mkdir(parents=True, exist_ok=True)
    overflowing = []
    for kind, width in WIDTHS.items():
        with browser() as window:
            options = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": kind == "phone"}
            window.command("Emulation.setDeviceMetricsOverride", **options)
            window.command("Emulation.setScrollbarsHidden", hidden=True)
            waiting: list[Image.Image] = []
            count, places = 0, WIDE[kind] // (width if kind == "phone" else width * 2 // 3)
            for name, shot, excess in shots(window, site, names, width):
                if excess > 0:
                    overflowing.append(f"{name} is {excess} pixels too wide for a {kind}")
                waiting += columns(name, shot, kind)
                while len(waiting) >= places or (waiting and name == names[-1]):
                    sheet = Image.new("RGB", (WIDE[kind], HIGH), "#444444")
                    for place, column in enumerate(waiting[:places]):
                        sheet.paste(column, (place * column.width, 0))
                    sheet.save(target / f"{kind}-{count:03}.png")
                    waiting, count = waiting[places:], count + 1
    print("\n".join(overflowing) or f"{len(names)} pages, none wider than its window.")
    return bool(overflowing)


if __name__ == "__main__":
    sys.exit(main())
