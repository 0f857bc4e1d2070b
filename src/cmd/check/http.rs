//! A client of HTTP/1.1, without TLS, that can read a response piece by piece and leave in the middle.
use anyhow::{Context, bail, ensure};
use serde_json::Value;
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

/// How long a connection and a silence may take.
const CONNECT: Duration = Duration::from_secs(5);
const SILENCE: Duration = Duration::from_secs(300);
/// A response is not larger.
const MOST: u64 = 64 << 20;

/// Where a server is, and how it is asked.
pub struct Host {
    /// Name and port.
    authority: String,
    /// What all paths begin with.
    base: String,
    key: Option<String>,
}

/// A response as it is read.
pub struct Response {
    pub status: u16,
    headers: Vec<(String, String)>,
    body: BufReader<TcpStream>,
}

impl Host {
    /// Of `http://HOST[:PORT][/PATH]`; a `/v1` at its end is the routes' own.
    pub fn new(url: &str, key: Option<String>) -> Result<Host, String> {
        let Some(rest) = url.strip_prefix("http://") else {
            return Err(format!(
                "'{url}' does not begin with http://, which is all that is spoken here"
            ));
        };
        let (authority, base) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        if authority.is_empty() || authority.contains(|c: char| c == '@' || !c.is_ascii_graphic()) {
            return Err(format!("'{url}' names no host: give http://HOST:PORT"));
        }
        if base.contains(|c: char| !c.is_ascii_graphic()) {
            return Err(format!("'{url}' has a path that can't be"));
        }
        if key.as_ref().is_some_and(|key| key.contains(|c: char| c.is_control())) {
            return Err("the key has a character that can't be sent".into());
        }
        let base = base.trim_end_matches('/');
        let base = base.strip_suffix("/v1").unwrap_or(base).to_owned();
        Ok(Host { authority: authority.to_owned(), base, key })
    }
    pub fn get(&self, path: &str) -> anyhow::Result<Response> {
        self.send("GET", path, "", None)
    }
    pub fn post(&self, path: &str, body: &Value) -> anyhow::Result<Response> {
        self.send("POST", path, "", Some(&body.to_string()))
    }
    /// Posts a text, with further lines of headers.
    pub fn post_text(&self, path: &str, headers: &str, body: &str) -> anyhow::Result<Response> {
        self.send("POST", path, headers, Some(body))
    }
    fn send(
        &self,
        method: &str,
        path: &str,
        headers: &str,
        body: Option<&str>,
    ) -> anyhow::Result<Response> {
        let mut stream = self.connect()?;
        let Host { authority, base, key } = self;
        let mut head = format!(
            "{method} {base}{path} HTTP/1.1\r\nHost: {authority}\r\nConnection: close\r\n{headers}"
        );
        if let Some(key) = key {
            head += &format!("Authorization: Bearer {key}\r\nx-api-key: {key}\r\n");
        }
        if let Some(body) = body {
            head +=
                &format!("Content-Type: application/json\r\nContent-Length: {}\r\n", body.len());
        }
        stream.write_all(format!("{head}\r\n").as_bytes())?;
        match stream.write_all(body.unwrap_or_default().as_bytes()) {
            // A server that refuses may close before it has read all.
            Err(e) if matches!(e.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset) => {}
            other => other?,
        }
        Response::read(stream)
    }
    fn connect(&self) -> anyhow::Result<TcpStream> {
        let port =
            self.authority.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
        let named = if port { self.authority.clone() } else { format!("{}:80", self.authority) };
        let all = named.to_socket_addrs().with_context(|| format!("{named} is not known"))?;
        let mut last = None;
        for addr in all {
            match TcpStream::connect_timeout(&addr, CONNECT) {
                Ok(stream) => {
                    stream.set_read_timeout(Some(SILENCE))?;
                    stream.set_nodelay(true)?;
                    return Ok(stream);
                }
                Err(error) => last = Some(error),
            }
        }
        let last = last.map_or_else(|| "it has no address".to_owned(), |error| error.to_string());
        bail!("{named} can't be reached: {last}")
    }
}

