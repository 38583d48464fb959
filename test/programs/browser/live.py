#!/usr/bin/python3
# SPDX-License-Identifier: MIT
# The distribution's own Python is the one that has its selenium package.

"""The live page of idle-server and multi-loop in headless Chromium.

usage: live.py BUILD [NAME...]

Runs the tests, or those of them. BUILD is a directory with the examples."""

import contextlib
import os
import re
import shutil
import signal
import sys
import unittest

from selenium import webdriver
from selenium.common.exceptions import StaleElementReferenceException
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait

import servers
from servers import serving

PATIENCE_S = 60
CONNECTIONS = 40
WIDTHS = [320, 390, 768, 1280]
CHROMIUM = ["chromium", "chromium-browser", "google-chrome"]

# ---- The browser -----------------------------------------------------------

def start_browser():
    options = webdriver.ChromeOptions()
    options.binary_location = next(filter(None, map(shutil.which, CHROMIUM)))
    options.add_argument("--headless=new")
    options.add_argument("--hide-scrollbars")
    options.add_argument("--disable-dev-shm-usage")
    if os.geteuid() == 0:
        options.add_argument("--no-sandbox")  # which root cannot have
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    return webdriver.Chrome(service=Service(shutil.which("chromedriver")),
                            options=options)


class Page:
    """What is on the screen."""

    def __init__(self, browser):
        self.browser = browser

    def emulate(self, width=1280, height=900, theme="light"):
        self.browser.execute_cdp_cmd(
            "Emulation.setEmulatedMedia",
            {"features": [{"name": "prefers-color-scheme", "value": theme}]})
        self.browser.execute_cdp_cmd(
            "Emulation.setDeviceMetricsOverride",
            {"width": width, "height": height, "deviceScaleFactor": 1,
             "mobile": False})

    def open(self, url):
        self.browser.get(url)
        self.until(lambda: self.text("status") == "live")
        self.until(lambda: self.text("active") != "")

    def until(self, condition):
        """A frame may replace an element while its text is read."""
        WebDriverWait(self.browser, PATIENCE_S, 0.1,
                      [StaleElementReferenceException]).until(
            lambda _: condition())

    def run(self, script, *arguments):
        return self.browser.execute_script("return " + script, *arguments)

    def text(self, name):
        return self.browser.find_element(By.ID, name).text

    def texts(self, place):
        """Of all elements at once: the next frame may replace them."""
        return self.run("[...document.querySelectorAll(arguments[0])]"
                        ".map(element => element.innerText)", place)

    def number(self, name):
        """NaN while there is none yet."""
        text = self.text(name)
        return float("nan" if text == "\u2013" else text.replace(",", ""))


# ---- The tests -------------------------------------------------------------

