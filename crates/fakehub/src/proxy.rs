//! A proxy that opens tunnels (`CONNECT`), to names that only it knows.
use crate::http::{Head, empty, head};
use crate::lock;
use std::io::{self, BufReader};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

/// A running proxy.
pub struct Proxy {
    addr: SocketAddr,
    tunnels: Arc<Mutex<Vec<String>>>,
}

impl Proxy {
    /// Every tunnel leads to `to`, whatever it is called; only for whoever sends this `Proxy-Authorization`, if one is
    /// given.
    pub fn start(to: SocketAddr, authorization: Option<&'static str>) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let addr = listener.local_addr().expect("an address");
        let tunnels = Arc::new(Mutex::new(Vec::new()));
        let log = tunnels.clone();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let log = log.clone();
                thread::spawn(move || _ = tunnel(stream, to, authorization, &log));
            }
        });
        Proxy { addr, tunnels }
    }
    /// Its address.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }
    /// What tunnels were asked for.
    pub fn tunnels(&self) -> Vec<String> {
        lock(&self.tunnels).clone()
    }
}

fn tunnel(
    stream: TcpStream,
    to: SocketAddr,
    authorization: Option<&str>,
    log: &Mutex<Vec<String>>,
) -> io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut stream = stream;
    let Some(request) = Head::read(&mut reader)? else { return Ok(()) };
    if request.method != "CONNECT" {
        return empty(&mut stream, 405, &[]);
    }
    if authorization.is_some() && request.header("proxy-authorization") != authorization {
        return empty(&mut stream, 407, &[]);
    }
    lock(log).push(request.target.clone());
    let mut there = TcpStream::connect(to)?;
    head(&mut stream, 200, &[])?;
    let (mut back, mut forth) = (there.try_clone()?, stream.try_clone()?);
    thread::spawn(move || {
        let copied = io::copy(&mut back, &mut forth);
        copied.and_then(|_| forth.shutdown(Shutdown::Write))
    });
    io::copy(&mut reader, &mut there)?;
    there.shutdown(Shutdown::Write)
}