impl Response {
    fn read(stream: TcpStream) -> anyhow::Result<Response> {
        let mut body = BufReader::new(stream);
        let first = line(&mut body)?;
        let status =
            first.strip_prefix("HTTP/1.").and_then(|rest| rest.split(' ').nth(1)?.parse().ok());
        let status = status.with_context(|| format!("the response begins with {first:?}"))?;
        let mut headers = Vec::new();
        loop {
            let line = line(&mut body)?;
            if line.is_empty() {
                break;
            }
            ensure!(headers.len() < 200, "the response has more than 200 headers");
            if let Some((name, value)) = line.split_once(':') {
                headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
            }
        }
        Ok(Response { status, headers, body })
    }
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(own, _)| own == name).map(|(_, value)| value.as_str())
    }
    fn chunked(&self) -> bool {
        self.header("transfer-encoding")
            .is_some_and(|coding| coding.eq_ignore_ascii_case("chunked"))
    }
    /// The next part of the body; empty at its end.
    pub fn part(&mut self) -> anyhow::Result<Vec<u8>> {
        if !self.chunked() {
            let mut part = vec![0; 1 << 16];
            let read = self.body.read(&mut part)?;
            part.truncate(read);
            return Ok(part);
        }
        let head = line(&mut self.body)?;
        let size = head.split(';').next().unwrap_or_default().trim();
        let size = u64::from_str_radix(size, 16)
            .with_context(|| format!("{head:?} is no size of a chunk"))?;
        ensure!(size <= MOST, "a chunk has {size} bytes");
        let mut part = vec![0; size as usize];
        self.body.read_exact(&mut part)?;
        ensure!(line(&mut self.body)?.is_empty(), "a chunk is longer than it says");
        Ok(part)
    }
    /// The rest of the body.
    pub fn text(mut self) -> anyhow::Result<String> {
        let length: Option<u64> =
            self.header("content-length").and_then(|length| length.parse().ok());
        let mut all = Vec::new();
        match length.filter(|_| !self.chunked()) {
            Some(length) => {
                (&mut self.body).take(length.min(MOST)).read_to_end(&mut all)?;
                ensure!(all.len() as u64 == length, "the body has {} of {length} bytes", all.len());
            }
            None => loop {
                let part = self.part()?;
                if part.is_empty() {
                    break;
                }
                all.extend(part);
                ensure!(all.len() as u64 <= MOST, "the body has more than {MOST} bytes");
            },
        }
        String::from_utf8(all).context("the body is not UTF-8")
    }
    pub fn json(self) -> anyhow::Result<Value> {
        let text = self.text()?;
        serde_json::from_str(&text)
            .with_context(|| format!("the body is no JSON: {}", short(&text)))
    }
    /// The events of a stream: their names and data.
    pub fn events(self) -> anyhow::Result<Vec<(String, String)>> {
        let kind = self.header("content-type").unwrap_or_default().to_owned();
        ensure!(kind.starts_with("text/event-stream"), "the content type of a stream is '{kind}'");
        let text = self.text()?.replace("\r\n", "\n");
        ensure!(text.ends_with("\n\n"), "the stream ends within an event: {}", short(&text));
        let event = |event: &str| {
            let field = |name: &str| {
                let values = event.lines().filter_map(|line| line.strip_prefix(name));
                values
                    .map(|value| value.strip_prefix(' ').unwrap_or(value))
                    .collect::<Vec<_>>()
                    .join("\n")
            };
            (field("event:"), field("data:"))
        };
        let all = text.split("\n\n").map(event);
        Ok(all.filter(|(name, data)| !(name.is_empty() && data.is_empty())).collect())
    }
}

/// A line without its end.
fn line(from: &mut BufReader<TcpStream>) -> anyhow::Result<String> {
    let mut line = Vec::new();
    from.take(1 << 16).read_until(b'\n', &mut line)?;
    ensure!(line.ends_with(b"\n"), "the connection ended in the middle of a response");
    Ok(String::from_utf8_lossy(&line).trim_end_matches(['\r', '\n']).to_owned())
}

/// The beginning of a text, for a message.
pub fn short(text: &str) -> String {
    let text = text.trim().replace('\n', " ");
    match text.char_indices().nth(160) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        let check = |url: &str, expected: Option<(&str, &str)>| {
            let host = Host::new(url, None).ok();
            let found = host.as_ref().map(|host| (&*host.authority, &*host.base));
            assert_eq!(found, expected, "{url}");
        };
        check("http://localhost:8080", Some(("localhost:8080", "")));
        check("http://localhost:8080/v1/", Some(("localhost:8080", "")));
        check("http://[::1]:80/x/v1", Some(("[::1]:80", "/x")));
        check("http://a", Some(("a", "")));
        for wrong in [
            "https://a",
            "a:80",
            "http://",
            "http:///v1",
            "http://a b",
            "http://u@a",
            "http://a/b c",
        ] {
            check(wrong, None);
        }
        assert!(Host::new("http://a", Some("k\r\nX: y".into())).is_err());
    }
}
