//! Reads a call by its syntax's list of [`Op`]s, as far as the text goes.
use super::object::{Object, Read};
use super::params::{Arguments, Reading};
use super::scan::{Scan, Step};
use super::tape::{Found, Markup, Match, Tape};
use super::{Op, Tools};
use crate::reply::Delta;
use std::sync::Arc;

/// Reads the calls of one answer, one section of text at a time.
#[derive(Clone, Debug)]
pub(crate) struct Machine {
    markup: Arc<Markup>,
    tools: Arc<Tools>,
    frames: Vec<Frame>,
    part: Part,
    /// What was read since the section began, or since its last call was over.
    raw: String,
    call: Option<Call>,
    /// Calls so far.
    count: usize,
    /// Complete calls of the section.
    closed: usize,
}

#[derive(Clone, Debug)]
struct Frame {
    ops: &'static [Op],
    at: usize,
    again: Again,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Again {
    Never,
    Until(&'static str),
    /// In a list, after so many items.
    Item(usize),
}

/// How far the present part is.
#[derive(Clone, Debug)]
enum Part {
    Begins,
    Buffer(String),
    Json(Scan),
    Object(Object),
    Arguments(Arguments),
}

#[derive(Clone, Debug)]
struct Call {
    index: usize,
    name: String,
    /// Whether the arguments are all there.
    whole: bool,
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Run {
    /// More text is needed.
    Waits,
    /// The section is over.
    Done,
    /// It is none; see [`Machine::take_back`].
    Failed,
}

impl Machine {
    pub fn new(markup: Arc<Markup>, tools: Arc<Tools>) -> Machine {
        let (frames, raw) = (Vec::new(), String::new());
        Machine { markup, tools, frames, part: Part::Begins, raw, call: None, count: 0, closed: 0 }
    }
    /// Begins a section. `name` is the tool's, where the section does not say it; `before` is
    /// markup that is read already.
    pub fn begin(&mut self, ops: &'static [Op], name: Option<String>, before: &str) -> Vec<Delta> {
        self.frames = vec![Frame { ops, at: 0, again: Again::Never }];
        self.part = Part::Begins;
        self.raw = before.to_owned();
        self.closed = 0;
        let mut deltas = Vec::new();
        if let Some(name) = name {
            self.open(name, &mut deltas);
        }
        deltas
    }
    /// Calls so far.
    pub fn count(&self) -> usize {
        self.count
    }
    /// Complete calls of the section.
    pub fn closed(&self) -> usize {
        self.closed
    }
    /// Reads on.
    pub fn run(&mut self, tape: &mut Tape, deltas: &mut Vec<Delta>) -> Run {
        while let Some(frame) = self.frames.last() {
            let step = match frame.ops.get(frame.at) {
                Some(op) => self.op(*op, tape, deltas),
                None => self.again(tape),
            };
            if step != Run::Done {
                return step;
            }
        }
        Run::Done
    }
    /// What was read of a section that is none: as text, or as a broken call if one was opened.
    pub fn take_back(&mut self) -> Delta {
        self.frames.clear();
        let text = std::mem::take(&mut self.raw);
        match self.call.take() {
            Some(call) => Delta::Broken { index: call.index, text },
            None => Delta::Content(text),
        }
    }
    /// At the end of an answer that the model ended itself: a call that only lacks what follows
    /// its arguments is complete.
    pub fn close_whole(&mut self, deltas: &mut Vec<Delta>) -> bool {
        let whole = self.call.as_ref().is_some_and(|call| call.whole);
        if whole {
            self.close(deltas);
            self.frames.clear();
        }
        // Between calls, a section that lacks its end has nothing to take back.
        whole || self.raw.trim().is_empty()
    }

    fn op(&mut self, op: Op, tape: &mut Tape, deltas: &mut Vec<Delta>) -> Run {
        let step = match op {
            Op::Text(text) => self.text(text, tape),
            Op::Space(_) if tape.skip_space(&mut self.raw) => Run::Done,
            Op::Space(_) => Run::Waits,
            Op::Name(name) => match self.until(name.until, name.before, tape) {
                Ok(text) => match (name.read)(&text) {
                    Some(name) => {
                        self.open(name.to_owned(), deltas);
                        Run::Done
                    }
                    None => Run::Failed,
                },
                Err(run) => run,
            },
            Op::Json => self.json(tape, deltas),
            Op::Object { name, arguments, known } => {
                self.object(Object::new(name, arguments, known), tape, deltas)
            }
            Op::Keyed => self.object(Object::keyed(), tape, deltas),
            Op::Params(params) => self.params(params, tape, deltas),
            Op::Whole(whole) => match self.until(whole.until, &[], tape) {
                Ok(text) => match (whole.read)(&text, &self.tools) {
                    Some(calls) => {
                        for (name, json) in calls {
                            self.open(name, deltas);
                            self.arguments(json, deltas);
                            self.close(deltas);
                        }
                        Run::Done
                    }
                    None => Run::Failed,
                },
                Err(run) => run,
            },
            Op::End => {
                self.close(deltas);
                Run::Done
            }
            Op::Until(ops, end) => return self.enter(ops, Again::Until(end)),
            Op::List(ops) => match self.text("[", tape) {
                Run::Done => return self.enter(ops, Again::Item(0)),
                other => other,
            },
        };
        if step == Run::Done {
            self.part = Part::Begins;
            self.frames.last_mut().into_iter().for_each(|frame| frame.at += 1);
        }
        step
    }
    /// Goes into a loop, which begins where its end may be: there may be nothing in it.
    fn enter(&mut self, ops: &'static [Op], again: Again) -> Run {
        self.frames.last_mut().into_iter().for_each(|frame| frame.at += 1);
        self.frames.push(Frame { ops, at: ops.len(), again });
        Run::Done
    }
    /// Where a loop's body begins or ends.
    fn again(&mut self, tape: &mut Tape) -> Run {
        let Some(frame) = self.frames.last() else { return Run::Done };
        let (again, body) = (frame.again, !frame.ops.is_empty());
        if again == Again::Never {
            self.frames.pop();
            return Run::Done;
        }
        if !tape.skip_space(&mut self.raw) {
            return Run::Waits;
        }
        let end = if let Again::Until(end) = again { end } else { "]" };
        let next = match (tape.starts(end, &self.markup), again) {
            (Match::Maybe, _) => return Run::Waits,
            (Match::Yes, _) => {
                self.raw.push_str(&tape.take(end.len()));
                self.frames.pop();
                return Run::Done;
            }
            (Match::No, Again::Item(0)) => Again::Item(1),
            (Match::No, Again::Item(n)) => match self.text(",", tape) {
                Run::Done => Again::Item(n + 1),
                other => return other,
            },
            (Match::No, again) => again,
        };
        if let Again::Item(_) = next
            && !tape.skip_space(&mut self.raw)
        {
            // The comma is read: what waits is the item.
            return self.restart(next, Run::Waits);
        }
        if body && !tape.text().is_empty() { self.restart(next, Run::Done) } else { Run::Failed }
    }
    fn restart(&mut self, again: Again, run: Run) -> Run {
        self.frames.last_mut().into_iter().for_each(|frame| (frame.at, frame.again) = (0, again));
        run
    }
    fn text(&mut self, text: &str, tape: &mut Tape) -> Run {
        match tape.starts(text, &self.markup) {
            Match::Yes => {
                self.raw.push_str(&tape.take(text.len()));
                Run::Done
            }
            Match::Maybe => Run::Waits,
            Match::No => Run::Failed,
        }
    }
    /// The text up to `end`, which is taken too, or up to one of `before`; without any it is the
    /// answer's end.
    fn until(&mut self, end: &str, before: &[&str], tape: &mut Tape) -> Result<String, Run> {
        let taken = usize::from(!end.is_empty());
        let tags: Vec<&str> = [end].into_iter().take(taken).chain(before.iter().copied()).collect();
        let found = tape.find(&tags, &self.markup);
        let (Found::At(at, _) | Found::NotBefore(at)) = found;
        let text = tape.take(at);
        self.raw.push_str(&text);
        if let Part::Begins = self.part {
            self.part = Part::Buffer(String::new());
        }
        let Part::Buffer(buffer) = &mut self.part else { return Err(Run::Failed) };
        buffer.push_str(&text);
        match found {
            Found::At(_, which) if which < taken => self.raw.push_str(&tape.take(end.len())),
            Found::At(..) => {}
            Found::NotBefore(_) if tags.is_empty() && tape.is_whole() => {}
            Found::NotBefore(_) => return Err(Run::Waits),
        }
        Ok(std::mem::take(buffer))
    }
    fn json(&mut self, tape: &mut Tape, deltas: &mut Vec<Delta>) -> Run {
        if let Part::Begins = self.part {
            if !tape.skip_space(&mut self.raw) {
                return Run::Waits;
            }
            if !tape.text().starts_with('{') {
                return Run::Failed;
            }
            self.part = Part::Json(Scan::default());
        }
        let Part::Json(scan) = &mut self.part else { return Run::Failed };
        let (read, run) = scan_on(scan, tape.text());
        let json = tape.take(read);
        self.raw.push_str(&json);
        self.arguments(json, deltas);
        if run == Run::Done {
            self.call.iter_mut().for_each(|call| call.whole = true);
        }
        run
    }
    fn object(&mut self, fresh: Object, tape: &mut Tape, deltas: &mut Vec<Delta>) -> Run {
        let mut object = match std::mem::replace(&mut self.part, Part::Begins) {
            Part::Object(object) => object,
            _ => fresh,
        };
        let mut run = Run::Waits;
        let mut read = 0;
        for c in tape.text().chars() {
            let step = object.push(c, &self.tools);
            if step == Read::Wrong {
                run = Run::Failed;
                break;
            }
            read += c.len_utf8();
            if step == Read::Done {
                run = Run::Done;
                break;
            }
        }
        self.raw.push_str(&tape.take(read));
        if self.call.is_none()
            && let Some(name) = object.name()
        {
            self.open(name.to_owned(), deltas);
        }
        if self.call.is_some() {
            self.arguments(object.take_arguments(), deltas);
            let whole = object.has_arguments();
            self.call.iter_mut().for_each(|call| call.whole = whole);
        }
        self.part = Part::Object(object);
        run
    }
    fn params(
        &mut self,
        params: &'static super::Params,
        tape: &mut Tape,
        deltas: &mut Vec<Delta>,
    ) -> Run {
        let mut part = match std::mem::replace(&mut self.part, Part::Begins) {
            Part::Arguments(part) => part,
            _ => Arguments::new(params),
        };
        let name = self.call.as_ref().map_or("", |call| call.name.as_str());
        let mut json = String::new();
        let (markup, tools) = (&*self.markup, &*self.tools);
        let raw = &mut self.raw;
        let run = part.run(&mut Reading { tape, markup, tools, tool: name, raw, json: &mut json });
        self.part = Part::Arguments(part);
        self.arguments(json, deltas);
        run
    }

    fn open(&mut self, name: String, deltas: &mut Vec<Delta>) {
        let index = self.count;
        self.count += 1;
        self.call = Some(Call { index, name: name.clone(), whole: false });
        deltas.push(Delta::Open { index, name });
    }
    fn arguments(&self, json: String, deltas: &mut Vec<Delta>) {
        if let Some(call) = &self.call
            && !json.is_empty()
        {
            deltas.push(Delta::Arguments { index: call.index, json });
        }
    }
    fn close(&mut self, deltas: &mut Vec<Delta>) {
        if let Some(call) = self.call.take() {
            deltas.push(Delta::Close { index: call.index });
            self.raw.clear();
            self.closed += 1;
        }
    }
}

/// How much of the text is the value's, and whether that is all of it.
fn scan_on(scan: &mut Scan, text: &str) -> (usize, Run) {
    let mut read = 0;
    for c in text.chars() {
        match scan.push(c) {
            Step::More => read += c.len_utf8(),
            Step::Done => return (read + c.len_utf8(), Run::Done),
            Step::Before => return (read, Run::Done),
            Step::Wrong => return (read, Run::Failed),
        }
    }
    (read, Run::Waits)
}
