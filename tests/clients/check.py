"""Unmodified Python clients against a server whose model says what follows "Say: ": check.py URL"""
import json
import os
import sys
import unittest
import warnings

# Nothing is fetched, and what clients warn of is theirs.
os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
warnings.simplefilter("ignore")

import anthropic
import instructor
import litellm
import openai
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI, OpenAIEmbeddings
from pydantic import BaseModel

URL = sys.argv.pop()
MODEL = "scripted"
CALL = 'Say: Let me see.<tool_call>\n{"name": "weather", "arguments": {"city": "Oslo"}}\n</tool_call>'
PARAMETERS = {
    "type": "object",
    "properties": {"city": {"type": "string"}},
    "required": ["city"],
    "additionalProperties": False,
}
TOOL = {"type": "function", "function": {"name": "weather", "description": "The weather.", "parameters": PARAMETERS}}


class City(BaseModel):
    name: str
    inhabitants: int


CITY = 'Say: {"name": "Oslo", "inhabitants": 700000}'


def user(text):
    return [{"role": "user", "content": text}]


class OpenAI(unittest.TestCase):
    client = openai.OpenAI(base_url=URL + "/v1", api_key="none")

    def test_chat(self):
        answer = self.client.chat.completions.create(model=MODEL, messages=user("Say: 日本 🦙"), max_tokens=50)
        self.assertEqual(answer.choices[0].message.content, "日本 🦙")
        self.assertEqual(answer.choices[0].finish_reason, "stop")
        self.assertEqual(self.client.models.list().data[0].id, MODEL)
        self.assertEqual(self.client.models.retrieve("other/model").id, "other/model")

    def test_stream(self):
        with self.client.chat.completions.stream(
            model=MODEL, messages=user("Say: Hello"), stream_options={"include_usage": True}
        ) as stream:
            text = "".join(event.delta for event in stream if event.type == "content.delta")
            answer = stream.get_final_completion()
        self.assertEqual((text, answer.choices[0].message.content), ("Hello", "Hello"))
        self.assertEqual(answer.usage.completion_tokens, 5)

    def test_tools(self):
        messages = user(CALL)
        answer = self.client.chat.completions.create(model=MODEL, messages=messages, tools=[TOOL])
        message = answer.choices[0].message
        call = message.tool_calls[0]
        self.assertEqual((call.function.name, json.loads(call.function.arguments)), ("weather", {"city": "Oslo"}))
        messages += [message, {"role": "tool", "tool_call_id": call.id, "content": "Rain."}]
        answer = self.client.chat.completions.create(model=MODEL, messages=messages, tools=[TOOL])
        self.assertEqual(answer.choices[0].message.content, "The tool says: Rain.")
        with self.client.chat.completions.stream(model=MODEL, messages=user(CALL), tools=[TOOL]) as stream:
            streamed = stream.get_final_completion().choices[0]
        self.assertEqual(streamed.finish_reason, "tool_calls")
        self.assertEqual(streamed.message.tool_calls[0].function.arguments, call.function.arguments)

    def test_embeddings(self):
        create = self.client.embeddings.create
        plain = create(model="embeds", input=["Hello", "Hi"])  # it asks for base64 by itself
        single = create(model="embeds", input=["Hello", "Hi"], encoding_format="float")
        for a, b in zip(plain.data, single.data, strict=True):
            self.assertEqual(len(a.embedding), 40)
            for x, y in zip(a.embedding, b.embedding, strict=True):
                self.assertAlmostEqual(x, y, 6)
        self.assertEqual(plain.usage.prompt_tokens, 11)
        self.assertEqual(len(create(model="embeds", input="Hi", dimensions=8).data[0].embedding), 8)
        with self.assertRaises(openai.BadRequestError):
            create(model=MODEL, input="Hi")
        with self.assertRaises(openai.BadRequestError):
            self.client.chat.completions.create(model="embeds", messages=user("Hi"))

    def test_structured(self):
        answer = self.client.chat.completions.parse(model=MODEL, messages=user(CITY), response_format=City)
        self.assertEqual(answer.choices[0].message.parsed, City(name="Oslo", inhabitants=700000))

    def test_responses(self):
        answer = self.client.responses.create(model=MODEL, input="Say: Hello")
        self.assertEqual(answer.output_text, "Hello")
        with self.client.responses.stream(model=MODEL, input="Say: Hello") as stream:
            text = "".join(event.delta for event in stream if event.type == "response.output_text.delta")
            self.assertEqual((text, stream.get_final_response().output_text), ("Hello", "Hello"))
        tools = [{"type": "function", "name": "weather", "parameters": PARAMETERS, "strict": True}]
        first = self.client.responses.create(model=MODEL, input=CALL, tools=tools)
        call = next(item for item in first.output if item.type == "function_call")
        output = [{"type": "function_call_output", "call_id": call.call_id, "output": "Rain."}]
        last = self.client.responses.create(model=MODEL, input=output, previous_response_id=first.id, tools=tools)
        self.assertEqual(last.output_text, "The tool says: Rain.")
        parsed = self.client.responses.parse(model=MODEL, input=CITY, text_format=City)
        self.assertEqual(parsed.output_parsed.name, "Oslo")

    def test_completions(self):
        answer = self.client.completions.create(model=MODEL, prompt="Say: again. Go on:", max_tokens=30)
        self.assertEqual(answer.choices[0].text, "again. ")

    def test_errors(self):
        with self.assertRaises(openai.NotFoundError) as caught:
            self.client.chat.completions.create(model="gpt-4", messages=user("Hi"))
        self.assertEqual(caught.exception.code, "model_not_found")
        with self.assertRaises(openai.BadRequestError) as caught:
            self.client.chat.completions.create(model=MODEL, messages=user("x" * 9000))
        self.assertEqual(caught.exception.code, "context_length_exceeded")
        with self.assertRaises(openai.BadRequestError) as caught:
            self.client.chat.completions.create(model=MODEL, messages=user("Hi"), temperature=-1)
        self.assertEqual(caught.exception.param, "temperature")


