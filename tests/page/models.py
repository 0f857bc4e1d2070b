"""The tab of models, on a hub of this machine that has tiny ones: searched, fetched, loaded, asked."""
import os
import re
import shutil
import subprocess
import urllib.error
import urllib.request
from contextlib import contextmanager

from driver import Page, Program

MARKUP = "<img src=x onerror=alert(1)>"
# What a browser's console says of answers that refuse.
REFUSED = r"Failed to load resource: the server responded with a status of"


class Rig:
    """A hub's repositories, and servers that know it."""

    def __init__(self, folder, programs):
        self.folder, self.programs = folder, programs
        model, repos = os.path.join(folder, "model"), os.path.join(folder, "repos")
        subprocess.run([self.program("examples/tiny_model"), model], check=True)
        tiny = os.path.join(repos, "tiny", "chat-GGUF")
        os.makedirs(tiny)
        for quant in ("q8_0", "q4_0"):
            path = os.path.join(tiny, f"chat-{quant}.gguf")
            subprocess.run([self.program("rinfer"), "bundle", model, "--to", "gguf", "--quant", quant, "-o", path], check=True,
                           stderr=subprocess.DEVNULL)
            # So that fetching takes a while.
            with open(path, "ab") as file:
                file.write(bytes(3_000_000))
        evil = os.path.join(repos, "evil", "names-GGUF")
        os.makedirs(evil)
        for name in (f"{MARKUP}.gguf", f"{MARKUP}-Q4_0.gguf"):
            shutil.copy(os.path.join(tiny, "chat-q4_0.gguf"), os.path.join(evil, name))
        self.repos = repos
        self.count = 0

    def program(self, name):
        return os.path.join(self.programs, name)

    @contextmanager
    def serving(self, *args, **env):
        """A server without a model and what it fetched, and the hub: its page's address, and the hub's program."""
        self.count += 1
        cache = os.path.join(self.folder, f"cache-{self.count}")
        with Program(self.program("examples/hub"), self.repos) as hub:
            env = {"HF_ENDPOINT": hub.line(), "RINFER_MODELS": cache, "HF_HUB_CACHE": os.path.join(self.folder, "none"), **env}
            with Program(self.program("rinfer"), "serve", "--web", "--addr", "127.0.0.1:0", *args, **env) as server:
                yield server.page(), hub


def starts_without_a_model(browser, rig, _):
    with rig.serving() as (url, _hub):
        p = Page(browser, url)
        p.page.get_by_role("heading", name="There is no model yet").wait_for()
        p.button("Get a model").click()
        p.page.get_by_text("There is no model here yet.").wait_for()
        p.page.get_by_role("heading", name="To begin with").wait_for()
        assert p.button("Get demo:tiny").is_visible()
        p.close()
        ask = urllib.request.Request(f"{url}/v1/chat/completions", b'{"messages": []}', {"Content-Type": "application/json"})
        try:
            urllib.request.urlopen(ask)
            raise AssertionError("it answered")
        except urllib.error.HTTPError as error:
            text = error.read().decode()
            assert error.code == 404 and "no model here" in text and "Models" in text, text


def find(p, words="tiny"):
    p.page.get_by_role("tab", name="Models").click()
    p.page.fill("#words", words)
    p.page.keyboard.press("Enter")


def share(p):
    """How far the first fetch is."""
    return p.page.locator("#pulls progress").first.evaluate("n => n.value")


