"""The page of `rinfer serve --web` in a real browser: check.py PROGRAMS CHROMIUM AXE

Conversations are had with a model that says what it is told to, and models come from a hub of this machine (models.py).
"""
import json
import os
import re
import sys
import tempfile

import models
from driver import Page, Program
from playwright.sync_api import sync_playwright

PROGRAMS, CHROMIUM, AXE = sys.argv[1:4]

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


def chats(browser, url, axe):
    p = Page(browser, url)
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
    p.page.locator("dialog").get_by_role("button", name="Delete", exact=True).click()
    assert p.page.locator("#list li").count() == 0
    p.page.set_input_files("#file", path)
    p.page.get_by_role("button", name="My talk", exact=True).wait_for()
    p.close()


def stops(browser, url, axe):
    p = Page(browser, url)
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


def holds_to_a_schema(browser, url, axe):
    p = Page(browser, url)
    p.page.click("#settings")
    p.page.fill("#schema", '{"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"], "additionalProperties": false}')
    p.page.keyboard.press("Escape")
    assert p.page.locator("#settings").inner_text() == "Settings (1)"
    p.say('{"a": 5}')
    assert p.last().locator("pre").inner_text() == '{"a": 5}'
    p.page.reload()
    assert p.last().locator("pre").inner_text() == '{"a": 5}'
    p.page.click("#settings")
    p.page.fill("#schema", "{")
    p.page.keyboard.press("Tab")
    p.page.fill("#text", "Say: no")
    p.page.click("#send")
    assert "no JSON" in p.page.locator("#note").inner_text()
    p.close()


def writes_no_markup(browser, url, axe):
    p = Page(browser, url)
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


def is_for_keys_and_phones(browser, url, axe):
    p = Page(browser, url, viewport={"width": 360, "height": 740}, color_scheme="dark")
    p.say("a long line: " + "verylong" * 60 + "\n\n```\n" + "code " * 80 + "\n```")
    assert p.page.evaluate("document.documentElement.scrollWidth") <= 360
    p.page.click("#menu")
    p.page.get_by_role("tab", name="Models").click()
    p.page.get_by_role("heading", name="scripted").wait_for()
    # What lies over the page goes when it is left, by hand or by key.
    p.page.click("#menu")
    assert p.focused() == "New chat"
    p.page.keyboard.press("Escape")
    assert p.focused() == "Conversations"
    p.page.locator("#new").wait_for(state="hidden")
    p.page.click("#menu")
    p.page.mouse.click(350, 400)
    p.page.locator("#new").wait_for(state="hidden")
    assert p.page.evaluate("document.documentElement.scrollWidth") <= 360
    p.close()
    # Without a mouse: from the field to the conversation, a new one by its key, and back.
    p = Page(browser, url)
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


def folds_thoughts(browser, url, axe):
    p = Page(browser, url)
    p.page.click("#settings")
    p.page.select_option("#set-think", "on")
    p.page.keyboard.press("Escape")
    p.say("first *this*</think>then that")
    thoughts = p.page.locator("details.thoughts")
    assert not thoughts.get_attribute("open") and p.last().inner_text().strip() == "then that"
    thoughts.get_by_text("Thoughts").click()
    assert thoughts.locator("em").inner_text() == "this"
    p.close()


def asks_as_the_panel_says(browser, url, axe):
    p = Page(browser, url)
    sent = []
    p.page.on("request", lambda r: r.url.endswith("/chat/completions") and sent.append(r.post_data_json))
    p.say("once")
    assert not {"temperature", "top_p", "stop", "response_format"} & set(sent[-1]), sent[-1]
    p.page.click("#settings")
    # What the model has is shown, and what is set is sent.
    assert p.page.get_attribute("#set-temperature", "placeholder") == "0"
    p.page.fill("#set-system", "Be brief")
    p.page.fill("#set-temperature", "0.5")
    p.page.fill("#set-max_tokens", "3")
    p.page.fill("#set-stop", "x\n\ny")
    p.page.keyboard.press("Escape")
    p.say("abcdef")
    assert sent[-1]["messages"][0] == {"role": "system", "content": "Be brief"}
    assert (sent[-1]["temperature"], sent[-1]["max_tokens"], sent[-1]["stop"]) == (0.5, 3, ["x", "y"])
    assert p.last().inner_text().strip() == "abc"
    stats = p.page.locator("article.assistant .tools").last.inner_text()
    assert re.search(r"\d+ \+ 3 tokens · [\d.]+ tokens/s · cut at the most tokens", stats), stats
    # It stays when the page is loaded anew, until it is reset.
    p.page.reload()
    p.page.click("#settings")
    assert p.page.input_value("#set-temperature") == "0.5"
    p.page.click("#panel >> text=Reset")
    p.page.keyboard.press("Escape")
    p.say("twice")
    assert "temperature" not in sent[-1] and sent[-1]["messages"][0]["role"] == "user"
    p.close()


