# SPDX-License-Identifier: MIT
"""Makes C of live.html: its bytes, and the hashes by which a browser lets its
script and its style pass. usage: live-embed.py <live.html >live-page.c
"""

import base64
import hashlib
import re
import sys

page = sys.stdin.buffer.read()


def source(tag):
    text = re.search(b"<%s>(.*?)</%s>" % (tag, tag), page, re.DOTALL)[1]
    digest = base64.b64encode(hashlib.sha256(text).digest()).decode()
    return f"\"'sha256-{digest}'\""


print("#include \"live/live-page.h\"")
print("const unsigned char live_page[] = {")
for i in range(0, len(page), 16):
    print(",".join(str(byte) for byte in page[i:i + 16]) + ",")
print("};")
print("const size_t live_page_size = sizeof(live_page);")
print(f"const char live_page_script[] = {source(b'script')};")
print(f"const char live_page_style[] = {source(b'style')};")
