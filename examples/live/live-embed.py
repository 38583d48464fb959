# SPDX-License-Identifier: MIT
"""Makes C of a page: its bytes, with its style and its script in their places.
usage: live-embed.py live.html live.css live.js >live-page.c
"""

import pathlib
import sys

page, style, script = (pathlib.Path(name).read_bytes()
                       for name in sys.argv[1:])
page = page.replace(b"<style>\n", b"<style>" + style)
page = page.replace(b"<script>\n", b"<script>" + script)
print("#include \"live/live.h\"")
print("const unsigned char live_page[] = {")
for i in range(0, len(page), 16):
    print(",".join(str(byte) for byte in page[i:i + 16]) + ",")
print("};")
print("const size_t live_page_size = sizeof(live_page);")
