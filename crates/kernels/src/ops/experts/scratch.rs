//! What experts write on the way, and the steps that write it.
use super::{Choice, Experts, Weighs};
use crate::act::{Act, BLOCK};
use crate::layout::Reads;
use crate::mat::{Mat, MatmulTask, Store};
use crate::ops::gated::COLS;
use crate::ops::linear::{group, share};
use crate::ops::{Ctx, Gated, GatedScratch};
use std::ops::Range;

/// What experts write on the way, sized once.
pub struct ExpertsScratch {
    /// All choices in the order of their experts, rows of one in order.
    visits: Vec<Visit>,
    /// Where each expert's visits begin, and where the last one's end.
    starts: Vec<usize>,
    /// `[rows, top_k]`: each row's visits, in their order.
    place: Vec<u32>,
    /// Rows of the last batch, and all their visits.
    rows: usize,
    places: usize,
    /// Visits that there is room for at a time.
    turn: usize,
    /// The experts at hand: one for each that is visited.
    now: Vec<u32>,
    /// What they read.
    input: Act,
    products: GatedScratch,
    hidden: Act,
    /// What they give.
    output: Mat,
}

/// A row at an expert.
#[derive(Clone, Copy, Default)]
struct Visit {
    row: u32,
    expert: u32,
    weight: f32,
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
        let turn = rows * top_k.min(2);
        ExpertsScratch {
            visits: vec![Visit::default(); rows * top_k],
            starts: vec![0; experts + 1],
            place: vec![0; rows * top_k],
            rows: 0,
            places: 0,
            turn,
            now: Vec::with_capacity(experts),
            input: Act::new(turn, d_model),
            products: GatedScratch::new(rows, threads),
            hidden: Act::new(turn, d_ff),
            output: Mat::new(turn, d_model),
        }
    }
    /// Bytes held.
    pub fn bytes(&self) -> usize {
        let places = 4 * (self.place.len() + self.now.capacity());
        let lists = size_of_val(&self.visits[..]) + size_of_val(&self.starts[..]) + places;
        let floats = self.products.bytes() + self.output.bytes();
        lists + self.input.bytes() + self.hidden.bytes() + floats
    }
    /// Experts that the last batch's rows visited, and how many did.
    pub fn visited(&self) -> impl Iterator<Item = (usize, usize)> {
        let counts = self.starts.windows(2).map(|s| s[1] - s[0]);
        counts.enumerate().filter(|(_, count)| *count > 0)
    }

    /// Brings choices in the order of their experts.
    pub(super) fn sort(&mut self, experts: usize, rows: usize, choices: &[Choice]) {
        let top_k = choices.len() / rows.max(1);
        let whole = choices.len() == rows * top_k && top_k > 0;
        assert!(whole || rows == 0, "rows differ in what they chose");
        assert!(choices.len() <= self.visits.len(), "the scratch is too small");
        assert_eq!(experts + 1, self.starts.len(), "the scratch is for other experts");
        (self.rows, self.places) = (rows, choices.len());
        self.starts.fill(0);
        for choice in choices {
            self.starts[choice.expert as usize + 1] += 1;
        }
        let most = self.starts.iter().max().copied().unwrap_or(0);
        assert!(most <= rows, "a row chose an expert twice");
        for e in 0..experts {
            self.starts[e + 1] += self.starts[e];
        }
        for (i, choice) in choices.iter().enumerate() {
            // An expert's start moves on with its visits, and ends up where the next one's was.
            let at = &mut self.starts[choice.expert as usize];
            let row = (i / top_k) as u32;
            self.visits[*at] = Visit { row, expert: choice.expert, weight: choice.weight };
            self.place[i] = *at as u32;
            *at += 1;
        }
        self.starts.copy_within(0..experts, 1);
        self.starts[0] = 0;
        let places = self.place[..choices.len()].chunks_exact_mut(top_k.max(1));
        places.for_each(|row| row.sort_unstable());
    }

    /// The next experts' visits, as many as there is room for; none after the last.
    pub(super) fn take(&mut self, next: &mut usize) -> Option<Range<usize>> {
        let from = self.starts[*next];
        self.now.clear();
        while *next + 1 < self.starts.len() && self.starts[*next + 1] - from <= self.turn {
            if self.starts[*next + 1] > self.starts[*next] {
                self.now.push(*next as u32);
            }
            *next += 1;
        }
        let until = self.starts[*next];
        (until > from).then_some(from..until)
    }

    /// Brings together the rows of `slots`, in the forms that are read.
    pub(super) fn gather(
        &mut self,
        ctx: &Ctx,
        how: &Experts,
        x: &Act,
        weighs: Weighs,
        slots: Range<usize>,
    ) {
        let (x, cols, q8, exact) =
            (x.view(), x.cols(), how.reads(Reads::Q8), how.reads(Reads::F32));
        self.input.resize(slots.len());
        let to = self.input.shared(ctx.kernels.tile, q8);
        let (visits, starts) = (&self.visits[slots.clone()], &self.starts);
        ctx.each_row(slots.len(), cols, |i| {
            let visit = visits[i];
            let all = starts[visit.expert as usize]..starts[visit.expert as usize + 1];
            let here = to.part(all.start - slots.start..all.end - slots.start);
            let i = i + slots.start - all.start;
            // SAFETY: the tier is usable, lengths agree; a row is one task's.
            unsafe {
                let mut row = x.row(visit.row as usize);
                let order = how.orders.get(visit.expert as usize);
                if exact || weighs == Weighs::Input || order.is_some() {
                    let y = here.f32().part(i, 0, cols);
                    match order {
                        None => y.copy_from_slice(row),
                        Some(order) => {
                            y.iter_mut().zip(&order[..]).for_each(|(y, k)| *y = row[*k as usize]);
                        }
                    }
                    if weighs == Weighs::Input {
                        y.iter_mut().for_each(|y| *y *= visit.weight);
                    }
                    row = y;
                }
                if q8 {
                    (ctx.kernels.quantise)(row, here.quantised(i, 0, cols.div_ceil(BLOCK)));
                }
            }
        });
    }

    /// The gated units of `slots`, which read `alone` or what was gathered.
    pub(super) fn units(
        &mut self,
        ctx: &Ctx,
        how: &Experts,
        alone: Option<&Act>,
        slots: Range<usize>,
    ) {
        let (n, q8) = (how.gate.shape()[1], how.down.reads() == Reads::Q8);
        let most = self.now.iter().map(|e| self.starts[*e as usize + 1] - self.starts[*e as usize]);
        let products = self.products.lend(ctx, most.max().unwrap_or(0));
        self.hidden.resize(slots.len());
        let to = self.hidden.shared(ctx.kernels.tile, q8);
        let (input, starts, now) = (&self.input, &self.starts, &self.now);
        let each = n.div_ceil(COLS);
        ctx.team.run(|worker| {
            worker.phase(now.len() * each, |task| {
                let (e, from) = (now[task / each] as usize, task % each * COLS);
                let rows = starts[e] - slots.start..starts[e + 1] - slots.start;
                let x = alone.map_or_else(|| input.part(rows.clone()), Act::all);
                let up = how.up.as_ref().map(|up| up.expert(e));
                let gated = Gated { act: how.act, gate: how.gate.expert(e), up };
                let columns = from..n.min(from + COLS);
                // SAFETY: the shapes were checked, the forms made; the columns of an expert's rows
                // are whole blocks and this task's.
                unsafe { products.columns(ctx, worker, &gated, x, columns, &to.part(rows), q8) };
            });
        });
    }

    /// What the experts of `slots` give.
    pub(super) fn downs(&mut self, ctx: &Ctx, how: &Experts, slots: Range<usize>) {
        self.output.resize(slots.len());
        let to = self.output.shared();
        let (hidden, starts, now) = (&self.hidden, &self.starts, &self.now);
        let one = &how.down.weights[0];
        let group = group(share(ctx, one.bytes().len() * now.len()), one);
        let each = one.panels().div_ceil(group);
        ctx.team.run(|worker| {
            worker.phase(now.len() * each, |task| {
                let (e, from) = (now[task / each] as usize, task % each * group);
                let rows = starts[e] - slots.start..starts[e + 1] - slots.start;
                let (weights, bias) = how.down.expert(e);
                let weights = weights.view();
                let out = to.rows_from(rows.start, rows.len());
                let (input, store) = (hidden.part(rows), Store::Set);
                let task = MatmulTask { weights, input, bias, store, first: 0, out };
                let panels = from..one.panels().min(from + group);
                // SAFETY: the tier is usable, the shapes were checked, and a group of panels of an
                // expert's rows is one task's.
                unsafe { (ctx.kernels.matmul[weights.layout() as usize])(&task, panels) };
            });
        });
    }

    /// Adds to each row what its visits among `slots` gave; before the first of all, nothing was
    /// there if it is to be set.
    pub(super) fn sum(
        &self,
        ctx: &Ctx,
        weighs: Weighs,
        slots: Range<usize>,
        out: &mut Mat,
        store: Store,
    ) {
        let (rows, cols, out) = (self.rows, out.cols(), out.shared());
        let top_k = self.places / rows;
        ctx.each_row(rows, cols, |i| {
            // SAFETY: a row is one task's.
            let row = unsafe { out.part(i, 0, cols) };
            if slots.start == 0 && store == Store::Set {
                row.fill(0.0);
            }
            let places = self.place[i * top_k..(i + 1) * top_k].iter().map(|p| *p as usize);
            for p in places.filter(|p| slots.contains(p)) {
                let weight = if weighs == Weighs::Output { self.visits[p].weight } else { 1.0 };
                // SAFETY: the tier is usable, lengths agree.
                unsafe { (ctx.kernels.add)(self.output.row(p - slots.start), weight, row) };
            }
        });
    }
}