class Anthropic(unittest.TestCase):
    client = anthropic.Anthropic(base_url=URL, api_key="none")
    tools = [{"name": "weather", "description": "The weather.", "input_schema": PARAMETERS}]

    def ask(self, messages, **more):
        return self.client.messages.create(model=MODEL, max_tokens=200, messages=messages, **more)

    def test_messages(self):
        answer = self.ask(user("Say: Hello"), system="Be brief.")
        self.assertEqual((answer.content[0].text, answer.stop_reason), ("Hello", "end_turn"))
        with self.client.messages.stream(model=MODEL, max_tokens=200, messages=user("Say: Hello")) as stream:
            self.assertEqual("".join(stream.text_stream), "Hello")
            self.assertEqual(stream.get_final_message().content[0].text, "Hello")
        counted = self.client.messages.count_tokens(model=MODEL, messages=user("Say: Hello"))
        self.assertGreater(counted.input_tokens, 10)
        self.assertEqual(self.client.models.list().data[0].id, MODEL)

    def test_tools(self):
        messages = user(CALL)
        answer = self.ask(messages, tools=self.tools)
        self.assertEqual(answer.stop_reason, "tool_use")
        call = answer.content[1]
        self.assertEqual((call.name, call.input), ("weather", {"city": "Oslo"}))
        result = {"type": "tool_result", "tool_use_id": call.id, "content": "Rain."}
        messages += [{"role": "assistant", "content": answer.content}, {"role": "user", "content": [result]}]
        self.assertEqual(self.ask(messages, tools=self.tools).content[0].text, "The tool says: Rain.")
        with self.client.messages.stream(
            model=MODEL, max_tokens=200, messages=user(CALL), tools=self.tools
        ) as stream:
            self.assertEqual(stream.get_final_message().content[1].input, {"city": "Oslo"})

    def test_errors(self):
        with self.assertRaises(anthropic.NotFoundError):
            self.client.messages.create(model="claude", max_tokens=9, messages=user("Hi"))
        with self.assertRaises(anthropic.BadRequestError):
            self.ask(user("x" * 9000))


class Others(unittest.TestCase):
    def test_embeddings(self):
        answer = litellm.embedding(model="openai/embeds", input=["Hello"], api_base=URL + "/v1", api_key="none")
        found = answer.data[0]["embedding"]
        chain = OpenAIEmbeddings(
            model="embeds", base_url=URL + "/v1", api_key="none", check_embedding_ctx_length=False
        )
        other = chain.embed_documents(["Hi", "Hello"])[1]
        self.assertEqual((len(found), len(other)), (40, 40))
        for x, y in zip(found, other, strict=True):
            self.assertAlmostEqual(x, y, 6)

    def test_litellm(self):
        more = {"model": "openai/" + MODEL, "api_base": URL + "/v1", "api_key": "none"}
        answer = litellm.completion(messages=user("Say: Hello"), **more)
        self.assertEqual(answer.choices[0].message.content, "Hello")
        chunks = list(litellm.completion(messages=user(CALL), tools=[TOOL], stream=True, **more))
        answer = litellm.stream_chunk_builder(chunks)
        call = answer.choices[0].message.tool_calls[0]
        self.assertEqual(json.loads(call.function.arguments), {"city": "Oslo"})
        more = {"model": "anthropic/" + MODEL, "api_base": URL, "api_key": "none"}
        answer = litellm.completion(messages=user("Say: Hello"), max_tokens=50, **more)
        self.assertEqual(answer.choices[0].message.content, "Hello")

    def test_langchain(self):
        @tool
        def weather(city: str) -> str:
            """The weather."""
            return "Rain."

        model = ChatOpenAI(model=MODEL, base_url=URL + "/v1", api_key="none")
        self.assertEqual(model.invoke("Say: Hello").content, "Hello")
        self.assertEqual("".join(chunk.content for chunk in model.stream("Say: Hello")), "Hello")
        call = model.bind_tools([weather]).invoke(CALL).tool_calls[0]
        self.assertEqual((call["name"], call["args"]), ("weather", {"city": "Oslo"}))
        self.assertEqual(model.with_structured_output(City).invoke(CITY).name, "Oslo")

    def test_instructor(self):
        for mode in (instructor.Mode.JSON_SCHEMA, instructor.Mode.TOOLS):
            client = instructor.from_openai(openai.OpenAI(base_url=URL + "/v1", api_key="none"), mode=mode)
            text = CITY
            if mode == instructor.Mode.TOOLS:
                arguments = CITY.removeprefix("Say: ")
                text = 'Say: <tool_call>\n{"name": "City", "arguments": ' + arguments + "}\n</tool_call>"
            city = client.chat.completions.create(model=MODEL, messages=user(text), response_model=City)
            self.assertEqual((city.name, city.inhabitants), ("Oslo", 700000))


if __name__ == "__main__":
    litellm.suppress_debug_info = True
    unittest.main(warnings="ignore")
