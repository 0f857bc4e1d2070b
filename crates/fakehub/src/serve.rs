//! Answers of the hub and of the other host.
use crate::faults::Faults;
use crate::http::{Head, decode, empty, head};
use crate::{Content, Repo, Request, State, lock};
use rustls::{ServerConnection, StreamOwned};
use serde_json::json;
use std::io::{self, BufReader, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

/// Answers until the connection ends.
pub fn connection(stream: TcpStream, state: &Arc<State>, cdn: bool) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let port = stream.peer_addr()?.port();
    match &state.tls {
        None => requests(BufReader::new(Plain(stream)), state, cdn, port),
        Some(config) => {
            let tls = ServerConnection::new(config.clone()).map_err(io::Error::other)?;
            requests(BufReader::new(StreamOwned::new(tls, stream)), state, cdn, port)
        }
    }
}

/// A stream of which both directions are used at once.
struct Plain(TcpStream);

impl Read for Plain {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        self.0.read(bytes)
    }
}

impl Write for Plain {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }
    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

fn requests<S: Read + Write>(
    mut stream: BufReader<S>,
    state: &State,
    cdn: bool,
    port: u16,
) -> io::Result<()> {
    while let Some(request) = Head::read(&mut stream as &mut BufReader<S>)? {
        answer(stream.get_mut(), state, cdn, port, &request)?;
        stream.get_mut().flush()?;
    }
    Ok(())
}

fn answer(
    stream: &mut impl Write,
    state: &State,
    cdn: bool,
    port: u16,
    request: &Head,
) -> io::Result<()> {
    let path = request.target.split('?').next().unwrap_or_default().to_owned();
    let range = request.header("range").and_then(range);
    let header = |name| request.header(name).map(str::to_owned);
    let mut logged = Request {
        cdn,
        port,
        path: request.target.clone(),
        range,
        token: header("authorization"),
        if_range: header("if-range"),
        status: 0,
    };
    let mut told = |status: u16| {
        logged.status = status;
        lock(&state.log).push(logged.clone());
    };
    if let Some(to) = lock(&state.faults).redirect.clone() {
        told(302);
        return empty(stream, 302, &[("location", to)]);
    }
    if path == "/api/models" {
        return search(stream, state, &request.target, &mut told);
    }
    if let Some(rest) = path.strip_prefix("/api/models/") {
        return listing(stream, state, rest, &mut told);
    }
    let Some((name, file)) = path.trim_start_matches('/').split_once("/resolve/") else {
        told(404);
        return empty(stream, 404, &[]);
    };
    let refusal = Faults::refuses(&mut lock(&state.faults).files).filter(|_| !cdn);
    if let Some(refusal) = refusal {
        told(refusal.status);
        return refuse(stream, &refusal);
    }
    let file = decode(file.split_once('/').unwrap_or_default().1);
    let found = lock(&state.repos).get(name).and_then(|repo| repo.files.get(&file).cloned());
    let Some(content) = found else {
        told(404);
        return empty(stream, 404, &[("x-error-code", "EntryNotFound".into())]);
    };
    if lock(&state.faults).cdn && !cdn {
        told(302);
        return elsewhere(stream, state, &path, &content);
    }
    send(stream, state, request, &content, range, &mut told)
}

/// Sends to the other host, saying what is there.
fn elsewhere(
    stream: &mut impl Write,
    state: &State,
    path: &str,
    content: &Content,
) -> io::Result<()> {
    let scheme = if state.tls.is_some() { "https" } else { "http" };
    let port = lock(&state.cdn).map_or(0, |addr| addr.port());
    let location = format!("{scheme}://localhost:{port}{path}?signed=secret-of-the-url");
    let linked = [
        ("location", location),
        ("x-linked-size", content.size().to_string()),
        ("x-linked-etag", format!("\"{}\"", content.digest())),
    ];
    empty(stream, 302, &linked)
}

fn refuse(stream: &mut impl Write, refusal: &crate::Refusal) -> io::Result<()> {
    let mut headers = vec![("x-error-code", refusal.code.to_owned())];
    headers.extend(refusal.wait.map(|wait| ("retry-after", wait.as_secs().to_string())));
    empty(stream, refusal.status, &headers)
}

/// `bytes=1-2` to 1 and 3.
fn range(text: &str) -> Option<(u64, u64)> {
    let (from, last) = text.strip_prefix("bytes=")?.split_once('-')?;
    Some((from.parse().ok()?, last.parse::<u64>().ok()? + 1))
}

fn listing(
    stream: &mut impl Write,
    state: &State,
    rest: &str,
    told: &mut impl FnMut(u16),
) -> io::Result<()> {
    let (name, revision) = rest.split_once("/revision/").unwrap_or((rest, "main"));
    let mut faults = lock(&state.faults);
    if let Some(refusal) = Faults::refuses(&mut faults.listing) {
        told(refusal.status);
        return refuse(stream, &refusal);
    }
    if let Some((_, new)) = faults.renamed.iter().find(|(old, _)| old == name) {
        told(307);
        return empty(
            stream,
            307,
            &[("location", format!("/api/models/{new}/revision/{revision}?blobs=true"))],
        );
    }
    let (raw, more, bare) = (faults.raw.clone(), faults.more, faults.bare);
    drop(faults);
    let Some(repo) = lock(&state.repos).get(name).cloned() else {
        told(401);
        return empty(stream, 401, &[("x-error-code", "RepoNotFound".into())]);
    };
    if revision != "main" && revision != repo.commit {
        told(404);
        return empty(stream, 404, &[("x-error-code", "RevisionNotFound".into())]);
    }
    told(200);
    let text = raw.unwrap_or_else(|| siblings(name, &repo, more, bare));
    let headers =
        [("content-length", text.len().to_string()), ("content-type", "application/json".into())];
    head(stream, 200, &headers)?;
    stream.write_all(text.as_bytes())
}