class Live(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.browser = start_browser()
        cls.addClassCleanup(cls.browser.quit)

    def setUp(self):
        self.page = Page(self.browser)
        self.page.emulate()
        self.browser.get("about:blank")
        self.browser.get_log("browser")

    def bad(self):
        """The figures that are, as text."""
        return self.page.texts(
            "dl .bad, #late.bad, #verdict.bad")

    @contextlib.contextmanager
    def viewing(self, *options, **more):
        """The page of a server, which must stay without a complaint."""
        with serving(*options, **more) as server:
            self.page.open(server.url)
            yield server
            self.assertEqual(self.browser.get_log("browser"), [])
            self.browser.get("about:blank")

    def test_connections_show_up_and_expire(self):
        # A round is shorter than the timeout.
        with self.viewing("--slots", "4", "--timeout", "1000") as server:
            self.assertRegex(self.page.text("setup"),
                             r"^4 slots of 100 ms, 0\.4 s a round; "
                             r"connections time out after 1\.0 s; up \d+ s$")
            connections = []

            def is_busy():
                connections.append(server.connect())
                return all(self.page.number(name) > 0
                           for name in ("active", "fired", "open"))
            self.page.until(is_busy)
            self.assertRegex(self.page.text("summary"),
                             r"slots in use, at most \d+ timer")
            self.page.until(lambda: self.page.number("active") == 0)
            self.assert_histogram(server)
            for connection in connections:
                connection.close()

    def bars(self):
        """What each says, and has: a range of ms, timers, how many of them
        since the start, its height, its class."""
        bars = self.page.run(
            """[...document.querySelectorAll('#bars g')].map(bar =>
            [bar.querySelector('title').textContent,
             bar.querySelector('rect').height.baseVal.value,
             bar.className.baseVal])""")
        return [(*re.fullmatch(r"(\S+) ms late: (\d+) timers?, "
                               r"(\d+) since the start", text).groups(), *rest)
                for text, *rest in bars]

    def assert_histogram(self, server):
        self.page.until(lambda: sum(int(bar[2]) for bar in self.bars()) ==
                        sum(server.frame()["lateness"]))
        ranges, counts, _, heights, classes = zip(*self.bars())
        counts = list(map(int, counts))
        self.assertEqual([height > 0 for height in heights],
                         [count > 0 for count in counts])
        self.assertEqual(counts[heights.index(max(heights))], max(counts))
        self.assertEqual(ranges[:4], ("0", "1", "2\u20133", "4\u20137"))
        # The first of which all are beyond two ticks and 100 ms.
        self.assertEqual(ranges[classes.index("bad")], "512\u20131,023")

    def test_a_page_that_is_opened_after_a_stall_tells_of_it(self):
        with serving("--block", "6", "--timeout", "1000") as server:
            self.page.open(server.url)
            self.assertEqual(self.bad(), [])
            self.assertEqual(self.page.text("verdict"),
                             "The timers have had no trouble.")
            self.browser.get("about:blank")
            with server.connect():  # a wheel without timers has no stalls
                server.process.send_signal(signal.SIGUSR1)
                self.page.until(
                    lambda: server.frame()["all"]["stalls"] == [1])
            self.page.open(server.url)
            verdict, stalls, *_ = sorted(self.bad(), key=len)
            self.assertRegex(
                verdict, r"^The loop was blocked, or the process frozen "
                r"\(a stall of \d\.\d s, (now|\d+ s ago)\)\.$")
            self.assertRegex(
                stalls, r"^Stalls\n1\nBad when it grows: the loop was blocked, "
                r"or the process frozen\. Last: (now|\d+ s ago), \d\.\d s long\.$")
            self.browser.get("about:blank")

    def test_one_of_several_wheels_is_chosen(self):
        def rows():
            return [row.split() for row in self.page.texts("#wheels tr")]

        def pressed():
            return self.page.texts("#wheels button[aria-pressed=true]")

        with self.viewing("--threads", "3", "--timeout", "60000",
                          program="multi-loop") as server:
            connections = [server.connect() for _ in range(CONNECTIONS)]
            self.page.until(
                lambda: sum(int(row[1]) for row in rows()[1:]) == CONNECTIONS)
            self.assertEqual([row[0] for row in rows()],
                             ["Wheel", "1", "2", "3"])
            self.assertEqual(pressed(), ["1"])
            self.page.run(
                "document.querySelectorAll('#wheels button')[2].click()")
            self.page.until(lambda: pressed() == ["3"])
            self.page.until(
                lambda: self.page.text("active") == rows()[3][1])
            for width in WIDTHS:
                self.page.emulate(width=width)
                self.assertTrue(self.page.run(
                    """((wide = document.querySelector('.wide')) =>
                    wide.scrollWidth <= wide.clientWidth)()"""), width)
            for connection in connections:
                connection.close()

    def test_it_fits(self):
        with self.viewing() as server:
            for theme in "light", "dark":
                for width in WIDTHS:
                    self.page.emulate(width=width, theme=theme)
                    self.page.open(server.url)
                    self.assertLessEqual(
                        self.page.run("document.documentElement.scrollWidth"),
                        width)

    def test_a_server_that_is_frozen_gives_no_answer(self):
        with self.viewing() as server:
            def is_seen():
                # Each time anew: a frozen machine may have continued it.
                server.process.send_signal(signal.SIGSTOP)
                return (self.page.text("status") == "no answer" and
                        re.search(r"^No answer: the server is .*\. "
                                  r"All this is as of [1-9]\d* s ago\.$",
                                  self.page.text("verdict")))
            try:
                self.page.until(is_seen)
            finally:
                server.process.send_signal(signal.SIGCONT)
            self.page.until(lambda: self.page.text("status") == "live")


if __name__ == "__main__":
    if len(sys.argv) < 2 or not servers.find_build(sys.argv[1]):
        sys.exit(__doc__)
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]], defaultTest="Live")
