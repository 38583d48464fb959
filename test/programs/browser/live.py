#!/usr/bin/python3
# SPDX-License-Identifier: MIT
# The distribution's own Python is the one that has its selenium package.

"""The live page of idle-server and multi-loop in headless Chromium.

usage: live.py BUILD [NAME...]             runs the tests, or those of them
       live.py BUILD --pictures DIRECTORY  remakes the pictures of the manual
       live.py BUILD --cost                measures what viewers cost

BUILD is a build directory with the examples. Pictures take some minutes, and
pngquant."""

import contextlib
import json
import os
import pathlib
import re
import selectors
import shutil
import signal
import statistics
import subprocess
import sys
import time
import unittest

from selenium import webdriver
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
    options.set_capability("goog:loggingPrefs",
                           {"browser": "ALL", "performance": "ALL"})
    return webdriver.Chrome(service=Service(shutil.which("chromedriver")),
                            options=options)


class Page:
    """What is on the screen."""

    def __init__(self, browser):
        self.browser = browser

    def emulate(self, width=1280, height=900, theme="light",
                motion="no-preference"):
        self.browser.execute_cdp_cmd(
            "Emulation.setEmulatedMedia",
            {"features": [
                {"name": "prefers-color-scheme", "value": theme},
                {"name": "prefers-reduced-motion", "value": motion}]})
        self.browser.execute_cdp_cmd(
            "Emulation.setDeviceMetricsOverride",
            {"width": width, "height": height, "deviceScaleFactor": 1,
             "mobile": False})

    def open(self, url):
        self.browser.get(url)
        self.until(lambda: self.text("status") == "live")
        self.until(lambda: self.text("timers") != "")

    def until(self, condition):
        WebDriverWait(self.browser, PATIENCE_S, 0.1).until(
            lambda _: condition())

    def run(self, script, *arguments):
        return self.browser.execute_script("return " + script, *arguments)

    def text(self, name):
        return self.browser.find_element(By.ID, name).text

    def number(self, name):
        return float(self.text(name).replace(",", ""))

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
            By.CSS_SELECTOR, "#cells path:not(.l0)"))


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
        self.browser.get_log("performance")

    def cell(self, row, column):
        return self.browser.find_elements(
            By.CSS_SELECTOR, f"#{row} > *")[column].text

    def bad(self):
        """The figures that are, as text."""
        return [box.text for box in self.browser.find_elements(
            By.CSS_SELECTOR, ".tile.bad, #health .bad")]

    @contextlib.contextmanager
    def viewing(self, *options, **more):
        """The page of a server, which must stay without a complaint."""
        with serving(*options, **more) as server:
            self.page.open(server.url)
            yield server
            self.assertEqual(self.browser.get_log("browser"), [])
            self.browser.get("about:blank")

    def assert_contrast(self, foreground, background):
        def luminance(colour):
            parts = [int(part) / 255
                     for part in re.findall(r"\d+", colour)[:3]]
            linear = [part / 12.92 if part <= 0.04045
                      else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
            return sum(weight * part for weight, part
                       in zip((0.2126, 0.7152, 0.0722), linear))
        darker, lighter = sorted((luminance(foreground),
                                  luminance(background)))
        self.assertGreaterEqual((lighter + 0.05) / (darker + 0.05), 4.5)

    def test_it_loads_from_its_server_alone(self):
        with self.viewing("--slots", "64") as server:
            self.assertEqual(self.browser.title, "uvwheel, live")
            self.assertEqual(self.page.text("setup"),
                             "64 slots of 100 ms, 6.4 s a round; "
                             "connections time out after 5.0 s")
            requests = [
                message["params"]["request"]["url"]
                for message in (json.loads(entry["message"])["message"]
                                for entry in
                                self.browser.get_log("performance"))
                if message["method"] == "Network.requestWillBeSent"]
            self.assertIn(server.url, requests)
            self.assertIn(server.url + "events?wheel=0", requests)
            for url in requests:
                self.assertTrue(
                    url.startswith((server.url, "data:", "about:")), url)

    def test_the_hand_moves(self):
        with self.viewing():
            before = self.page.hand()
            self.page.until(lambda: self.page.hand() != before)

    def test_connections_show_up_and_expire(self):
        with self.viewing("--timeout", "3000") as server:
            connections = [server.connect() for _ in range(CONNECTIONS)]

            def until_while_they_chat(condition):
                def chat():
                    for connection in connections:
                        connection.sendall(b"hello")
                    return condition()
                self.page.until(chat)

            until_while_they_chat(
                lambda: self.page.number("timers") == CONNECTIONS)
            until_while_they_chat(lambda: self.page.shaded_slots() > 0)
            until_while_they_chat(lambda: self.page.number("refreshed") > 0)
            self.assertRegex(self.page.text("summary"),
                             r"slots in use, at most \d+ timer")
            self.page.until(lambda: self.page.number("fired") > 0)
            for connection in connections:
                while connection.recv(100):
                    pass
                connection.close()
            self.page.until(lambda: self.page.number("timers") < CONNECTIONS)
            self.page.until(lambda: self.page.text("late-summary")
                            .endswith("fired since the start:"))
            half_ms, most_ms = (
                int(self.cell("due-late", i).split()[0]) for i in (1, 2))
            self.assertLessEqual(half_ms, most_ms)
            self.assertGreater(most_ms, 0)  # the tick is 100 ms
            self.assertRegex(self.cell("tick-late", 2), r"^\d+ ms$")

    def test_timers_of_later_rounds_are_told_and_looked_at_in_vain(self):
        with self.viewing("--slots", "4", "--timeout", "4000") as server:
            self.assertEqual(self.page.number("in_vain"), 0)
            connections = [server.connect() for _ in range(CONNECTIONS)]
            self.page.until(lambda: re.fullmatch(
                r"[\d.]+ % are due in this round, [\d.]+ % in later ones, "
                r"at most (8|9|10) rounds ahead\.", self.page.text("rounds")))

            # One that waits for a later round stands beside each that is due.
            def connect():
                connections.append(server.connect())
                return self.page.number("in_vain") > 0
            self.page.until(connect)
            for connection in connections:
                connection.close()

    def test_stalls_show_up(self):
        # Longer than the viewer's own timer waits.
        with self.viewing("--block", "6") as server:
            self.assertEqual(self.page.text("stalls"), "0")
            self.assertEqual(self.bad(), [])
            peer = server.connect()  # a wheel without timers has no stalls
            self.page.until(lambda: self.page.number("timers") == 1)
            server.process.send_signal(signal.SIGUSR1)
            self.page.until(lambda: self.page.text("stalls") == "1")
            self.assertRegex(self.page.text("stall_max"), r"^\d\.\d s$")
            self.assertNotEqual(self.page.text("deaf"), "0 ms")
            self.assertEqual([text for text in self.bad()
                              if text.startswith("Stalls")],
                             ["Stalls\n1\nBad when it grows: "
                              "find what blocks the loop."])
            peer.close()

    def test_each_figure_says_what_it_is(self):
        with self.viewing():
            for place in (".tile", "#health dl > div"):
                boxes = self.browser.find_elements(By.CSS_SELECTOR, place)
                self.assertGreater(len(boxes), 5)
                for box in boxes:
                    name, _, note = box.text.split("\n", 2)
                    self.assertNotEqual(name, "")
                    self.assertTrue(note.endswith("."), note)
                    self.assertIn(note.replace("\n", " "),
                                  box.get_attribute("title"))

    def test_one_of_several_wheels_is_chosen(self):
        def rows():
            return [row.text.split() for row in self.browser.find_elements(
                By.CSS_SELECTOR, "#wheels tr")]

        def pressed():
            return [button.text for button in self.browser.find_elements(
                By.CSS_SELECTOR, "#wheels button[aria-pressed=true]")]

        with self.viewing("--threads", "3", "--timeout", "60000",
                          program="multi-loop") as server:
            connections = [server.connect() for _ in range(CONNECTIONS)]
            self.page.until(lambda: rows()[-1][:2] == ["All", str(CONNECTIONS)])
            self.assertEqual([row[0] for row in rows()],
                             ["Wheel", "1", "2", "3", "All"])
            self.assertEqual(sum(int(row[1]) for row in rows()[1:4]),
                             CONNECTIONS)
            self.assertEqual(pressed(), ["1"])
            self.page.press(Keys.TAB, Keys.TAB, Keys.TAB, Keys.TAB, Keys.ENTER)
            self.page.until(lambda: pressed() == ["3"])
            self.page.until(
                lambda: self.page.text("timers") == rows()[3][1])
            for connection in connections:
                connection.close()

    def test_one_wheel_needs_no_choice(self):
        with self.viewing():
            self.assertFalse(self.browser.find_element(
                By.ID, "wheels").is_displayed())

    def test_pause_and_resume_by_keyboard(self):
        with self.viewing() as server:
            self.page.press(Keys.TAB)
            self.assertEqual(self.page.focused().text, "Pause")
            self.page.press(Keys.ENTER)
            self.assertEqual(self.page.text("status"), "paused")
            self.assertEqual(self.page.focused().text, "Resume")
            with server.view() as viewer:  # it alone is left
                self.page.until(lambda: b'"viewers":1,' in viewer.recv(65536))
            before = self.page.hand()
            self.page.press(Keys.SPACE)
            self.page.until(lambda: self.page.text("status") == "live")
            self.page.until(lambda: self.page.hand() != before)
            self.assertEqual(self.page.focused().text, "Pause")

    def test_slots_by_keyboard(self):
        def chosen():
            return self.page.attribute("ring", "aria-valuetext")

        with self.viewing():
            self.page.press(Keys.TAB, Keys.TAB)
            self.assertEqual(self.page.focused().get_attribute("id"), "ring")
            self.assertEqual(chosen(), "none; use the arrow keys")
            self.page.press(Keys.END)
            self.assertRegex(chosen(), r"^slot 511: \d+ timers?, the hand ")
            self.page.press(Keys.ARROW_RIGHT)
            self.assertRegex(chosen(), "^slot 0: ")
            self.page.press(Keys.PAGE_UP, Keys.ARROW_LEFT)
            self.assertRegex(chosen(), "^slot 31: ")
            self.assertEqual(self.page.attribute("ring", "aria-valuenow"), "31")
            self.assertEqual(self.page.text("above"), "slot 31")
            self.page.press(Keys.ESCAPE)
            self.assertEqual(chosen(), "none; use the arrow keys")

    def test_slots_by_pointer(self):
        with self.viewing():
            ring = self.browser.find_element(By.ID, "ring")
            move = webdriver.ActionChains(self.browser)
            move.move_to_element_with_offset(
                ring, ring.size["width"] * 86 // 214, 2).perform()
            self.assertRegex(self.page.text("above"), "^slot 12[89]$")

    def test_the_slots_as_a_table(self):
        with self.viewing() as server:
            connections = [server.connect() for _ in range(CONNECTIONS)]
            self.page.press(Keys.TAB, Keys.TAB, Keys.TAB, Keys.ENTER)
            rows = "#slots tbody tr"
            self.page.until(lambda: sum(
                int(row.split()[-1]) for row in
                (found.text for found in
                 self.browser.find_elements(By.CSS_SELECTOR, rows)))
                == CONNECTIONS)
            self.assertEqual(
                len(self.browser.find_elements(By.CSS_SELECTOR, rows)), 16)
            for connection in connections:
                connection.close()

    def test_what_has_the_focus_shows_it(self):
        with self.viewing():
            for _ in range(3):
                self.page.press(Keys.TAB)
                self.assertEqual(
                    self.page.focused().value_of_css_property("outline-style"),
                    "solid")

    def test_everything_has_a_name(self):
        named = {"button", "slider", "table", "region", "heading", "status",
                 "DisclosureTriangle"}
        with self.viewing():
            tree = self.browser.execute_cdp_cmd(
                "Accessibility.getFullAXTree", {})["nodes"]
            found = {}
            for node in tree:
                role = node.get("role", {}).get("value")
                name = node.get("name", {}).get("value", "")
                if role in named and not node["ignored"]:
                    found.setdefault(role, []).append(name)
        for role in named - {"status", "DisclosureTriangle"}:
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
                for name in ("wheel", "summary", "setup"):
                    text = self.browser.find_element(By.ID, name)
                    self.assert_contrast(text.value_of_css_property("color"),
                                         colours[theme])
        self.assertNotEqual(colours["light"], colours["dark"])

    def test_reduced_motion(self):
        moving = "document.querySelectorAll('.moving').length"
        with self.viewing() as server:
            self.page.until(lambda: self.page.run(moving) == 2)
            self.page.emulate(motion="reduce")
            self.page.open(server.url)
            for _ in range(3):
                before = self.page.hand()
                self.page.until(lambda: self.page.hand() != before)
                self.assertEqual(self.page.run(moving), 0)

    def test_a_server_that_ends_and_comes_back(self):
        with serving() as server:
            self.page.open(server.url)
            with server.connect() as connection:
                connection.sendall(b"hello")
                self.page.until(lambda: self.page.number("refreshed") > 0)
        self.page.until(lambda: self.page.text("status") ==
                        "no connection, trying again")
        with serving("--slots", "1024", http_port=server.http_port):
            self.page.until(lambda: self.page.text("status") == "live")
            self.page.until(lambda: self.page.text("setup")
                            .startswith("1,024 slots"))
            self.assertEqual(self.page.number("refreshed"), 0)
            self.browser.get("about:blank")


# ---- The pictures ----------------------------------------------------------

def start_loads(server, timeout_ms):
    """Some thousand connections that come, chat and fall silent one after
    another, until every part of the wheel is in use."""
    loads = []
    for i in range(24):
        loads.append(subprocess.Popen(
            [servers.build / "load/idle-load",
                 "--port", str(server.port),
             "--connections", str(80 + i * 37 % 11 * 20),
             "--timeout", str(timeout_ms), "--chatty", "75",
             "--interval", str(2000 + i * 31 % 24 * 320),
             "--duration", "1000", "--seed", str(i)],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
        time.sleep(timeout_ms / 24000)
    return loads


def take_pictures(directory):
    timeout_ms = 40000
    with serving("--timeout", str(timeout_ms)) as server:
        browser = start_browser()
        loads = []
        try:
            page = Page(browser)
            page.emulate()
            page.open(server.url)
            loads = start_loads(server, timeout_ms)
            time.sleep(timeout_ms / 900)
            for theme, name in zip(THEMES, ["live.png", "live-dark.png"]):
                page.emulate(theme=theme, height=page.run(
                    "document.documentElement.scrollHeight"))
                before = page.hand()
                page.until(lambda: page.hand() != before)
                picture = str(directory / name)
                browser.save_screenshot(picture)
                subprocess.run(["pngquant", "--force", "--output", picture,
                                picture], check=True)
        finally:
            for load in loads:
                load.kill()
                load.wait()
            browser.quit()


# ---- The cost --------------------------------------------------------------

def cpu_s(process):
    """User and system time so far."""
    fields = pathlib.Path(f"/proc/{process.pid}/stat").read_text().split()
    return (int(fields[13]) + int(fields[14])) / os.sysconf("SC_CLK_TCK")


def watch(server, viewers, duration_s):
    """Reads what that many viewers are sent, for that long."""
    selector = selectors.DefaultSelector()
    for _ in range(viewers):
        selector.register(server.view(), selectors.EVENT_READ)
    end = time.monotonic() + duration_s
    while (left := end - time.monotonic()) > 0:
        for key, _ in selector.select(left):
            key.fileobj.recv(1 << 20)
    for key in list(selector.get_map().values()):
        key.fileobj.close()


def measure_cost():
    """Rounds with no, one and a hundred viewers by turns: what else goes on
    on the machine meets all of them."""
    counts, rounds, seconds = [0, 1, 100], 5, 10
    for connections in (0, 8000):
        used = {count: [] for count in counts}
        with serving("--timeout", "60000") as server:
            load = connections and subprocess.Popen(
                [servers.build / "load/idle-load",
                 "--port", str(server.port),
                 "--connections", str(connections), "--timeout", "60000",
                 "--chatty", "100", "--duration", "1000"],
                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            watch(server, 0, 5)
            for _ in range(rounds):
                for count in counts:
                    before = cpu_s(server.process)
                    watch(server, count, seconds)
                    used[count].append(cpu_s(server.process) - before)
            if load:
                load.kill()
                load.wait()
        for count in counts:
            share = statistics.median(used[count]) * 100 / seconds
            print(f"{connections} connections, {count} viewers: "
                  f"{share:.1f} % of a CPU")


def main():
    if len(sys.argv) < 2 or not servers.find_build(sys.argv[1]):
        sys.exit(__doc__)
    if sys.argv[2:3] == ["--pictures"] and len(sys.argv) == 4:
        take_pictures(pathlib.Path(sys.argv[3]))
    elif sys.argv[2:] == ["--cost"]:
        measure_cost()
    else:
        unittest.main(argv=[sys.argv[0], *sys.argv[2:]], defaultTest="Live")


if __name__ == "__main__":
    main()
