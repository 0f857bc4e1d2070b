// Unmodified JavaScript clients against a server whose model says what follows "Say: ": node check.mjs URL
import assert from "node:assert/strict";
import test from "node:test";
import { createOpenAI } from "@ai-sdk/openai";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import Anthropic from "@anthropic-ai/sdk";
import { generateText, jsonSchema, stepCountIs, streamText, tool } from "ai";
import OpenAI from "openai";

const url = process.env.RINFER_URL;
const model = "scripted";
const call = 'Say: <tool_call>\n{"name": "weather", "arguments": {"city": "Oslo"}}\n</tool_call>';
const parameters = {
  type: "object",
  properties: { city: { type: "string" } },
  required: ["city"],
  additionalProperties: false,
};
const user = (content) => [{ role: "user", content }];

test("openai", async () => {
  const client = new OpenAI({ baseURL: url + "/v1", apiKey: "none" });
  const answer = await client.chat.completions.create({ model, messages: user("Say: Hello") });
  assert.equal(answer.choices[0].message.content, "Hello");
  const tools = [{ type: "function", function: { name: "weather", parameters } }];
  const stream = client.chat.completions.stream({ model, messages: user(call), tools });
  const last = await stream.finalChatCompletion();
  assert.equal(last.choices[0].finish_reason, "tool_calls");
  assert.deepEqual(JSON.parse(last.choices[0].message.tool_calls[0].function.arguments), { city: "Oslo" });
  const response = await client.responses.create({ model, input: "Say: Hello" });
  assert.equal(response.output_text, "Hello");
  // It asks for base64 by itself, and decodes that.
  const [plain, float] = await Promise.all([
    client.embeddings.create({ model: "embeds", input: ["Hello", "Hi"] }),
    client.embeddings.create({ model: "embeds", input: ["Hello", "Hi"], encoding_format: "float" }),
  ]);
  assert.equal(plain.data[1].embedding.length, 40);
  const single = (vector) => vector.map(Math.fround);
  assert.deepEqual(single(plain.data[1].embedding), single(float.data[1].embedding));
  await assert.rejects(client.embeddings.create({ model, input: "Hi" }), OpenAI.BadRequestError);
  await assert.rejects(client.chat.completions.create({ model: "gpt-4", messages: user("Hi") }), OpenAI.NotFoundError);
});

test("anthropic", async () => {
  const client = new Anthropic({ baseURL: url, apiKey: "none" });
  const stream = client.messages.stream({ model, max_tokens: 50, messages: user("Say: Hello") });
  assert.equal((await stream.finalMessage()).content[0].text, "Hello");
});

for (const [name, provider] of [
  ["chat completions", createOpenAICompatible({ name: "rinfer", baseURL: url + "/v1" })(model)],
  ["responses", createOpenAI({ baseURL: url + "/v1", apiKey: "none" })(model)],
]) {
  test("ai, by " + name, async () => {
    const { text } = await generateText({ model: provider, prompt: "Say: Hello" });
    assert.equal(text, "Hello");
    let streamed = "";
    for await (const piece of streamText({ model: provider, prompt: "Say: Hello" }).textStream) streamed += piece;
    assert.equal(streamed, "Hello");
    const weather = tool({ inputSchema: jsonSchema(parameters), execute: async ({ city }) => `Rain in ${city}.` });
    const loop = await generateText({ model: provider, prompt: call, tools: { weather }, stopWhen: stepCountIs(3) });
    assert.equal(loop.text, "The tool says: Rain in Oslo.");
  });
}
