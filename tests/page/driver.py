"""Programs that tests start, and pages that fail on errors, alerts, and requests to anybody else."""
import os
import re
import subprocess
import time


class Program:
    """One that ends with its input, or when it is told to."""

    def __init__(self, *args, **env):
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(args, stdin=pipe, stdout=pipe, stderr=pipe, text=True, env={**os.environ, **env})

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.communicate()

    def line(self):
        return self.process.stdout.readline().strip()

    def tell(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        assert self.line() == line

    def page(self):
        """Where a server says that its page is."""
        said = ""
        for line in self.process.stderr:
            said += line
            if found := re.search(r"a page at (http://[^\s;]+)", line):
                return found[1]
        raise AssertionError(f"it ended: {said}")


class Page:
    """A page in a context of its own. `allowed` are what its console may say."""

    def __init__(self, browser, url, allowed=None, **how):
        self.context = browser.new_context(**how)
        self.context.grant_permissions(["clipboard-read", "clipboard-write"])
        self.page = self.context.new_page()
        self.wrong = []
        usual = lambda text: allowed and re.search(allowed, text)
        self.page.on("console", lambda m: m.type in ("error", "warning") and not usual(m.text) and self.wrong.append(m.text))
        self.page.on("pageerror", lambda e: self.wrong.append(str(e)))
        self.page.on("dialog", lambda d: (self.wrong.append(f"a dialog: {d.message}"), d.dismiss()))
        self.page.on("request", lambda r: r.url.startswith((url, "data:", "blob:")) or self.wrong.append(f"asked {r.url}"))
        self.page.goto(url)
        self.page.wait_for_selector("#talk > *, dialog")

    def button(self, name):
        return self.page.get_by_role("button", name=name, exact=True)

    def say(self, text):
        self.page.fill("#text", f"Say: {text}")
        self.page.keyboard.press("Enter")
        self.done()

    def done(self):
        self.page.wait_for_selector("#send:visible")

    def last(self):
        return self.page.locator("article.assistant .text").last

    def until(self, true):
        """Until this is true in the page, whose policy lets no other way of waiting in."""
        end = time.monotonic() + 30
        while not self.page.evaluate(true):
            assert time.monotonic() < end, true
            self.page.wait_for_timeout(20)

    def fits(self):
        """Whether nothing is wider than the window."""
        return self.page.evaluate("document.scrollingElement.scrollTop === 0 && document.documentElement.scrollWidth <= innerWidth && [...document.querySelectorAll('main *')]"
                                  ".filter(n => n.offsetParent).every(n => n.getBoundingClientRect().right <= innerWidth + 1 || n.closest('pre, table'))")

    def tab_to(self, name):
        """By the keyboard alone, to what is called so."""
        for _ in range(80):
            self.page.keyboard.press("Tab")
            if self.focused() == name:
                return
        raise AssertionError(f"no way to '{name}'")

    def focused(self):
        return self.page.evaluate("document.activeElement.getAttribute('aria-label') || document.activeElement.textContent")

    def serious(self, axe):
        """What axe-core finds that is serious."""
        self.page.evaluate(axe)
        found = self.page.evaluate("axe.run().then(r => r.violations)")
        return [(f["id"], [n["html"][:120] for n in f["nodes"]][:3]) for f in found if f["impact"] in ("serious", "critical")]

    def close(self):
        assert not self.wrong, self.wrong
        self.context.close()
