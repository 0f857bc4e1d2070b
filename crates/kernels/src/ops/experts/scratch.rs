//! What experts write on the way, and choices in the order of their experts.
use super::Choices;
use crate::act::{Act, ActSlot};
use crate::mat::{Lent, Mat, Slot};
use crate::ops::chain::Phases;
use crate::ops::gated::Columns;
use crate::ops::{Ctx, GatedScratch};
use crate::team::Worker;
use std::ops::Range;

/// What experts write on the way, sized once.
pub struct ExpertsScratch {
    /// All choices in the order of their experts, rows of one in order.
    visits: Vec<Visit>,
    /// Where each expert's visits begin, and where the last one's end.
    starts: Vec<usize>,
    /// `[rows, top_k]`: each row's visits, in their order.
    place: Vec<u32>,
    /// The experts that are visited.
    now: Vec<u32>,
    /// Where among these each turn begins, and where the last one ends.
    turns: Vec<usize>,
    /// Visits that there is room for at a time.
    room: usize,
    /// What they read.
    input: Act,
    products: GatedScratch,
    hidden: Act,
    /// What they give.
    output: Mat,
}

/// A row at an expert.
#[derive(Clone, Copy, Default)]
pub(super) struct Visit {
    pub row: u32,
    pub expert: u32,
    pub weight: f32,
}

/// Turns that so many visits take at most, of experts none of which has more than there is room for:
/// of two turns in a row, the first and the second's first expert did not fit.
fn turns(visits: usize, room: usize) -> usize {
    if visits <= room { 1 } else { 2 * visits / room.max(1) + 1 }
}

impl ExpertsScratch {
    /// For batches of up to `rows` rows of `d_model`, each choosing `top_k` of `experts` experts of
    /// width `d_ff`, on `threads` threads.
    pub fn new(
        rows: usize,
        [experts, top_k]: [usize; 2],
        [d_model, d_ff]: [usize; 2],
        threads: usize,
    ) -> ExpertsScratch {
        // Experts come in turns of two visits a row: as many rows as keep their tiles full.
        let room = if rows == 0 { 0 } else { (rows * top_k.min(2)).max(top_k) };
        ExpertsScratch {
            visits: vec![Visit::default(); rows * top_k],
            starts: vec![0; experts + 1],
            place: vec![0; rows * top_k],
            now: vec![0; experts],
            turns: vec![0; turns(rows * top_k, room) + 1],
            room,
            input: Act::new(room, d_model),
            products: GatedScratch::new(rows, threads),
            hidden: Act::new(room, d_ff),
            output: Mat::new(room, d_model),
        }
    }
    /// Bytes held.
    pub fn bytes(&self) -> usize {
        let places = size_of_val(&self.place[..]) + size_of_val(&self.now[..]);
        let starts = size_of_val(&self.starts[..]) + size_of_val(&self.turns[..]);
        let lists = size_of_val(&self.visits[..]) + starts + places;
        let floats = self.products.bytes() + self.output.bytes();
        lists + self.input.bytes() + self.hidden.bytes() + floats
    }
    /// Lends all of it for a batch's choices among `experts` experts.
    ///
    /// # Panics
    /// If they are too many, or it is for other experts.
    pub(super) fn lend<'a>(
        &'a mut self,
        ctx: &Ctx,
        choices: Choices<'a>,
        experts: usize,
        [input, hidden]: [bool; 2],
    ) -> Parts<'a> {
        let (rows, all) = (choices.rows(), choices.rows() * choices.top_k());
        assert!(all > 0 || rows == 0, "rows that choose nothing");
        assert!(all <= self.visits.len(), "the scratch is too small");
        assert_eq!(experts, self.now.len(), "the scratch is for other experts");
        let slots = all.min(self.room);
        Parts {
            sort: Sort {
                choices,
                room: self.room,
                visits: Lent::new(&mut self.visits),
                starts: Lent::new(&mut self.starts),
                place: Lent::new(&mut self.place),
                now: Lent::new(&mut self.now),
                turns: Lent::new(&mut self.turns),
            },
            input: self.input.lend(ctx, slots, input),
            products: self.products.lend(ctx, rows),
            hidden: self.hidden.lend(ctx, slots, hidden),
            output: self.output.lend(slots),
        }
    }
    /// Experts that the last batch's rows visited, and how many did.
    pub fn visited(&self) -> impl Iterator<Item = (usize, usize)> {
        let counts = self.starts.windows(2).map(|s| s[1] - s[0]);
        counts.enumerate().filter(|(_, count)| *count > 0)
    }
}

/// The scratch, lent to the tasks of one mixture.
pub(super) struct Parts<'a> {
    pub sort: Sort<'a>,
    /// What the experts of a turn read.
    pub input: ActSlot<'a>,
    pub products: Columns<'a>,
    pub hidden: ActSlot<'a>,
    /// What they give.
    pub output: Slot<'a>,
}