/// Repositories by a word of their names.
fn search(
    stream: &mut impl Write,
    state: &State,
    target: &str,
    told: &mut impl FnMut(u16),
) -> io::Result<()> {
    if let Some(refusal) = Faults::refuses(&mut lock(&state.faults).listing) {
        told(refusal.status);
        return refuse(stream, &refusal);
    }
    let fields = target.split_once('?').map_or("", |(_, fields)| fields);
    let words = fields.split('&').find_map(|field| field.strip_prefix("search="));
    let words = decode(words.unwrap_or_default()).to_lowercase();
    let raw = lock(&state.faults).raw.clone();
    let text = raw.unwrap_or_else(|| {
        let repos = lock(&state.repos);
        let found = repos.keys().filter(|name| name.to_lowercase().contains(&words));
        let all = found.map(|name| json!({"id": name, "downloads": 1234, "gated": false}));
        json!(all.collect::<Vec<_>>()).to_string()
    });
    told(200);
    let headers =
        [("content-length", text.len().to_string()), ("content-type", "application/json".into())];
    head(stream, 200, &headers)?;
    stream.write_all(text.as_bytes())
}

fn siblings(name: &str, repo: &Repo, more: usize, bare: bool) -> String {
    let mut files: Vec<_> = repo
        .files
        .iter()
        .map(|(path, content)| match content {
            _ if bare => json!({"rfilename": path}),
            c if c.large => json!({
                "rfilename": path, "size": c.size(), "blobId": "ab".repeat(20),
                "lfs": {"sha256": c.digest(), "size": c.size(), "pointerSize": 134},
            }),
            c => json!({"rfilename": path, "size": c.size(), "blobId": c.digest()}),
        })
        .collect();
    files.extend((0..more).map(|n| json!({"rfilename": format!("more/{n}.txt"), "size": 1})));
    json!({"id": name, "sha": repo.commit, "gated": false, "cardData": {"license": "mit"}, "siblings": files}).to_string()
}

fn send(
    stream: &mut impl Write,
    state: &State,
    request: &Head,
    content: &Content,
    range: Option<(u64, u64)>,
    told: &mut impl FnMut(u16),
) -> io::Result<()> {
    let mut faults = lock(&state.faults);
    let changed = faults.changed();
    let content = if changed { &Content::noise(content.size(), 99) } else { content };
    let digest = if changed { "changed".to_owned() } else { content.digest() };
    let etag = format!("\"{}{digest}\"", if faults.cdn { "cdn-" } else { "" });
    let same = request.header("if-range").is_none_or(|known| known == etag);
    let span = range.filter(|_| same && !faults.whole);
    let (from, to) = span.unwrap_or((0, content.size()));
    let to = to.min(content.size());
    if from >= to && content.size() > 0 {
        told(416);
        return empty(stream, 416, &[("content-range", format!("bytes */{}", content.size()))]);
    }
    let flip = Faults::happens(&mut faults.flip, from, to);
    let stall = Faults::happens(&mut faults.stall, from, to);
    let end = Faults::happens(&mut faults.end, from, to);
    let rate = faults.rate;
    drop(faults);
    let mut headers = vec![("content-length", (to - from).to_string()), ("etag", etag)];
    if span.is_some() {
        headers.push(("content-range", format!("bytes {from}-{}/{}", to - 1, content.size())));
    }
    let status = if span.is_some() { 206 } else { 200 };
    told(status);
    head(stream, status, &headers)?;
    if request.method == "HEAD" {
        return Ok(());
    }
    let wrong = Wrong { flip, stall, end, rate };
    body(stream, content, from, to, &wrong)
}

/// What goes wrong with one answer.
struct Wrong {
    flip: Option<u64>,
    stall: Option<u64>,
    end: Option<u64>,
    rate: Option<u64>,
}

fn body(
    stream: &mut impl Write,
    content: &Content,
    from: u64,
    to: u64,
    wrong: &Wrong,
) -> io::Result<()> {
    let &Wrong { flip, stall, end, rate } = wrong;
    let mut at = from;
    while at < to {
        let stop = [stall, end].into_iter().flatten().find(|stop| *stop >= at);
        let step = rate.map_or(to, |rate| at + (rate / 100).max(1));
        let slice = content.slice(at, step.min(stop.unwrap_or(to)).min(to));
        match flip.filter(|flip| (at..at + slice.len() as u64).contains(flip)) {
            None => stream.write_all(slice)?,
            Some(flip) => {
                let mut slice = slice.to_vec();
                slice[(flip - at) as usize] ^= 1;
                stream.write_all(&slice)?;
            }
        }
        at += slice.len() as u64;
        if rate.is_some() {
            stream.flush()?;
            std::thread::sleep(Duration::from_millis(10));
        }
        if Some(at) == stall {
            stream.flush()?;
            std::thread::sleep(Duration::from_secs(60));
        }
        if Some(at) == end {
            stream.flush()?;
            return Err(io::ErrorKind::ConnectionAborted.into());
        }
    }
    Ok(())
}