def branches(browser, url, axe):
    p = Page(browser, url)
    p.say("one")
    p.say("two")
    first = p.page.locator("article.user").first
    first.get_by_role("button", name="Copy", exact=True).click()
    assert p.page.evaluate("navigator.clipboard.readText()") == "Say: one"
    first.get_by_role("button", name="Edit", exact=True).click()
    p.page.locator("article textarea").fill("Say: other")
    p.page.locator("article").get_by_role("button", name="Send", exact=True).click()
    p.done()
    texts = lambda: [text.strip() for text in p.page.locator("article.assistant .text").all_inner_texts()]
    assert texts() == ["other"]
    # The other branch is whole, and a message that is written on goes on there.
    first.get_by_role("button", name="Earlier version").click()
    assert texts() == ["one", "two"]
    p.say("three")
    first.get_by_role("button", name="Later version").click()
    assert texts() == ["other"]
    first.get_by_role("button", name="Edit", exact=True).click()
    p.page.keyboard.press("Escape")
    assert texts() == ["other"]
    first.get_by_role("button", name="Earlier version").click()
    assert texts() == ["one", "two", "three"]
    p.close()


def attaches_images_to_models_that_see(browser, url, axe):
    pixel = bytes.fromhex("47494638396101000100800000000000ffffff21f90401000000002c00000000010001000002024401003b")
    p = Page(browser, url, allowed="Failed to load resource: the server responded with a status of 400")
    assert not p.page.locator("#attach").is_visible()
    # No model says so yet: the server's word is changed on its way.
    def seeing(route):
        about = route.fetch().json()
        about["models"][0]["sees"] = True
        route.fulfill(json=about)
    p.page.route("**/ui/models", seeing)
    p.page.reload()
    p.page.locator("#attach").wait_for()
    give = lambda name, kind, data: p.page.set_input_files("#picture", {"name": name, "mimeType": kind, "buffer": data})
    give("large.png", "image/png", bytes(3_000_000))
    p.page.get_by_text("large.png has 3.0 MB").wait_for()
    give("a.txt", "text/plain", b"x")
    p.page.get_by_text("a.txt is no image").wait_for()
    assert p.page.locator("#images img").count() == 0
    give("a.gif", "image/gif", pixel)
    give("b.gif", "image/gif", pixel)
    p.page.locator("#images img").nth(1).wait_for()
    p.button("Leave out image 2").click()
    sent = []
    p.page.on("request", lambda r: r.url.endswith("/chat/completions") and sent.append(r.post_data_json))
    p.say("seen")
    text, image = sent[-1]["messages"][0]["content"]
    assert text["text"] == "Say: seen" and image["image_url"]["url"].startswith("data:image/gif;base64,R0lGOD")
    # The server says what is true.
    assert "the model can't see" in p.page.locator("article.assistant .bad").inner_text()
    p.close()


def takes_no_file_for_a_conversation(browser, url, axe):
    p = Page(browser, url)
    message = {"id": "m", "parent": None, "role": "user", "content": "Hi", "made": 1}
    talk = {"id": "t", "title": "T", "created": 1, "updated": 1, "head": "m", "messages": {"m": message}}
    def give(change):
        made = json.loads(json.dumps(talk))
        change(made)
        text = json.dumps({"format": 1, "conversations": [made]})
        p.page.evaluate("document.getElementById('note').textContent = ''")
        p.page.set_input_files("#file", {"name": "talks.json", "mimeType": "application/json", "buffer": text.encode()})
        p.until("document.getElementById('note').textContent")
        return p.page.locator("#note").inner_text()
    for change in (
        lambda t: t.update(head="constructor"),
        lambda t: t["messages"]["m"].update(parent="constructor"),
        lambda t: t["messages"]["m"].update(parent="m"),
        lambda t: t["messages"]["m"].update(role="system"),
        lambda t: t["messages"]["m"].update(content={"a": 1}),
        lambda t: t["messages"]["m"].update(images=["http://evil.example/seen.png"]),
        lambda t: t["messages"]["m"].update(thoughts=["x"]),
        lambda t: t["messages"].update(m=None),
        lambda t: t.update(title=None),
        lambda t: t.pop("messages"),
    ):
        assert "was not imported" in give(change)
    assert p.page.locator("#list li").count() == 0
    assert "1 conversation was imported" in give(lambda t: t.update(title="<b>T</b>"))
    # The same once more lies beside it.
    give(lambda t: None)
    assert p.page.locator("#list li").count() == 2
    p.button("<b>T</b>").click()
    assert p.page.locator("article.user .text").inner_text() == "Hi"
    p.close()