/// Brings choices in the order of their experts.
#[derive(Clone, Copy)]
pub(super) struct Sort<'a> {
    choices: Choices<'a>,
    room: usize,
    visits: Lent<'a, Visit>,
    starts: Lent<'a, usize>,
    place: Lent<'a, u32>,
    now: Lent<'a, u32>,
    turns: Lent<'a, usize>,
}

/// The experts of a turn.
pub(super) struct Turn<'a> {
    /// Their numbers.
    pub now: &'a [u32],
    /// Where all experts' visits begin, and where the last one's end.
    starts: &'a [usize],
}

impl Turn<'_> {
    /// The visits of all of them.
    pub fn slots(&self) -> Range<usize> {
        match self.now {
            [] => 0..0,
            [first, .., last] => self.starts[*first as usize]..self.starts[*last as usize + 1],
            [one] => self.visits(*one),
        }
    }
    /// An expert's.
    pub fn visits(&self, expert: u32) -> Range<usize> {
        self.starts[expert as usize]..self.starts[expert as usize + 1]
    }
    /// The same among the turn's.
    pub fn rows(&self, expert: u32) -> Range<usize> {
        let (own, from) = (self.visits(expert), self.slots().start);
        own.start - from..own.end - from
    }
}

impl<'a> Sort<'a> {
    /// Turns at most.
    pub fn turns(&self) -> usize {
        turns(self.choices.rows() * self.choices.top_k(), self.room)
    }
    /// Choices to a row.
    pub fn top_k(&self) -> usize {
        self.choices.top_k()
    }
    /// The experts of turn `i`, none after the last.
    ///
    /// # Safety
    /// The choices are sorted.
    pub unsafe fn turn(&self, i: usize) -> Turn<'a> {
        // SAFETY: nobody writes them after that.
        unsafe {
            let (starts, at) = (self.starts.seen(0, self.starts.len), self.turns.seen(i, 2));
            Turn { now: self.now.seen(at[0], at[1] - at[0]), starts }
        }
    }
    /// Visits `at`.
    ///
    /// # Safety
    /// As of [`Sort::turn`].
    pub unsafe fn visits(&self, at: Range<usize>) -> &'a [Visit] {
        // SAFETY: passed on.
        unsafe { self.visits.seen(at.start, at.len()) }
    }
    /// Row `i`'s visits.
    ///
    /// # Safety
    /// As of [`Sort::turn`].
    pub unsafe fn places(&self, i: usize) -> &'a [u32] {
        // SAFETY: passed on.
        unsafe { self.place.seen(i * self.top_k(), self.top_k()) }
    }

    /// # Safety
    /// The choices are made, and nobody else touches any of it.
    unsafe fn sort(&self) {
        // SAFETY: passed on.
        let (choices, visits, starts, place, now, turns) = unsafe {
            let all = self.choices.seen();
            let (visits, place) = (self.visits.part(0, all.len()), self.place.part(0, all.len()));
            let (starts, now) =
                (self.starts.part(0, self.starts.len), self.now.part(0, self.now.len));
            (all, visits, starts, place, now, self.turns.part(0, self.turns() + 1))
        };
        // Of choices that are none, nobody visits anyone.
        turns.fill(0);
        let (experts, top_k) = (now.len(), self.top_k());
        starts.fill(0);
        for choice in choices {
            starts[choice.expert as usize + 1] += 1;
        }
        let most = starts.iter().max().copied().unwrap_or(0);
        assert!(most <= self.choices.rows(), "a row chose an expert twice");
        for e in 0..experts {
            starts[e + 1] += starts[e];
        }
        for (i, choice) in choices.iter().enumerate() {
            // An expert's start moves on with its visits, and ends up where the next one's was.
            let at = &mut starts[choice.expert as usize];
            let row = (i / top_k) as u32;
            visits[*at] = Visit { row, expert: choice.expert, weight: choice.weight };
            place[i] = *at as u32;
            *at += 1;
        }
        starts.copy_within(0..experts, 1);
        starts[0] = 0;
        place.chunks_exact_mut(top_k.max(1)).for_each(|row| row.sort_unstable());
        self.take(starts, now, turns);
    }

    /// Cuts the experts that are visited into turns.
    fn take(&self, starts: &[usize], now: &mut [u32], turns: &mut [usize]) {
        let (mut count, mut turn, mut from) = (0, 0, 0);
        for e in (0..now.len()).filter(|e| starts[e + 1] > starts[*e]) {
            if starts[e + 1] - from > self.room {
                (turn, from) = (turn + 1, starts[e]);
                turns[turn] = count;
            }
            now[count] = e as u32;
            count += 1;
        }
        turns[turn + 1..].fill(count);
    }
}

// SAFETY: one task writes everything.
unsafe impl Phases for Sort<'_> {
    fn few(&self, _: usize) -> bool {
        self.choices.rows() * self.top_k() < FEW
    }
    unsafe fn phase(&self, _: &Ctx, worker: &Worker<'_>, _: usize) {
        // SAFETY: passed on.
        worker.phase(1, |_| unsafe { self.sort() });
    }
}

/// Choices that are soon sorted.
const FEW: usize = 256;
