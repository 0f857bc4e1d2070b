//! Where pages lie.
use super::{PAGE, eight};
use crate::mat::Lent;
use crate::room::Aligned;
use std::ops::Range;

/// What a cached element is stored as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KvKind {
    /// Half precision, rounded to nearest even.
    F16,
    /// Exact.
    F32,
    /// 8 bits: keys with a scale per 32 channels, values with one a head.
    Q8,
}

impl KvKind {
    /// Bytes to an element, scales not counted.
    pub const fn bytes(self) -> usize {
        match self {
            KvKind::F16 => 2,
            KvKind::F32 => 4,
            KvKind::Q8 => 1,
        }
    }
}

/// What a layer keeps of a position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KvShape {
    /// Key and value heads.
    pub heads: usize,
    /// Elements of a key.
    pub k_dim: usize,
    /// Elements of a value; none where only keys are kept.
    pub v_dim: usize,
}

impl KvShape {
    /// Elements of a value as a page has it.
    pub const fn value_stride(self) -> usize {
        self.v_dim.next_multiple_of(16)
    }
    /// Elements that a position takes in a page.
    pub const fn elements(self) -> usize {
        self.heads * (self.k_dim + self.value_stride())
    }
}

/// One layer's pages.
pub struct Pool {
    kind: KvKind,
    shape: KvShape,
    data: Aligned,
}

impl Pool {
    /// `pages` zeroed pages.
    pub fn new(kind: KvKind, shape: KvShape, pages: usize) -> Pool {
        let data = Aligned::zeroed(pages * Pool::page_bytes(kind, shape));
        Pool { kind, shape, data }
    }
    /// Bytes to a page.
    pub const fn page_bytes(kind: KvKind, shape: KvShape) -> usize {
        match kind {
            KvKind::Q8 => shape.heads * eight::Head::of(shape).bytes(),
            _ => PAGE * shape.elements() * kind.bytes(),
        }
    }
    /// Bytes to a position of those that [`Pool::used`] names.
    pub fn position_bytes(&self) -> usize {
        match self.kind {
            KvKind::Q8 => self.shape.heads * eight::Head::of(self.shape).position(),
            kind => self.shape.elements() * kind.bytes(),
        }
    }
    /// Where the first `n` positions lie in a page, in stretches.
    pub fn used(&self, n: usize) -> Vec<Range<usize>> {
        let KvShape { heads, k_dim, .. } = self.shape;
        let each = self.stride() / heads;
        let mut all = Vec::new();
        for head in (0..heads).map(|h| h * each) {
            if self.kind == KvKind::Q8 {
                let own = (0..n).flat_map(|position| eight::Head::of(self.shape).used(position));
                all.extend(own.map(|at| head + at.start..head + at.end));
                continue;
            }
            // Of every channel's keys, then all values.
            let element = self.kind.bytes();
            let channel = PAGE * element;
            let keys = (0..k_dim).map(|c| (head + c * channel, n * element));
            let values = (head + k_dim * channel, n * self.shape.value_stride() * element);
            all.extend(keys.chain([values]).map(|(from, len)| from..from + len));
        }
        all
    }
    /// Makes what a page of 8 bits holds besides its positions, before some are written to
    /// [where they lie](Pool::used).
    pub fn prepare(&mut self, i: u32) {
        if self.kind != KvKind::Q8 || self.shape.v_dim == 0 {
            return;
        }
        let (heads, head) = (self.shape.heads, eight::Head::of(self.shape));
        let pool = self.shared();
        for h in 0..heads {
            // SAFETY: the page is this call's alone.
            unsafe { eight::begin(pool.at(i, h).1, head) };
        }
    }
    /// Bytes held.
    pub fn bytes(&self) -> usize {
        self.data.bytes().len()
    }
    /// Number of pages.
    pub fn pages(&self) -> usize {
        self.data.bytes().len() / self.stride()
    }
    /// What an element is stored as.
    pub fn kind(&self) -> KvKind {
        self.kind
    }
    /// Page `i`'s bytes, for saving.
    pub fn page(&self, i: u32) -> &[u8] {
        let n = self.stride();
        &self.data.bytes()[i as usize * n..(i as usize + 1) * n]
    }
    /// Page `i`'s bytes, for restoring and for clearing.
    pub fn page_mut(&mut self, i: u32) -> &mut [u8] {
        let n = self.stride();
        &mut self.data.bytes_mut()[i as usize * n..(i as usize + 1) * n]
    }
    /// Copies page `from` over page `to`.
    pub fn copy(&mut self, from: u32, to: u32) {
        let n = self.stride();
        let from = from as usize * n;
        self.data.bytes_mut().copy_within(from..from + n, to as usize * n);
    }
    /// What it keeps of a position.
    pub fn shape(&self) -> KvShape {
        self.shape
    }
    /// A handle to write and read parts of pages from several threads.
    pub(crate) fn shared(&mut self) -> SharedPool<'_> {
        let stride = self.stride();
        let keys = match self.kind {
            KvKind::Q8 => eight::Head::of(self.shape).keys(),
            kind => self.shape.k_dim * PAGE * kind.bytes(),
        };
        let head = stride / self.shape.heads;
        SharedPool { stride, keys, head, data: Lent::new(self.data.bytes_mut()) }
    }
    fn stride(&self) -> usize {
        Pool::page_bytes(self.kind, self.shape)
    }
}

/// Pages lent to the tasks of a run.
pub(crate) struct SharedPool<'a> {
    data: Lent<'a, u8>,
    stride: usize,
    head: usize,
    keys: usize,
}

impl SharedPool<'_> {
    /// Where the keys and the values of a head of a page are.
    ///
    /// # Panics
    /// If there is no such page.
    pub(crate) fn at(&self, page: u32, head: usize) -> (*mut u8, *mut u8) {
        let keys = self.data.at(page as usize * self.stride + head * self.head, self.head);
        // SAFETY: a head's values follow its keys.
        (keys, unsafe { keys.add(self.keys) })
    }
}
