//! How queries, keys and values come to where an attention reads them.
use super::work::Work;
use super::write::Write;
use super::{Attend, Block};
use crate::act::{self, ActRows, QuantRow};
use crate::kv::Eight;
use crate::layout::Layout;
use crate::mat::Lent;
use crate::ops::Ctx;
use crate::team::Worker;

impl Work<'_> {
    /// What puts keys and values into their pages.
    pub(super) fn write(&self) -> Option<Write<'_>> {
        let (k, v) = self.kv?;
        let Work { rows, tables, pool, kind, .. } = self;
        let (shape, kind) = (self.shape.keeps(), *kind);
        Some(Write { rows, tables, pool, kind, shape, k, v: Some(v) })
    }

    /// All that belongs to a K/V head of the one row.
    ///
    /// # Safety
    /// The tier is usable; what it reads is made, and the head is the caller's.
    pub(super) unsafe fn enter(&self, ctx: &Ctx, head: usize) {
        // SAFETY: passed on.
        unsafe {
            if let Some(prepare) = &self.prepare {
                prepare.heads(ctx, 0, head..head + 1, self.shape.kv_heads);
            }
            self.ask(ctx, self.blocks[0], head);
            if let Some(write) = self.write() {
                write.head(head);
            }
        }
    }

    /// Phase: brings queries to 8 bits, where pages are.
    pub(super) fn ask_all(&self, ctx: &Ctx, worker: &Worker<'_>) {
        let heads = self.shape.kv_heads;
        if self.queries.is_some() {
            worker.phase(self.blocks.len() * heads, |unit| {
                // SAFETY: queries were made in a phase before; a block's of a head are one task's.
                unsafe { self.ask(ctx, self.blocks[unit / heads], unit % heads) };
            });
        }
    }

    /// The 8-bit form of a block's queries of a K/V head, where pages are in 8 bits.
    ///
    /// # Safety
    /// The tier is usable; they are made, and the caller's.
    unsafe fn ask(&self, ctx: &Ctx, block: Block, head: usize) {
        let Attend { heads, head_dim, .. } = self.shape;
        let (group, Some(to)) = (self.shape.group(), self.asked(block, head)) else { return };
        let (kernels, count) = (ctx.kernels, block.rows * group);
        for i in 0..count {
            let (row, head) = (block.row + i / group, head * group + i % group);
            let at = (kernels.tile, count, i);
            // SAFETY: passed on.
            unsafe {
                let q = self.q.stretch(0, (row * heads + head) * head_dim, head_dim);
                (kernels.quantise)(q, QuantRow::of(&to, at, self.shape.query_blocks()));
            }
        }
    }

    /// Where these are.
    fn asked(&self, block: Block, head: usize) -> Option<Lent<'_, act::Block>> {
        let (count, each) = (block.rows * self.shape.group(), self.shape.query_blocks());
        let first = block.row * self.shape.heads + head * count;
        self.queries.as_ref().map(|all| all.within(first * each, count * each))
    }

    /// What the kernel takes besides where pages are in 8 bits.
    pub(super) fn eight(&self, ctx: &Ctx, block: Block, head: usize) -> Option<Eight<'_>> {
        let count = block.rows * self.shape.group();
        let blocks = count * self.shape.query_blocks();
        self.asked(block, head).map(|asked| Eight {
            queries: {
                // SAFETY: they were made before; nobody writes them now.
                let q = unsafe { std::slice::from_raw_parts(asked.at(0, blocks), blocks) };
                ActRows::of_blocks(q, count, self.shape.head_dim)
            },
            product: ctx.kernels.matmul[Layout::W8 as usize],
        })
    }
}
