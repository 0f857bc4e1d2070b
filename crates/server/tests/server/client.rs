//! A client of HTTP, as small as it can be, that can also leave in the middle.
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// A response as it is read.
pub struct Response {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    body: BufReader<TcpStream>,
}

/// Sends a request, and reads the response's head.
pub fn send(addr: SocketAddr, head: &str, body: &[u8]) -> Response {
    let mut stream = TcpStream::connect(addr).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    stream.write_all(head.as_bytes()).unwrap();
    // A server that has refused may have closed already.
    let _ = stream.write_all(body);
    read_head(stream)
}

fn read_head(stream: TcpStream) -> Response {
    let mut body = BufReader::new(stream);
    let mut line = String::new();
    body.read_line(&mut line).unwrap();
    let status = line.split(' ').nth(1).unwrap_or_else(|| panic!("{line:?}")).parse().unwrap();
    let mut headers = Vec::new();
    loop {
        let mut line = String::new();
        body.read_line(&mut line).unwrap();
        let Some((name, value)) = line.trim_end().split_once(": ") else { break };
        headers.push((name.to_lowercase(), value.to_owned()));
    }
    Response { status, headers, body }
}

/// Posts an object.
pub fn post(addr: SocketAddr, path: &str, body: &Value) -> Response {
    post_with(addr, path, "", &body.to_string())
}

/// Posts a text, with further lines of headers.
pub fn post_with(addr: SocketAddr, path: &str, headers: &str, body: &str) -> Response {
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n{headers}\
         Content-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    send(addr, &head, body.as_bytes())
}

pub fn get(addr: SocketAddr, path: &str) -> Response {
    send(addr, &format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"), b"")
}

impl Response {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(n, _)| n == name).map(|(_, value)| value.as_str())
    }
    /// The rest of the body.
    pub fn text(mut self) -> String {
        let mut bytes = Vec::new();
        if self.header("transfer-encoding") == Some("chunked") {
            while let Some(chunk) = self.chunk() {
                bytes.extend(chunk);
            }
        } else {
            self.body.read_to_end(&mut bytes).unwrap();
        }
        String::from_utf8(bytes).unwrap()
    }
    pub fn json(self) -> Value {
        let text = self.text();
        serde_json::from_str(&text).unwrap_or_else(|e| panic!("{e}: {text}"))
    }
    /// The next chunk of a stream; none at its end.
    pub fn chunk(&mut self) -> Option<Vec<u8>> {
        let mut line = String::new();
        self.body.read_line(&mut line).unwrap();
        let length = usize::from_str_radix(line.trim(), 16).unwrap_or_else(|_| panic!("{line:?}"));
        let mut chunk = vec![0; length + 2];
        self.body.read_exact(&mut chunk).unwrap();
        chunk.truncate(length);
        (length > 0).then_some(chunk)
    }
    /// All events of a stream: their names and data.
    pub fn events(self) -> Vec<(String, String)> {
        assert_eq!(self.status, 200);
        assert!(self.header("content-type").unwrap().starts_with("text/event-stream"));
        let text = self.text();
        let event = |event: &str| {
            let line =
                |name| event.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
            (line("event: ").to_owned(), line("data: ").to_owned())
        };
        text.split_terminator("\n\n").filter(|e| !e.starts_with(':')).map(event).collect()
    }
    /// The data of all events but `[DONE]`, which must come last.
    pub fn chunks(self) -> Vec<Value> {
        let mut events = self.events();
        assert_eq!(events.pop().unwrap().1, "[DONE]");
        events.iter().map(|(_, data)| serde_json::from_str(data).unwrap()).collect()
    }
}
