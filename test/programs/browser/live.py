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

    def attribute(self, name, attribute):
        return self.browser.find_element(By.ID, name).get_attribute(attribute)

    def focused(self):
        return self.browser.switch_to.active_element

    def press(self, *keys):
        for key in keys:
            self.focused().send_keys(key)

    def hand(self):
        return self.run("document.getElementById('hand').style.transform")

    def shaded_slots(self):
        return len(self.browser.find_elements(
            By.CSS_SELECTOR, "#cells [stroke^=var]"))


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

    def assert_gone(self, why):
        """All but the verdict is dimmed, which says how old it is."""
        self.page.until(lambda: self.page.text("verdict").startswith(why))
        self.page.until(lambda: re.search(
            r"\. All this is as of [1-9]\d* s ago\.$",
            self.page.text("verdict")))
        self.assertEqual(self.opacities(), [.5, .5, 1])

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
        with self.viewing("--slots", "4", "--timeout", "3000") as server:
            self.assertRegex(self.page.text("setup"),
                             r"^4 slots of 100 ms, 0\.4 s a round; "
                             r"connections time out after 3\.0 s; up \d+ s$")
            connections = []

            def connect_and_chat():
                connections.append(server.connect())
                for connection in connections[-CONNECTIONS:]:
                    connection.sendall(b"hello")

            for name in ("active", "refreshed", "rescheduled", "fired",
                         "examined_too_early"):
                def is_shown(name=name):
                    connect_and_chat()
                    return self.page.number(name) > 0
                self.page.until(is_shown)
            self.assertRegex(self.page.text("summary"),
                             r"slots in use, at most \d+ timer")
            self.assertGreater(self.page.shaded_slots(), 0)
            for connection in connections:
                connection.close()
            self.page.until(lambda: self.page.number("active") == 0)
            self.assertRegex(self.page.text("percentiles"),
                             r"^In the last \d+ s: half within \d+ ms, "
                             r"99 % within [\d.]+ m?s, all within [\d.]+ m?s\.$")

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
            self.page.press(Keys.TAB, Keys.TAB, Keys.TAB, Keys.TAB, Keys.ENTER)
            self.page.until(lambda: pressed() == ["3"])
            self.page.until(
                lambda: self.page.text("active") == rows()[3][1])
            for width in WIDTHS[1:]:
                self.page.emulate(width=width)
                self.assertTrue(self.page.run(
                    """((wide = document.querySelector('.wide')) =>
                    wide.scrollWidth <= wide.clientWidth)()"""), width)
            for connection in connections:
                connection.close()

    def test_a_stall_of_six_loops_names_six(self):
        names = [str(i) for i in range(1, 7)]

        def cells(selector):
            return self.page.run(
                """[...document.querySelectorAll('#wheels tbody tr')].map(row =>
                [...row.querySelectorAll(arguments[0])].map(cell =>
                row.closest('table').rows[0].cells[cell.cellIndex].innerText))
                """, selector)

        # Timers are due while their loop is blocked, or the wheel would not see
        # that as a stall. Newcomers are on a wheel that its page does not show.
        with self.viewing("--threads", "6", "--block", "4", "--timeout", "3000",
                          "--shed", "--max-connections", "9",
                          program="multi-loop") as server:
            scale = self.browser.find_element(By.ID, "scale-legend")
            self.assertEqual(cells(".bad"), [[]] * 6)
            self.assertFalse(scale.is_displayed())
            # Too many for each of them.
            connections = []
            for _ in range(200):
                connections.append(server.connect())
                connections[-1].sendall(b"hello")
                connections[-1].recv(5)
            self.page.until(scale.is_displayed)
            server.process.send_signal(signal.SIGUSR1)
            self.page.until(lambda: self.page.text("verdict").endswith(
                ", wheels " + ", ".join(names) + ")."))
            self.page.until(lambda: all(  # and maybe what was overdue then
                {"Stalls", "Unanswered"} <= set(bad)
                for bad in cells("td.bad")))
            # The loops answer again, and the page shows what was.
            for row in self.page.texts("#wheels tbody tr"):
                self.assertRegex(row, r"\s[1-4]\.\d s$")
            self.assertTrue([text for text in self.bad() if re.search(
                r"^Unanswered\n[1-4]\.\d s\n.*; at present 0 ms\.$",
                text, re.DOTALL)])
            self.assertEqual(self.page.texts("#wheels button.bad"), names)
            self.assertRegex(self.page.run(
                "document.querySelector('#wheels .bad').title"),
                "^Bad: (Lateness, )?Fired soonest$")
            for connection in connections:
                connection.close()

    def test_pause_and_resume_by_keyboard(self):
        with self.viewing() as server:
            self.page.press(Keys.TAB)
            self.assertEqual(self.page.focused().text, "Pause")
            self.page.press(Keys.ENTER)
            self.assertEqual(self.page.text("status"), "paused")
            self.assertEqual(self.page.focused().text, "Resume")
            before = self.page.hand()
            was_ms = server.frame()["now_ms"]
            self.page.until(lambda: server.frame()["now_ms"] > was_ms + 1000)
            self.assertEqual(self.page.hand(), before)
            self.page.press(Keys.SPACE)
            self.page.until(lambda: self.page.text("status") == "live")
            self.page.until(lambda: self.page.hand() != before)
            self.assertEqual(self.page.focused().text, "Pause")

    def test_everything_has_a_name(self):
        named = {"button", "image", "region", "heading", "status"}
        with self.viewing():
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
        self.assertEqual(found["button"], ["Pause"])
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
            server.process.send_signal(signal.SIGSTOP)
            try:
                self.page.until(lambda: self.page.text("status") ==
                                "no answer")
                self.assert_gone("No answer: the server is frozen, or")
            finally:
                server.process.send_signal(signal.SIGCONT)
            self.page.until(lambda: self.page.text("status") == "live")
            self.assertEqual(self.opacities(), [1, 1, 1])

    def test_a_server_that_ends_and_comes_back(self):
        with serving() as server:
            self.page.open(server.url)
            with server.connect() as connection:
                connection.sendall(b"hello")
                self.page.until(lambda: self.page.number("refreshed") > 0)
        self.page.until(lambda: self.page.text("status") ==
                        "no connection, trying again")
        self.assert_gone("No connection: the server is gone")
        with serving("--slots", "1024", http_port=server.http_port):
            self.page.until(lambda: self.page.text("status") == "live")
            self.page.until(lambda: self.page.text("setup")
                            .startswith("1,024 slots"))
            self.page.until(lambda: self.page.number("refreshed") == 0)
            self.browser.get("about:blank")


if __name__ == "__main__":
    if len(sys.argv) < 2 or not servers.find_build(sys.argv[1]):
        sys.exit(__doc__)
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]], defaultTest="Live")
