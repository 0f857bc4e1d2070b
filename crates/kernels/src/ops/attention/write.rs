//! Puts a batch's keys and values into their pages.
use super::AttendRow;
use crate::kv::{KvKind, KvShape, PAGE, SharedPool, eight};
use crate::mat::Seen;
use crate::team::Worker;
use half::f16;
use half::slice::HalfFloatSliceExt;

/// Channels of keys or values that a task writes.
const CHANNELS: usize = 64;

/// What is written where.
pub(crate) struct Write<'a> {
    pub(crate) rows: &'a [AttendRow],
    pub(crate) tables: &'a [Vec<u32>],
    pub(crate) pool: &'a SharedPool<'a>,
    pub(crate) kind: KvKind,
    pub(crate) shape: KvShape,
    /// `[rows, heads·k_dim]`.
    pub(crate) k: Seen<'a>,
    /// `[rows, heads·v_dim]`, if values are kept.
    pub(crate) v: Option<Seen<'a>>,
}

impl Write<'_> {
    /// Phase: tasks own channels, so that rows which name one place twice do not race.
    ///
    /// # Safety
    /// Nobody else touches the rows' places, or writes what goes there, meanwhile.
    pub(crate) unsafe fn phase(&self, worker: &Worker<'_>) {
        let (of_keys, of_values) = self.chunks();
        let chunks = of_keys + of_values;
        // SAFETY: passed on; a chunk is one task's.
        worker.phase(self.shape.heads * chunks, |i| unsafe { self.chunk(i / chunks, i % chunks) });
    }

    /// All of a head.
    ///
    /// # Safety
    /// As [`Write::phase`], of this head.
    pub(crate) unsafe fn head(&self, head: usize) {
        let (of_keys, of_values) = self.chunks();
        for chunk in 0..of_keys + of_values {
            // SAFETY: passed on.
            unsafe { self.chunk(head, chunk) };
        }
    }

    /// Chunks of channels to a head's keys, and to its values.
    fn chunks(&self) -> (usize, usize) {
        let KvShape { k_dim, v_dim, .. } = self.shape;
        let of_values = match (self.v, self.kind) {
            (None, _) => 0,
            // They share a scale.
            (_, KvKind::Q8) => 1,
            _ => v_dim.div_ceil(CHANNELS),
        };
        (k_dim.div_ceil(CHANNELS), of_values)
    }

    /// # Safety
    /// As [`Write::phase`], of this chunk.
    unsafe fn chunk(&self, head: usize, chunk: usize) {
        let KvShape { k_dim, v_dim, .. } = self.shape;
        let (of_keys, _) = self.chunks();
        // SAFETY: passed on.
        unsafe {
            match self.v.filter(|_| chunk >= of_keys) {
                Some(v) if self.kind == KvKind::Q8 => self.value(v, head),
                Some(v) => self.channels(v, head, v_dim, chunk - of_keys, true),
                None => self.channels(self.k, head, k_dim, chunk, false),
            }
        }
    }

    /// Some channels of a head of `x`, which has `dim` of them, of all rows.
    ///
    /// # Safety
    /// As [`Write::phase`], of these channels.
    unsafe fn channels(&self, x: Seen<'_>, head: usize, dim: usize, chunk: usize, values: bool) {
        let from = chunk * CHANNELS;
        let len = CHANNELS.min(dim - from);
        let (channel, position) = if values { (1, self.shape.value_stride()) } else { (PAGE, 1) };
        for (i, row) in self.rows.iter().enumerate() {
            // SAFETY: nobody writes it meanwhile, by the caller's promise.
            let x = unsafe { &x.row(i)[head * dim + from..][..len] };
            let page = self.tables[row.table][row.pos / PAGE];
            let (k, v) = self.pool.at(page, head);
            let (to, at) =
                (if values { v } else { k }, channel * from + position * (row.pos % PAGE));
            // SAFETY: it lies within the head's part of the page; the channels are the caller's.
            unsafe {
                match self.kind {
                    KvKind::Q8 => {
                        let parts = eight::Head::of(self.shape);
                        eight::put_key(k, parts, row.pos % PAGE, from / 32, x);
                    }
                    KvKind::F32 => put(x, to.cast::<f32>().add(at), channel),
                    KvKind::F16 => {
                        let mut halves = [f16::ZERO; CHANNELS];
                        halves[..len].convert_from_f32_slice(x);
                        put(&halves[..len], to.cast::<f16>().add(at), channel);
                    }
                }
            }
        }
    }

    /// A head of all rows' values, in 8 bits.
    ///
    /// # Safety
    /// As [`Write::phase`], of these values.
    unsafe fn value(&self, v: Seen<'_>, head: usize) {
        let dim = self.shape.v_dim;
        for (i, row) in self.rows.iter().enumerate() {
            let page = self.tables[row.table][row.pos / PAGE];
            let (_, values) = self.pool.at(page, head);
            // SAFETY: nobody writes `v` meanwhile, and the values are the caller's.
            unsafe {
                let x = &v.row(i)[head * dim..][..dim];
                eight::put_value(values, eight::Head::of(self.shape), row.pos % PAGE, x);
            }
        }
    }
}

/// Writes elements, `step` apart.
///
/// # Safety
/// There is room, and it is nobody else's.
unsafe fn put<T: Copy>(x: &[T], to: *mut T, step: usize) {
    // SAFETY: the caller's promise.
    unsafe {
        if step == 1 {
            return to.copy_from_nonoverlapping(x.as_ptr(), x.len());
        }
        for (i, &x) in x.iter().enumerate() {
            to.add(i * step).write(x);
        }
    }
}