def stays_quick(browser, url, axe):
    """Texts that are deep or unfinished are drawn in no time."""
    p = Page(browser, url)
    for text in (">" * 3000 + " x", "- " * 3000 + "x", "*_" * 3000, "[" * 3000, "`" * 3000 + "x", "** a " * 2000, "![](" * 1500,
                 "__a " * 1500, "|" * 3000 + "\n|-|\n", "<" * 3000, "~~" * 2000 + "x", "1. " * 2000 + "x"):
        took = p.page.evaluate("text => { const node = el('div'); const start = performance.now(); markdown(node, text); "
                               "document.body.append(node); node.offsetHeight; node.remove(); return performance.now() - start; }", text)
        assert took < 1500, (text[:20], took)
    p.close()


def chats_with_what_writes(browser, url, axe):
    p = Page(browser, url)
    p.page.click("#tab-models")
    p.page.get_by_text("It makes vectors of texts, for /v1/embeddings.").wait_for()
    p.page.get_by_text("It scores pairs of texts, for /v1/rerank.").wait_for()
    assert p.page.locator("#model option").all_inner_texts() == ["scripted", "other/model"]
    assert p.button("Chat with scripted").is_visible() and not p.button("Chat with embeds").is_visible()
    p.close()


def obeys_keys(browser, url, axe):
    p = Page(browser, url)
    p.page.fill("#text", "Say: " + "word " * 1200)
    p.page.keyboard.press("Enter")
    p.last().get_by_text("word word").wait_for()
    p.page.keyboard.press("Escape")
    p.done()
    assert "stopped" in p.page.locator("article.assistant .tools").inner_text()
    p.page.focus("#tab-chat")
    p.page.keyboard.press("ArrowRight")
    assert p.page.locator("#view-models").is_visible() and p.focused() == "Models"
    p.page.keyboard.press("ArrowLeft")
    assert p.page.locator("#view-chat").is_visible() and p.focused() == "Chat"
    p.page.keyboard.press("/")
    assert p.page.evaluate("document.activeElement.id") == "text"
    p.page.keyboard.type("a")
    p.page.keyboard.press("Shift+Enter")
    p.page.keyboard.type("b/")
    assert p.page.input_value("#text") == "a\nb/"
    p.page.click("#settings")
    p.page.keyboard.press("Escape")
    assert not p.page.locator("#panel").is_visible() and p.focused() == "Settings"
    p.close()


def is_accessible(browser, url, axe):
    for scheme in ("light", "dark"):
        p = Page(browser, url, bypass_csp=True, color_scheme=scheme)
        p.say("# A\n\ntext `code` [link](https://example.com)\n\n```js\nlet a = 1; // b\n```")
        p.page.click("#settings")
        for view in ("chat", "models"):
            p.page.click(f"#tab-{view}")
            assert not (found := p.serious(axe)), found
        p.close()


CHECKS = (chats, branches, stops, obeys_keys, chats_with_what_writes, asks_as_the_panel_says, holds_to_a_schema, folds_thoughts, attaches_images_to_models_that_see,
          takes_no_file_for_a_conversation, writes_no_markup, stays_quick, is_for_keys_and_phones, is_accessible)


def main():
    with open(AXE) as file:
        axe = file.read()
    with sync_playwright() as playwright, tempfile.TemporaryDirectory() as folder:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        with Program(os.path.join(PROGRAMS, "examples/scripted")) as scripted:
            url = scripted.line()
            for check in CHECKS:
                check(browser, url, axe)
                told(check)
        rig = models.Rig(folder, PROGRAMS)
        for check in models.CHECKS:
            check(browser, rig, axe)
            told(check)
        browser.close()


def told(check):
    print(f"the page {check.__name__.replace('_', ' ')}", flush=True)


if __name__ == "__main__":
    main()