def fetches_loads_and_asks(browser, rig, _):
    with rig.serving() as (url, hub):
        p = Page(browser, url)
        find(p)
        p.button("Show models of tiny/chat-GGUF").click()
        row = p.page.locator(".line", has=p.button("Get hf:tiny/chat-GGUF:Q4_0"))
        row.get_by_text("fits", exact=True).wait_for()
        assert "3.1 MB" in row.inner_text(), row.inner_text()
        hub.tell("rate 600000")
        p.button("Get hf:tiny/chat-GGUF:Q4_0").click()
        p.until("(n => n && n.value > 0.1 && n.value < 1)(document.querySelector('#pulls progress'))")
        told = p.page.locator("#pulls .card").inner_text()
        assert re.search(r"chat-q4_0\.gguf · \d+ % · [\d.]+ (k|M)B of 3\.1 MB", told), told
        # Whoever comes back finds it going on.
        before = share(p)
        p.page.reload()
        p.page.wait_for_selector("#talk > *")
        p.page.get_by_role("tab", name="Models").click()
        p.until(f"(n => n && n.value >= {before})(document.querySelector('#pulls progress'))")
        p.button("Chat with tiny/chat-GGUF:Q4_0").wait_for()
        assert p.page.locator("#pulls .card").count() == 0
        card = p.page.locator("#here .card")
        card.get_by_text("It fits.").wait_for()
        plan = card.inner_text()
        for part in ("weights", "for 4 answers at once, 2,048 tokens together", "working memory", "of memory"):
            assert part in plan, plan
        p.button("Load tiny/chat-GGUF:Q4_0").click()
        p.button("Unload tiny/chat-GGUF:Q4_0").wait_for()
        assert "Loaded, with 512 tokens of context." in card.inner_text()
        p.button("Unload tiny/chat-GGUF:Q4_0").click()
        p.button("Load tiny/chat-GGUF:Q4_0").wait_for()
        # Somebody else has it loaded.
        body = b'{"model": "tiny/chat-GGUF:Q4_0", "max_tokens": 1, "messages": [{"role": "user", "content": "Hi"}]}'
        urllib.request.urlopen(urllib.request.Request(f"{url}/v1/chat/completions", body, {"Content-Type": "application/json"})).read()
        p.button("Unload tiny/chat-GGUF:Q4_0").wait_for()
        p.button("Chat with tiny/chat-GGUF:Q4_0").click()
        p.page.click("#settings")
        p.page.fill("#set-max_tokens", "8")
        p.page.keyboard.press("Escape")
        p.say("something")
        stats = p.page.locator("article.assistant .tools").inner_text()
        assert re.search(r"\d+ \+ \d tokens", stats), stats
        p.close()
        # It is there for a server that comes later, which serves it when it is asked to.
        with Program(rig.program("rinfer"), "serve", "--web", "--addr", "127.0.0.1:0",
                     RINFER_MODELS=os.path.join(rig.folder, f"cache-{rig.count}"), HF_HUB_CACHE="none", HF_HUB_OFFLINE="1") as server:
            p = Page(browser, server.page())
            p.button("Choose a model").click()
            p.page.locator("#closed").get_by_text("HF_HUB_OFFLINE is set").wait_for()
            assert not p.page.locator("#search").is_visible()
            p.button("Chat with tiny/chat-GGUF:Q4_0").click()
            p.say("something")
            assert "tokens" in p.page.locator("article.assistant .tools").inner_text()
            p.close()


def is_cancelled_and_goes_on(browser, rig, _):
    """By the keyboard alone, on a phone's width."""
    with rig.serving() as (url, hub):
        p = Page(browser, url, viewport={"width": 360, "height": 740})
        hub.tell("rate 300000")
        p.page.keyboard.press("Shift+Tab")
        p.tab_to("Get a model")
        p.page.keyboard.press("Enter")
        p.page.get_by_text("There is no model here yet.").wait_for()
        p.page.focus("#menu")
        for _ in range(10):
            p.page.keyboard.press("Tab")
            if p.page.evaluate("document.activeElement.id") == "words":
                break
        p.page.keyboard.type("tiny/chat-GGUF")
        p.page.keyboard.press("Enter")
        p.button("Get hf:tiny/chat-GGUF:Q8_0").wait_for()
        assert p.fits()
        p.tab_to("Get hf:tiny/chat-GGUF:Q8_0")
        p.page.keyboard.press("Enter")
        assert p.focused() == "Cancel hf:tiny/chat-GGUF:Q8_0"
        p.until("(n => n && n.value > 0.1)(document.querySelector('#pulls progress'))")
        assert p.fits()
        p.page.keyboard.press("Enter")
        p.page.locator("#pulls").get_by_text("Cancelled.").wait_for()
        assert p.focused() == "Resume hf:tiny/chat-GGUF:Q8_0"
        p.page.keyboard.press("Enter")
        p.until("(n => n && !n.hidden && n.value > 0.1)(document.querySelector('#pulls progress'))")
        hub.tell("well")
        p.button("Chat with tiny/chat-GGUF:Q8_0").wait_for()
        p.until("document.activeElement.getAttribute('aria-label') === 'Chat with tiny/chat-GGUF:Q8_0'")
        assert p.fits()
        p.page.keyboard.press("Enter")
        p.page.keyboard.type("Hello")
        p.page.keyboard.press("Enter")
        p.done()
        assert p.page.locator("article.assistant").count() == 1
        p.close()


