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
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import WebDriverWait

import servers
from servers import serving

PATIENCE_S = 60
CONNECTIONS = 40
THEMES = ["light", "dark"]
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

    def focused(self):
        return self.browser.switch_to.active_element

    def press(self, *keys):
        for key in keys:
            self.focused().send_keys(key)


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

    def assert_gone(self, why, stop=lambda: None):
        """All but the verdict is dimmed, which says how old it is."""
        def is_gone():
            stop()
            return (self.page.text("status").startswith(why.lower()) and
                    re.search(rf"^{why}: the server is .*\. "
                              r"All this is as of [1-9]\d* s ago\.$",
                              self.page.text("verdict")) and
                    self.opacities() == [.5, .5, 1])
        self.page.until(is_gone)

    def opacities(self):
        return [float(self.browser.find_element(By.CSS_SELECTOR, element)
                      .value_of_css_property("opacity"))
                for element in ("main", "#setup", "#verdict")]

    def assert_contrast(self, foreground, background, least=4.5):
        def luminance(colour):
            parts = [int(part) / 255
                     for part in re.findall(r"\d+", colour)[:3]]
            linear = [part / 12.92 if part <= 0.04045
                      else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
            return sum(weight * part for weight, part
                       in zip((0.2126, 0.7152, 0.0722), linear))
        darker, lighter = sorted((luminance(foreground),
                                  luminance(background)))
        self.assertGreaterEqual((lighter + 0.05) / (darker + 0.05), least)

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
            self.assertEqual(self.page.run(
                """(frame.all.stalls_bad[1] = frame.page_ms, lastOf(
                figures.find(({name}) => name === 'stalls')).whose)"""),
                ", on wheel 2")
            self.page.press(Keys.TAB, Keys.TAB, Keys.TAB, Keys.ENTER)
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

    def test_a_stall_of_several_loops_names_them(self):
        # Timers are due while their loop is blocked, or the wheel would not see
        # that as a stall. Newcomers are on a wheel that the page does not show.
        with self.viewing("--threads", "3", "--block", "4",
                          "--timeout", "3000",
                          "--shed", "--max-connections", "9",
                          program="multi-loop") as server:
            self.assertEqual(self.page.texts("#wheels .bad"), [])
            # Too many for each of them.
            connections = []
            for _ in range(100):
                connections.append(server.connect())
                connections[-1].sendall(b"hello")
                connections[-1].recv(5)
            self.page.until(lambda: self.page.run(
                """[...document.querySelectorAll('#wheels button')].every(
                ({title}) => title.includes('Fired soonest'))"""))
            server.process.send_signal(signal.SIGUSR1)
            # The loops answer again, and the page shows what was.
            self.page.until(lambda: all(
                re.search(r"\s[1-9]\.\d s$", row)
                for row in self.page.texts("#wheels tbody tr")))
            self.page.until(lambda: re.search(
                r" \(unanswered [1-9]\.\d s, .*, on wheels 1, 2, 3\)\.$",
                self.page.text("verdict")))
            self.page.until(lambda: any(re.search(
                r"(?s)^Unanswered\n[1-9]\.\d s\n.*; at present 0 ms\.$", text)
                for text in self.bad()))
            for connection in connections:
                connection.close()

    def test_everything_has_a_name(self):
        named = {"button", "image", "region", "heading", "status"}
        with self.viewing("--threads", "2", program="multi-loop"):
            tree = self.browser.execute_cdp_cmd(
                "Accessibility.getFullAXTree", {})["nodes"]
            found = {}
            for node in tree:
                role = node.get("role", {}).get("value")
                name = node.get("name", {}).get("value", "")
                if role in named and not node["ignored"]:
                    found.setdefault(role, []).append(name)
        for role in named - {"status"}:
            self.assertIn(role, found)
            for name in found[role]:
                self.assertNotEqual(name, "", role)
        self.assertEqual(found["button"], ["1", "2"])
        self.assertEqual(len(found["status"]), 1)  # and nothing else is live

    def test_it_fits_and_is_legible(self):
        colours = {}
        with self.viewing() as server:
            for theme in THEMES:
                for width in WIDTHS:
                    self.page.emulate(width=width, theme=theme)
                    self.page.open(server.url)
                    self.assertLessEqual(
                        self.page.run("document.documentElement.scrollWidth"),
                        width)
                card = self.browser.find_element(By.ID, "wheel")
                colours[theme] = card.value_of_css_property("background-color")
                self.page.run("document.getElementById('setup')"
                              ".classList.replace('muted', 'bad')")
                for name in ("wheel", "summary", "setup", "verdict"):
                    text = self.browser.find_element(By.ID, name)
                    self.assert_contrast(text.value_of_css_property("color"),
                                         colours[theme])
                # A slot with one timer, and an empty one.
                slots = [self.page.run(
                    """((rim = document.getElementById('rim')) =>
                    (rim.style.stroke = `var(--s${arguments[0]})`,
                    getComputedStyle(rim).stroke))()""", level)
                    for level in (1, 0)]
                self.assert_contrast(*slots, least=3)
        self.assertNotEqual(colours["light"], colours["dark"])

    def test_a_server_that_is_frozen_gives_no_answer(self):
        with self.viewing() as server:
            try:
                # Each time anew: a frozen machine may have continued it.
                self.assert_gone("No answer", lambda:
                                 server.process.send_signal(signal.SIGSTOP))
            finally:
                server.process.send_signal(signal.SIGCONT)
            self.page.until(lambda: self.page.text("status") == "live")
            self.assertEqual(self.opacities(), [1, 1, 1])

    def test_a_server_that_ends_and_comes_back(self):
        with serving() as server:
            self.page.open(server.url)
            with server.connect() as connection:
                connection.sendall(b"hello")
                self.page.until(lambda: self.page.number("open") == 1)
        self.assert_gone("No connection")
        with serving("--slots", "1024", http_port=server.http_port):
            self.page.until(lambda: self.page.text("status") == "live")
            self.page.until(lambda: self.page.text("setup")
                            .startswith("1,024 slots"))
            self.page.until(lambda: self.page.number("open") == 0)
            self.browser.get("about:blank")


if __name__ == "__main__":
    if len(sys.argv) < 2 or not servers.find_build(sys.argv[1]):
        sys.exit(__doc__)
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]], defaultTest="Live")
