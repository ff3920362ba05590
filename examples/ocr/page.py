"""Draws page.png, the page that the example reads: page.py [FOLDER]. Each line of page.txt becomes one of the page."""

import pathlib
import sys

from PIL import Image, ImageDraw, ImageFont

WIDTH, HEIGHT, MARGIN = 1100, 820, 60
# of each line: size of the letters
SIZES = (36, 26, 26, 34, 26, 26, 26, 30, 24, 28, 26, 22)


def draw(lines):
    """A page in grey on which every line stands by itself, below a head and beside a rule."""
    page = Image.new("L", (WIDTH, HEIGHT), 248)
    pen = ImageDraw.Draw(page)
    pen.rectangle((0, 0, WIDTH, 14), 70)
    pen.line((MARGIN - 24, 40, MARGIN - 24, HEIGHT - 40), 160, 3)
    step = (HEIGHT - 80) / len(lines)
    for number, (line, size) in enumerate(zip(lines, SIZES, strict=True)):
        indent = 40 * (number in (4, 5, 6, 8, 9))
        pen.text((MARGIN + indent, 50 + number * step), line, 30, ImageFont.load_default(size))
    return page


def main():
    here = pathlib.Path(__file__).parent
    lines = (here / "page.txt").read_text(encoding="utf-8").splitlines()
    to = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else here
    # 16 greys are enough for the edges of letters
    draw(lines).quantize(16).save(to / "page.png", optimize=True)


main()