def finds_what_was_not_finished(browser, rig, _):
    """A server that comes after one that was killed."""
    with rig.serving() as (url, hub):
        p = Page(browser, url)
        hub.tell("rate 300000")
        find(p, "tiny/chat-GGUF")
        p.button("Get hf:tiny/chat-GGUF:Q8_0").click()
        p.until("(n => n && n.value > 0.2)(document.querySelector('#pulls progress'))")
        p.page.close()
    with rig.serving(RINFER_MODELS=os.path.join(rig.folder, f"cache-{rig.count}")) as (url, hub):
        hub.tell("rate 300000")
        p = Page(browser, url)
        p.page.get_by_role("tab", name="Models").click()
        p.page.locator("#unfinished").get_by_text("came before the server ended").wait_for()
        p.button("Show models of tiny/chat-GGUF, unfinished").click()
        p.button("Get hf:tiny/chat-GGUF:Q8_0").click()
        # It begins where the other ended.
        p.until("(n => n && n.value > 0)(document.querySelector('#pulls progress'))")
        assert share(p) > 0.2 and p.page.locator("#unfinished .card").count() == 0
        hub.tell("well")
        p.button("Chat with tiny/chat-GGUF:Q8_0").wait_for()
        p.page.locator("#pulling").wait_for(state="hidden")
        p.close()


def says_what_goes_wrong(browser, rig, _):
    with rig.serving() as (url, hub):
        p = Page(browser, url, allowed=REFUSED)
        find(p, "nobody/nothing")
        p.page.get_by_text(re.compile("nobody.nothing: there is none on .*, or it is private")).wait_for()
        find(p, "nothing at all")
        p.page.get_by_text("Nothing was found for 'nothing at all'.").wait_for()
        hub.tell("refuse 403 GatedRepo")
        find(p, "tiny/chat-GGUF")
        p.button("Get hf:tiny/chat-GGUF:Q4_0").click()
        p.page.locator("#pulls").get_by_text("is gated: accept its licence at").wait_for()
        hub.tell("well")
        p.button("Try again hf:tiny/chat-GGUF:Q4_0").click()
        p.button("Chat with tiny/chat-GGUF:Q4_0").wait_for()
        p.close()


def writes_no_markup_of_the_hubs(browser, rig, _):
    with rig.serving() as (url, _hub):
        p = Page(browser, url, allowed=REFUSED)
        find(p, MARKUP)
        p.page.get_by_text("Nothing was found for").wait_for()
        find(p, "evil/names-GGUF")
        p.page.get_by_text(MARKUP).first.wait_for()
        for act in p.page.locator("#found .line button").all():
            act.click()
        p.until("document.querySelectorAll('#here .card').length + document.querySelectorAll('#pulls .card[data-state=failed]').length >= 2")
        made = p.page.evaluate("[...document.querySelectorAll('main *')].map(n => n.tagName)")
        assert not {"IMG", "SCRIPT", "A", "IFRAME"} & set(made), made
        p.page.reload()
        p.page.wait_for_selector("#talk > *")
        p.close()


def asks_for_administration(browser, rig, _):
    with rig.serving("--api-key", "secret") as (url, _hub):
        p = Page(browser, url, allowed=REFUSED)
        p.page.locator("dialog input").fill("secret")
        p.page.keyboard.press("Enter")
        p.page.get_by_role("heading", name="There is no model yet").wait_for()
        p.page.get_by_role("tab", name="Models").click()
        p.page.get_by_text(re.compile("start the server with --admin")).wait_for()
        assert not p.page.locator("#search").is_visible()
        p.close()
    with rig.serving("--api-key", "secret", "--admin") as (url, _hub):
        p = Page(browser, url, allowed=REFUSED)
        p.page.locator("dialog input").fill("secret")
        p.page.keyboard.press("Enter")
        find(p)
        p.button("Show models of tiny/chat-GGUF").wait_for()
        p.close()


def is_accessible_with_models(browser, rig, axe):
    for scheme in ("light", "dark"):
        with rig.serving() as (url, hub):
            p = Page(browser, url, allowed=REFUSED, bypass_csp=True, color_scheme=scheme)
            assert not (found := p.serious(axe)), found
            find(p)
            p.button("Show models of tiny/chat-GGUF").click()
            p.button("Get hf:tiny/chat-GGUF:Q4_0").wait_for()
            assert not (found := p.serious(axe)), found
            p.button("Get hf:tiny/chat-GGUF:Q4_0").click()
            p.button("Chat with tiny/chat-GGUF:Q4_0").wait_for()
            hub.tell("refuse 403 GatedRepo")
            p.button("Get hf:tiny/chat-GGUF:Q8_0").click()
            p.button("Dismiss hf:tiny/chat-GGUF:Q8_0").wait_for()
            hub.tell("rate 200000")
            p.button("Try again hf:tiny/chat-GGUF:Q8_0").click()
            p.until("(n => n && n.value > 0)(document.querySelector('#pulls progress'))")
            assert not (found := p.serious(axe)), found
            p.close()


CHECKS = (starts_without_a_model, fetches_loads_and_asks, is_cancelled_and_goes_on, finds_what_was_not_finished, says_what_goes_wrong, writes_no_markup_of_the_hubs,
          asks_for_administration, is_accessible_with_models)
