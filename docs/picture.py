"""Take the picture of the README: the top of a forecast page as headless Chromium draws it.

    make demo                                    # writes demo/report.html
    python docs/picture.py                       # demo/report.html -> docs/figures/report.png
    python docs/picture.py page.html --out picture.png --series 1

Needs Chromium and its driver (Debian: chromium, chromium-driver) beside the packages of `pip install -e '.[dev]'`.
"""

import argparse
import base64
import shutil
import struct
import sys
import time
import zlib
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from selenium import webdriver

HOME = Path(__file__).resolve().parents[1]
WIDTH = 1120
MARGIN = 24
"""Pixels between the page's text and the edge of the picture."""
FRAME = """
const title = document.querySelector("h1").getBoundingClientRect();
const section = document.querySelector("section").getBoundingClientRect();
const end = document.getElementById(arguments[0]).getBoundingClientRect();
return [section.left, section.right, title.top, end.top];
"""
PIXELS = """
const [data, done] = arguments, image = new Image();
image.onload = () => {
  const canvas = Object.assign(document.createElement("canvas"), { width: image.width, height: image.height });
  const context = canvas.getContext("2d");
  context.drawImage(image, 0, 0);
  const bytes = context.getImageData(0, 0, image.width, image.height).data;
  let text = "";
  for (let at = 0; at < bytes.length; at += 32768) text += String.fromCharCode(...bytes.subarray(at, at + 32768));
  done([image.width, image.height, btoa(text)]);
};
image.src = `data:image/png;base64,${data}`;
"""


def take(page: Path, until: str, series: int) -> NDArray[np.uint8]:
    """[row, column, colour]: the page from its top to the section `until`, with one of its series."""
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or shutil.which("google-chrome") or ""
    for argument in ("--headless=new", "--no-sandbox", "--hide-scrollbars", f"--window-size={WIDTH},2000"):
        options.add_argument(argument)
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(shutil.which("chromedriver")))
    try:
        light = {"features": [{"name": "prefers-color-scheme", "value": "light"}]}
        driver.execute_cdp_cmd("Emulation.setEmulatedMedia", light)
        driver.get(page.resolve().as_uri())
        for _ in range(series - 1):
            driver.execute_script("document.getElementById('series-next').click()")
        time.sleep(2)  # plotly draws when the browser is idle
        left, right, top, bottom = driver.execute_script(FRAME, until)
        clip = {"x": left - MARGIN, "y": top - MARGIN, "scale": 1}
        clip |= {"width": right - left + 2 * MARGIN, "height": bottom - top}
        shot = driver.execute_cdp_cmd("Page.captureScreenshot", {"format": "png", "clip": clip})
        width, height, data = driver.execute_async_script(PIXELS, shot["data"])
    finally:
        driver.quit()
    return np.frombuffer(base64.b64decode(data), np.uint8).reshape(height, width, 4)[..., :3]


def encode(pixels: NDArray[np.uint8]) -> bytes:
    """A PNG of the 256 commonest colours, each other one drawn in the nearest of them: small, and text stays sharp."""
    height, width, _ = pixels.shape
    colours, places, counts = np.unique(pixels.reshape(-1, 3), axis=0, return_inverse=True, return_counts=True)
    palette = colours[np.argsort(-counts)[:256]]
    distances = ((colours[:, None].astype(np.int32) - palette[None]) ** 2).sum(axis=2)
    indices = distances.argmin(axis=1).astype(np.uint8)[places].reshape(height, width)
    lines = np.concatenate([np.zeros((height, 1), np.uint8), indices], axis=1)  # 0: no filter
    chunks = {
        b"IHDR": struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0),
        b"PLTE": palette.tobytes(),
        b"IDAT": zlib.compress(lines.tobytes(), 9),
        b"IEND": b"",
    }
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        for kind, data in chunks.items()
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("page", nargs="?", type=Path, default=HOME / "demo" / "report.html")
    parser.add_argument("--out", type=Path, default=HOME / "docs" / "figures" / "report.png")
    parser.add_argument("--until", default="backtest", help="the section before which the picture ends")
    parser.add_argument("--series", type=int, default=3, help="which series of the page, counted from 1")
    asked = parser.parse_args()
    asked.out.write_bytes(encode(take(asked.page, asked.until, asked.series)))
    sys.stdout.write(f"{asked.out}: {asked.out.stat().st_size / 1024:.0f} KiB\n")
