"""Runs the code of docs/recipes.md against a server whose model says what follows "Say: ": recipes.py URL LANGUAGE..."""
import pathlib
import re
import subprocess
import sys

URL, *LANGUAGES = sys.argv[1:]
DOCS = pathlib.Path(__file__).parents[2] / "docs"
CITY = """'Say: {"name": "Oslo", "inhabitants": 700000}'"""


def here(code):
    """The code with this server's address and model, and a question whose answer the type has."""
    code = code.replace("http://127.0.0.1:8080", URL).replace('"A city on a fjord."', CITY)
    code = code.replace('"openai/model"', '"openai/scripted"')
    return re.sub(r'([:=(] ?)"model"', r'\1"scripted"', code)


def run(language, code):
    match language:
        case "python":
            return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        case "js":
            command = ["node", "--input-type=module", "--eval", code]
            return subprocess.run(command, capture_output=True, text=True)
        case "sh":
            code = code.replace("curl ", "curl --silent --show-error --fail-with-body ")
            return subprocess.run(["sh", "-euc", code], capture_output=True, text=True)


count = 0
for title, section in re.findall(r"^## (.*?)\n(.*?)(?=^## |\Z)", (DOCS / "recipes.md").read_text(), re.M | re.S):
    for language, code in re.findall(r"^```(\w+)\n(.*?)^```", section, re.M | re.S):
        if language not in LANGUAGES or (language == "sh" and not code.startswith("curl ")):
            continue
        done = run(language, here(code))
        if done.returncode != 0 or not done.stdout.strip():
            sys.exit(f"{title}: it ends with {done.returncode}\n{done.stdout}\n{done.stderr}")
        count += 1
assert count, f"there is no code in {LANGUAGES}"
print(f"{count} recipes in {', '.join(LANGUAGES)} ran")
