//! Just enough HTTP/1.1: heads of requests in, heads of answers out.
use std::io::{self, BufRead, Write};

/// A request's first line and headers.
pub struct Head {
    pub method: String,
    pub target: String,
    headers: Vec<(String, String)>,
}

impl Head {
    /// The next request of a connection; none if it ended.
    pub fn read(stream: &mut impl BufRead) -> io::Result<Option<Head>> {
        let mut line = String::new();
        if stream.read_line(&mut line)? == 0 {
            return Ok(None);
        }
        let mut words = line.split_whitespace().map(str::to_owned);
        let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        let mut headers = Vec::new();
        loop {
            line.clear();
            stream.read_line(&mut line)?;
            let Some((name, value)) = line.trim_end().split_once(':') else { break };
            headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
        }
        Ok(Some(Head { method, target, headers }))
    }
    /// A header, by its name in small letters.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

/// Writes an answer's head.
pub fn head(stream: &mut impl Write, status: u16, headers: &[(&str, String)]) -> io::Result<()> {
    let mut text = format!("HTTP/1.1 {status} Of the test\r\n");
    for (name, value) in headers {
        text += &format!("{name}: {value}\r\n");
    }
    stream.write_all((text + "\r\n").as_bytes())
}

/// Writes an answer without content.
pub fn empty(stream: &mut impl Write, status: u16, headers: &[(&str, String)]) -> io::Result<()> {
    let mut all = vec![("content-length", "0".to_owned())];
    all.extend_from_slice(headers);
    head(stream, status, &all)
}

/// The text of a URL's part.
pub fn decode(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let [first, more @ ..] = rest {
        let digits = more.get(..2).and_then(|two| std::str::from_utf8(two).ok());
        match digits.filter(|_| *first == b'%').and_then(|two| u8::from_str_radix(two, 16).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = &more[2..];
            }
            None => {
                bytes.push(*first);
                rest = more;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
