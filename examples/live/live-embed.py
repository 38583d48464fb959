# SPDX-License-Identifier: MIT
"""Makes C of a page: its bytes, with its style and its script in their places,
and a Content-Security-Policy: the page may run these two, by their hashes, and
ask its own server, and nothing else. No other page may frame it or read it.
usage: live-embed.py live.html live.css live.js >live-page.c
"""

import base64
import hashlib
import pathlib
import sys

page, style, script = (pathlib.Path(name).read_bytes()
                       for name in sys.argv[1:])
page = page.replace(b"<style>\n", b"<style>" + style)
page = page.replace(b"<script>\n", b"<script>" + script)


def source(text):
    digest = base64.b64encode(hashlib.sha256(text).digest()).decode()
    return f"'sha256-{digest}'"


print("#include \"live/live.h\"")
print("const unsigned char live_page[] = {")
for i in range(0, len(page), 16):
    print(",".join(str(byte) for byte in page[i:i + 16]) + ",")
print("};")
print("const size_t live_page_size = sizeof(live_page);")
print(f"""const char live_page_policy[] =
  "default-src 'none'; script-src {source(script)}; style-src {source(style)}; "
  "img-src data:; connect-src 'self'; base-uri 'none'; form-action 'none'; "
  "frame-ancestors 'none'";""")
