"""The page of `rinfer serve --web` in a real browser, on a model that says what it is told to: check.py URL CHROMIUM AXE"""
import json
import os
import sys
import tempfile

from playwright.sync_api import sync_playwright

URL, CHROMIUM, AXE = sys.argv[1:4]

# R11: what a model, or whoever wrote a document that it repeats, would have the page do.
HOSTILE = [
    "<img src=x onerror=alert(1)>",
    "<svg/onload=alert(1)>",
    "<iframe srcdoc='<script>parent.alert(1)</script>'></iframe>",
    "<script>alert(1)</script>",
    "<a href='javascript:alert(1)'>click</a>",
    "[click](javascript:alert(1))",
    "[click](JaVaScRiPt:alert(1))",
    "[click](data:text/html,<script>alert(1)</script>)",
    "![seen](http://evil.example/seen.png)",
    "[![seen](http://evil.example/seen.png)](http://evil.example/)",
    "```html\n<script>alert(1)</script>\n```",
    "`<b onmouseover=alert(1)>`",
    "| <img src=x onerror=alert(1)> | b |\n|---|---|\n| <style>*{display:none}</style> | d |",
    "<math><mtext></form><form><mglyph><style></math><img src onerror=alert(1)>",
    "<form action='http://evil.example'><button>Send</button></form>",
    "<base href='http://evil.example/'><meta http-equiv=refresh content='0;url=http://evil.example'>",
]


class Page:
    """A page that fails on errors, alerts, and requests to anybody else."""

    def __init__(self, browser, **how):
        self.context = browser.new_context(**how)
        self.context.grant_permissions(["clipboard-read", "clipboard-write"])
        self.page = self.context.new_page()
        self.wrong = []
        self.page.on("console", lambda m: m.type in ("error", "warning") and self.wrong.append(m.text))
        self.page.on("pageerror", lambda e: self.wrong.append(str(e)))
        self.page.on("dialog", lambda d: (self.wrong.append(f"a dialog: {d.message}"), d.dismiss()))
        self.page.on("request", lambda r: r.url.startswith((URL, "data:", "blob:")) or self.wrong.append(f"asked {r.url}"))
        self.page.goto(URL)
        self.page.wait_for_selector("#model option", state="attached")

    def say(self, text):
        self.page.fill("#text", f"Say: {text}")
        self.page.keyboard.press("Enter")
        self.done()

    def done(self):
        self.page.wait_for_selector("#send:visible")

    def last(self):
        return self.page.locator("article.assistant .text").last

    def close(self):
        assert not self.wrong, self.wrong
        self.context.close()


def chats(browser):
    p = Page(browser)
    p.say("# Title\n\nSome **bold** and `code`.\n\n- one\n- two\n\n```python\ndef f():\n    return 'x'  # why\n```\n\n| a | b |\n|---|---|\n| 1 | 2 |")
    answer = p.last()
    for part in ("h2", "strong", "ul > li", "table td", ".code pre", ".h-key", ".h-str", ".h-com"):
        assert answer.locator(part).count(), part
    assert "tokens" in p.page.locator("article.assistant .tools").last.inner_text()
    answer.get_by_role("button", name="Copy python").click()
    assert p.page.evaluate("navigator.clipboard.readText()") == "def f():\n    return 'x'  # why"
    # What is shown stays after the page is loaded anew, under its name.
    p.page.reload()
    assert "Some bold and code." in p.last().inner_text()
    p.page.get_by_role("button", name="Regenerate").click()
    p.done()
    assert "2/2" in p.page.locator("article.assistant .tools").inner_text()
    p.page.get_by_role("button", name="Earlier version").click()
    p.page.locator("article.user").get_by_role("button", name="Edit").click()
    p.page.locator("article textarea").fill("Say: anew")
    p.page.keyboard.press("Enter")
    p.done()
    assert p.last().inner_text().strip() == "anew"
    p.page.get_by_role("button", name="Rename").click()
    p.page.locator("dialog input").fill("My talk")
    p.page.locator("dialog").get_by_role("button", name="Save").click()
    assert p.page.get_by_role("button", name="My talk", exact=True).count() == 1
    with p.page.expect_download() as got:
        p.page.click("#export")
    path = os.path.join(tempfile.mkdtemp(), "talks.json")
    got.value.save_as(path)
    with open(path) as file:
        assert json.load(file)["conversations"][0]["title"] == "My talk"
    p.page.get_by_role("button", name="Delete My talk").click()
    p.page.locator("dialog").get_by_role("button", name="Yes").click()
    assert p.page.locator("#list li").count() == 0
    p.page.set_input_files("#file", path)
    p.page.get_by_role("button", name="My talk", exact=True).wait_for()
    p.close()


