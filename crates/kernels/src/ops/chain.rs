//! Operations one after another in one run of the team, whatever they are: each is some phases, and
//! the threads go through all of them together.
//!
//! What a chain holds was checked and lent when it was put there; until it runs, nothing is done.
use super::{Ctx, FEW, LITTLE};
use crate::team::{PHASES, Worker};
use std::marker::PhantomData;
use std::mem::{MaybeUninit, needs_drop};
use std::ops::Range;

/// What an operation does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Norms of the stream, and what joins it through one.
    Norm,
    /// Products with weights.
    Products,
    /// Norms and rotation of heads.
    Heads,
    /// Over the cache.
    Attention,
    /// Activations between products.
    Unit,
    /// Over recurrent states.
    State,
    /// The choice of experts.
    Router,
    /// These.
    Experts,
}

/// Who is told of each operation that has ended. While someone watches, each is a run by itself; the
/// numbers are the same.
pub type Watch<'a> = Option<&'a mut dyn FnMut(Stage)>;

/// An operation as phases, in each of which the threads claim tasks.
///
/// # Safety
/// A phase writes what its operation was lent to write and nothing else, each task apart from the
/// others of its phase. All threads find the same phases and tasks.
pub(super) unsafe trait Phases {
    /// How many there are.
    fn phases(&self) -> usize {
        1
    }
    /// Whether they are one task, or work on fewer elements than `least`.
    fn few(&self, _least: usize) -> bool {
        false
    }
    /// Phase `i`: at most one of `worker`'s.
    ///
    /// # Safety
    /// The tier is usable, all threads are in this phase, and the phases before it are done.
    unsafe fn phase(&self, ctx: &Ctx, worker: &Worker<'_>, i: usize);
}

/// Operations that a chain holds before it runs by itself.
const MOST: usize = 48;
/// Bytes that they may take.
const BYTES: usize = 48 << 10;

/// What a chain's room is aligned to.
const ALIGN: usize = align_of::<Room>();

/// Room for the operations of a chain.
#[repr(align(64))]
pub struct Room([MaybeUninit<u8>; BYTES]);

impl Default for Room {
    fn default() -> Room {
        Room([MaybeUninit::uninit(); BYTES])
    }
}

/// One of a chain's operations, and what each thread asks of it.
#[derive(Clone, Copy)]
struct Link<'a> {
    operation: &'a (dyn Phases + 'a),
    phases: u32,
    few: bool,
    stage: Stage,
}

impl<'a> Link<'a> {
    fn new(stage: Stage, operation: &'a (dyn Phases + 'a)) -> Link<'a> {
        let (phases, few) = (operation.phases() as u32, operation.few(LITTLE));
        Link { operation, phases, few, stage }
    }
}

/// Operations that the team is to do, one after another.
pub struct Chain<'a> {
    ctx: &'a Ctx,
    watched: bool,
    room: *mut u8,
    used: usize,
    links: [MaybeUninit<Link<'a>>; MOST],
    len: usize,
    lent: PhantomData<&'a mut Room>,
}

impl<'a> Chain<'a> {
    /// Of none yet. What of one that is `watched` may be done together is done apart.
    pub fn new(ctx: &'a Ctx, room: &'a mut Room, watched: bool) -> Chain<'a> {
        let (links, room) = ([const { MaybeUninit::uninit() }; MOST], room.0.as_mut_ptr().cast());
        Chain { ctx, watched, room, used: 0, links, len: 0, lent: PhantomData }
    }
    /// Whether it is watched.
    pub(super) fn watched(&self) -> bool {
        self.watched
    }
    /// Who computes.
    pub fn ctx(&self) -> &'a Ctx {
        self.ctx
    }
    /// Adds an operation. (One that is full runs first, unwatched.)
    pub(super) fn push<T: Phases + 'a>(&mut self, stage: Stage, operation: T) {
        const { assert!(!needs_drop::<T>() && size_of::<T>() <= BYTES && align_of::<T>() <= ALIGN) };
        let mut at = self.used.next_multiple_of(align_of::<T>());
        if self.len == MOST || at + size_of::<T>() > BYTES {
            self.run(None);
            at = 0;
        }
        // SAFETY: the room is this chain's, what lies before `at` is others', and it fits after that.
        // A link is forgotten before its operation's place is another's.
        let operation: &'a T = unsafe {
            let to = self.room.add(at).cast::<T>();
            to.write(operation);
            &*to
        };
        self.links[self.len].write(Link::new(stage, operation));
        (self.used, self.len) = (at + size_of::<T>(), self.len + 1);
    }
    /// Does what was added: in one run of the team, or a few if there are very many phases; or by the
    /// caller alone, if that is all too little for more.
    pub fn run(&mut self, watch: Watch<'_>) {
        // SAFETY: so many were written.
        let links = unsafe { self.links[..self.len].assume_init_ref() };
        match watch {
            None => some(self.ctx, links),
            Some(watch) => links.iter().for_each(|link| {
                some(self.ctx, &[*link]);
                watch(link.stage);
            }),
        }
        (self.used, self.len) = (0, 0);
    }
}

/// An operation by itself.
pub(super) fn alone(ctx: &Ctx, operation: impl Phases) {
    some(ctx, &[Link::new(Stage::Unit, &operation)]);
}

fn some(ctx: &Ctx, links: &[Link<'_>]) {
    /// Goes to other threads though what it holds does not.
    struct All<'a>(&'a [Link<'a>]);
    // SAFETY: tasks write apart, and read others' results only after a phase, as implementors
    // promised; all threads have left before the caller goes on.
    unsafe impl Sync for All<'_> {}
    impl All<'_> {
        fn go(&self, ctx: &Ctx, worker: &Worker<'_>, range: Range<usize>) {
            // SAFETY: each thread goes through all phases in order, and tiers are usable.
            unsafe { go(ctx, worker, self.0, range) }
        }
    }
    let all = All(links);
    if links.iter().all(|link| link.operation.few(FEW)) {
        return all.go(ctx, &ctx.team.alone(), 0..usize::MAX);
    }
    let phases: usize = links.iter().map(|link| link.phases as usize).sum();
    for from in (0..phases).step_by(PHASES) {
        ctx.team.run(|worker| all.go(ctx, worker, from..from + PHASES));
    }
}

/// The phases in `range` of all operations; those of several little ones in a row are one.
///
/// # Safety
/// As of [`Phases::phase`], of each.
unsafe fn go(ctx: &Ctx, worker: &Worker<'_>, links: &[Link<'_>], range: Range<usize>) {
    let (mut at, mut rest) = (0, links);
    while let Some(first) = rest.first() {
        let little = rest.iter().take_while(|link| link.few).count();
        let (now, later) = rest.split_at(little.max(1));
        rest = later;
        if little > 1 {
            if range.contains(&at) {
                worker.phase(1, |_| {
                    for link in now {
                        let alone = worker.alone();
                        for i in 0..link.phases as usize {
                            // SAFETY: passed on; the other threads wait.
                            unsafe { link.operation.phase(ctx, &alone, i) };
                        }
                    }
                });
            }
            at += 1;
            continue;
        }
        for i in 0..first.phases as usize {
            if range.contains(&at) {
                // SAFETY: passed on.
                unsafe { first.operation.phase(ctx, worker, i) };
            }
            at += 1;
        }
    }
}
