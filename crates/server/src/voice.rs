//! How an answer is told: piece by piece as it comes, or whole when it is over. Both are made by one
//! [`Voice`], so that they can't differ.
use crate::generations::Generation;
use crate::refusal::{Kind, Refusal};
use crate::serve::Stop;
use crate::turn::{Answers, End, Piece, Score};
use axum::body::{Body, Bytes};
use axum::http::{HeaderValue, Response, header};
use rinfer_engine::request::Finish;
use rinfer_text::reply::Delta;
use serde_json::Value;
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::time::Duration;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio_stream::StreamExt;
use tokio_stream::wrappers::ReceiverStream;

/// How often a stream says that it is alive while the model has nothing to say.
const IDLE: Duration = Duration::from_secs(15);

/// An event of a stream of server-sent events.
#[derive(Clone, Debug, PartialEq)]
pub struct Frame {
    pub event: Option<&'static str>,
    pub data: String,
}

impl Frame {
    pub fn data(value: &Value) -> Frame {
        Frame { event: None, data: value.to_string() }
    }
    pub fn named(event: &'static str, value: &Value) -> Frame {
        Frame { event: Some(event), data: value.to_string() }
    }
    pub fn bytes(&self) -> Bytes {
        let event = self.event.map(|event| format!("event: {event}\n")).unwrap_or_default();
        format!("{event}data: {}\n\n", self.data).into()
    }
}

/// A dialect's account of the answers to one request. It is told everything in order, and says what
/// of it a stream sends; when all is told, it is the whole response.
pub trait Voice: Send + 'static {
    /// Before anything; the first answer's prompt has so many tokens.
    fn begin(&mut self, prompt: usize) -> Vec<Frame>;
    /// A part of answer `i`; a call that is not closed was cut off.
    fn delta(&mut self, i: usize, delta: Delta) -> Vec<Frame>;
    /// How probable the tokens were that answer `i` says next.
    fn scores(&mut self, i: usize, scores: Vec<Score>) {
        let _ = (i, scores);
    }
    /// Answer `i` is over.
    fn end(&mut self, i: usize, end: End) -> Vec<Frame>;
    /// All are.
    fn finish(&mut self) -> Vec<Frame>;
    /// There will be no more, because of this.
    fn fail(&mut self, refusal: &Refusal) -> Vec<Frame>;
    /// What is sent while nothing happens.
    fn idle(&self) -> Option<Frame> {
        None
    }
    /// The whole response.
    fn whole(self: Box<Self>) -> Value;
}

/// What the server counts of an answer that is over.
pub type Count = Box<dyn Fn(&End) + Send>;

/// Tells answers.
pub struct Telling {
    pub answers: Answers,
    pub voice: Box<dyn Voice>,
    pub stop: Stop,
    pub count: Count,
    /// Texts of calls that broke, by answer, as long as it is not clear what they are.
    pub broken: BTreeMap<usize, String>,
    /// Its place among all that are told.
    pub generation: Generation,
}

impl Telling {
    /// As a response, whole or a stream.
    pub async fn respond(self, stream: bool) -> Result<Response<Body>, Refusal> {
        if stream { Ok(self.stream()) } else { self.whole().await }
    }

    async fn whole(mut self) -> Result<Response<Body>, Refusal> {
        self.voice.begin(self.answers.prompt);
        while let Some((i, piece)) = self.next().await {
            self.piece(i, piece?);
        }
        self.voice.finish();
        let mut response = Response::new(Body::from(self.voice.whole().to_string()));
        let json = HeaderValue::from_static("application/json");
        response.headers_mut().insert(header::CONTENT_TYPE, json);
        Ok(response)
    }

    fn stream(self) -> Response<Body> {
        let (sender, frames) = channel(64);
        tokio::spawn(self.feed(sender));
        events(frames)
    }

    /// Sends the frames, until all are sent or nobody takes them: then the answers end, too.
    async fn feed(mut self, to: Sender<Bytes>) {
        let mut frames = self.voice.begin(self.answers.prompt);
        loop {
            for frame in frames.drain(..) {
                if to.send(frame.bytes()).await.is_err() {
                    return;
                }
            }
            let next = tokio::select! {
                () = to.closed() => return,
                next = tokio::time::timeout(IDLE, self.next()) => next,
            };
            frames = match next {
                Err(_) => {
                    let idle = self.voice.idle().map(|frame| frame.bytes());
                    if to
                        .send(idle.unwrap_or_else(|| Bytes::from_static(b": alive\n\n")))
                        .await
                        .is_err()
                    {
                        return;
                    }
                    continue;
                }
                Ok(Some((i, Ok(piece)))) => self.piece(i, piece),
                Ok(Some((_, Err(refusal)))) => {
                    for frame in self.voice.fail(&refusal) {
                        let _ = to.send(frame.bytes()).await;
                    }
                    return;
                }
                Ok(None) => {
                    for frame in self.voice.finish() {
                        let _ = to.send(frame.bytes()).await;
                    }
                    return;
                }
            };
        }
    }

    /// The next piece. When the server has to end, that is why the answer does.
    async fn next(&mut self) -> Option<(usize, Result<Piece, Refusal>)> {
        tokio::select! {
            biased;
            () = self.stop.forced() => {
                let text = "the server ends: the answer is not complete";
                Some((0, Err(Refusal::new(Kind::Stopping, text))))
            }
            () = self.generation.cancelled() => {
                let text = "the answer was ended by whoever administers the server";
                Some((0, Err(Refusal::new(Kind::Cancelled, text).code("cancelled"))))
            }
            piece = self.answers.next() => match piece {
                Some((i, Ok(Piece::End(end)))) if end.finish == Finish::Cancelled => {
                    Some((i, Err(Refusal::new(Kind::Stopping, "the answer was cancelled"))))
                }
                piece => piece,
            },
        }
    }

    fn piece(&mut self, i: usize, mut piece: Piece) -> Vec<Frame> {
        self.generation.tell();
        let mut broken = self.broken.remove(&i);
        // A call that broke is one that a limit or a stop text cut off, or it was none: then it is text.
        if let Piece::End(end) = &mut piece
            && (end.finish == Finish::Length || end.stop.is_some())
            && broken.take().is_some()
        {
            // Nobody is to make calls of which one is not complete.
            end.calls = 0;
        }
        let mut frames =
            broken.map_or_else(Vec::new, |text| self.voice.delta(i, Delta::Content(text)));
        match piece {
            Piece::Delta(Delta::Broken { text, .. }) => {
                self.broken.insert(i, text);
            }
            Piece::Delta(delta) => frames.extend(self.voice.delta(i, delta)),
            Piece::Scores(scores) => self.voice.scores(i, scores),
            Piece::End(end) => {
                (self.count)(&end);
                frames.extend(self.voice.end(i, end));
            }
        }
        frames
    }
}

/// A stream of events.
pub fn events(frames: Receiver<Bytes>) -> Response<Body> {
    let frames = ReceiverStream::new(frames).map(Ok::<Bytes, Infallible>);
    let mut response = Response::new(Body::from_stream(frames));
    let headers = response.headers_mut();
    headers
        .insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream; charset=utf-8"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    // Proxies that would collect it first are asked not to.
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}