def stops(browser):
    p = Page(browser)
    p.page.fill("#text", "Say: " + "word " * 1200)
    p.page.keyboard.press("Enter")
    p.last().get_by_text("word word word").wait_for()
    p.page.click("#stop")
    p.done()
    assert len(p.last().inner_text()) < 5900
    assert "stopped" in p.page.locator("article.assistant .tools").inner_text()
    p.say("and on")
    assert p.last().inner_text().strip() == "and on"
    p.close()


def holds_to_a_schema(browser):
    p = Page(browser)
    p.page.click("#settings")
    p.page.fill("#schema", '{"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"], "additionalProperties": false}')
    p.page.keyboard.press("Escape")
    p.say('{"a": 5}')
    assert json.loads(p.last().inner_text()) == {"a": 5}
    p.page.click("#settings")
    p.page.fill("#schema", "{")
    p.page.fill("#set-system", "")
    p.page.fill("#text", "Say: no")
    p.page.click("#send")
    assert "no JSON" in p.page.locator("#note").inner_text()
    p.close()


def writes_no_markup(browser):
    p = Page(browser)
    for text in HOSTILE:
        p.say(text)
        made = p.last().evaluate("n => [...n.querySelectorAll('*')].map(e => e.tagName)")
        for tag in ("IMG", "SVG", "IFRAME", "SCRIPT", "STYLE", "FORM", "BASE", "META", "MATH"):
            assert tag not in made, (text, made)
        links = p.last().evaluate("n => [...n.querySelectorAll('a')].map(a => a.protocol)")
        assert set(links) <= {"http:", "https:", "mailto:"}, (text, links)
    p.page.reload()
    p.page.wait_for_selector("article.assistant")
    p.close()


def is_for_keys_and_phones(browser):
    p = Page(browser, viewport={"width": 360, "height": 740}, color_scheme="dark")
    p.say("a long line: " + "verylong" * 60 + "\n\n```\n" + "code " * 80 + "\n```")
    assert p.page.evaluate("document.documentElement.scrollWidth") <= 360
    p.page.click("#menu")
    p.page.get_by_role("tab", name="Models").click()
    p.page.get_by_role("heading", name="scripted").wait_for()
    assert p.page.evaluate("document.documentElement.scrollWidth") <= 360
    p.close()
    # Without a mouse: from the field to the conversation, a new one by its key, and back.
    p = Page(browser)
    p.page.keyboard.type("Say: typed")
    p.page.keyboard.press("Enter")
    p.done()
    assert p.last().inner_text().strip() == "typed"
    p.page.keyboard.press("Alt+n")
    assert p.page.locator("article").count() == 0
    p.page.keyboard.type("Say: second")
    p.page.keyboard.press("Enter")
    p.done()
    for _ in range(40):
        p.page.keyboard.press("Tab")
        if p.page.evaluate("document.activeElement.textContent") == "Say: typed":
            break
    p.page.keyboard.press("Enter")
    assert p.last().inner_text().strip() == "typed"
    p.close()


def is_accessible(browser):
    with open(AXE) as file:
        axe = file.read()
    for scheme in ("light", "dark"):
        p = Page(browser, bypass_csp=True, color_scheme=scheme)
        p.say("# A\n\ntext `code` [link](https://example.com)\n\n```js\nlet a = 1; // b\n```")
        p.page.click("#settings")
        p.page.evaluate(axe)
        for view in ("chat", "models"):
            p.page.click(f"#tab-{view}")
            found = p.page.evaluate("axe.run().then(r => r.violations)")
            serious = [(f["id"], [n["html"][:120] for n in f["nodes"]][:3]) for f in found if f["impact"] in ("serious", "critical")]
            assert not serious, serious
        p.close()


def main():
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        for check in (chats, stops, holds_to_a_schema, writes_no_markup, is_for_keys_and_phones, is_accessible):
            check(browser)
            print(f"the page {check.__name__.replace('_', ' ')}")
        browser.close()


if __name__ == "__main__":
    main()
