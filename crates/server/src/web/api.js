// The server: this page's own origin, and nothing else.
const api = {
  key: sessionStorage.getItem("rinfer.key"),

  async fetch(path, options = {}) {
    const headers = { ...options.headers };
    if (options.body) headers["Content-Type"] = "application/json";
    if (this.key) headers.Authorization = `Bearer ${this.key}`;
    const response = await fetch(path, { ...options, headers });
    if (response.status === 401) {
      const key = await prompted("This server asks for an API key", "", "Go on");
      if (key) {
        this.key = key.trim();
        sessionStorage.setItem("rinfer.key", this.key);
        return this.fetch(path, options);
      }
    }
    if (!response.ok) throw new Error(await reason(response));
    return response;
  },
  async get(path) {
    return (await this.fetch(path)).json();
  },
  async post(path, body, signal) {
    return (await this.fetch(path, { method: "POST", body: JSON.stringify(body), signal })).json();
  },
  /** The objects of a stream of events. */
  async *stream(path, body, signal) {
    const response = await this.fetch(path, { method: "POST", body: JSON.stringify(body), signal });
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    let held = "";
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      held += value;
      const events = held.split("\n\n");
      held = events.pop();
      for (const event of events) {
        const data = event.split("\n").filter((line) => line.startsWith("data:")).map((line) => line.slice(5).trimStart()).join("\n");
        if (!data || data === "[DONE]") continue;
        const object = JSON.parse(data);
        if (object.error) throw new Error(object.error.message || "the server failed");
        yield object;
      }
    }
  },
};

async function reason(response) {
  try {
    return (await response.json()).error.message;
  } catch {
    return `the server said ${response.status}`;
  }
}
