"""Unmodified agents against a server whose model says what follows "Say: ": check.py URL PROGRAMS

Each is asked for one call of a tool, runs it, and tells what it returned: a loop in each dialect.
"""
import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

PROGRAMS, URL = Path(sys.argv.pop()).resolve(), sys.argv.pop()
SECRET = "the secret is 4711"


class Agents(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.home = Path(folder.name) / "home"
        self.work = Path(folder.name) / "work"
        self.home.mkdir()
        self.work.mkdir()
        self.note = self.work / "note.txt"
        self.note.write_text(SECRET + "\n")

    def events(self, program, *args, tool, **env):
        """What an agent reports, which is asked to call a tool."""
        call = json.dumps({"name": tool[0], "arguments": tool[1]})
        ended = subprocess.run(
            [PROGRAMS / program, *args],
            input=f"Say: <tool_call>\n{call}\n</tool_call>",
            cwd=self.work,
            env={"PATH": os.environ["PATH"], "HOME": str(self.home), **env},
            capture_output=True,
            text=True,
            timeout=300,
        )
        self.assertEqual(ended.returncode, 0, ended.stdout + ended.stderr)
        return [json.loads(line) for line in ended.stdout.splitlines() if line.startswith("{")]

    def told(self, text):
        self.assertIn("The tool says: ", text)
        self.assertIn(SECRET, text)

    def test_chat_completions_with_opencode(self):
        provider = {
            "npm": "@ai-sdk/openai-compatible",
            "options": {"baseURL": URL + "/v1", "apiKey": "none"},
            "models": {"scripted": {"tool_call": True, "limit": {"context": 200000, "output": 4000}}},
        }
        model = "rinfer/scripted"
        config = {"autoupdate": False, "share": "disabled", "model": model, "small_model": model}
        (self.work / "opencode.json").write_text(json.dumps({**config, "provider": {"rinfer": provider}}))
        tool = ("read", {"filePath": str(self.note)})
        events = self.events("opencode", "run", "--pure", "--auto", "--format", "json", tool=tool)
        texts = [event["part"]["text"] for event in events if event["type"] == "text"]
        self.assertEqual(len(texts), 1, events)
        self.told(texts[0])

    def test_responses_with_codex(self):
        (self.home / ".codex").mkdir()
        (self.home / ".codex/config.toml").write_text(f"""
model = "scripted"
model_provider = "rinfer"
check_for_update_on_startup = false
[model_providers.rinfer]
name = "rinfer"
base_url = "{URL}/v1"
wire_api = "responses"
[analytics]
enabled = false
""")
        flags = ["--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox", "--json", "-"]
        tool = ("exec_command", {"cmd": "cat note.txt"})
        items = [event.get("item", {}) for event in self.events("codex", "exec", *flags, tool=tool)]
        texts = [item["text"] for item in items if item.get("type") == "agent_message"]
        self.assertEqual(len(texts), 1, items)
        self.told(texts[0])

    def test_messages_with_claude_code(self):
        events = self.events(
            "claude", "-p", "--output-format", "stream-json", "--verbose", "--allowedTools", "Read",
            tool=("Read", {"file_path": str(self.note)}),
            ANTHROPIC_BASE_URL=URL,
            ANTHROPIC_API_KEY="none",
            ANTHROPIC_MODEL="scripted",
            ANTHROPIC_SMALL_FAST_MODEL="scripted",
            CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC="1",
            DISABLE_AUTOUPDATER="1",
        )
        result = events[-1]
        self.assertEqual((result["type"], result["is_error"], result["num_turns"]), ("result", False, 2), events)
        self.told(result["result"])


if __name__ == "__main__":
    unittest.main()
