//! Memory for weights and state: zeroed by the system as it is first touched, by whoever fills it.
//!
//! Weights lie together in huge pages, where the system has them: these take a fraction of the time
//! to be supplied, and a stream of weights meets 512 times fewer of them.
use memmap2::{Mmap, MmapMut};
use std::cell::Cell;
use std::ops::Range;
use std::sync::Arc;

/// Bytes of a huge page on the systems that are asked for them.
const HUGE: usize = 2 << 20;
/// A panel's vectors never straddle a cache line.
const LINE: usize = 64;

/// One allocation that buffers are taken from, one after another.
pub struct Room {
    block: Block,
    used: Cell<usize>,
}

impl Room {
    /// `len` bytes, in huge pages if they fill any.
    pub fn new(len: usize) -> Room {
        Room { block: Block::new(len, len >= HUGE), used: Cell::new(0) }
    }
    /// The next `len` bytes, zeroed; bytes of their own if there are not so many left.
    pub fn take(&self, len: usize) -> Aligned {
        let from = self.used.get();
        let fits = from.checked_add(len).is_some_and(|until| until <= self.block.len);
        if !fits {
            return Aligned::zeroed(len);
        }
        self.used.set((from + len).next_multiple_of(LINE));
        // SAFETY: in bounds, as was just checked.
        let start = unsafe { self.block.start.add(from) };
        Aligned { block: Block { start, len, holder: self.block.holder.clone() } }
    }
}

/// Bytes aligned to 64 that nobody else refers to.
pub struct Aligned {
    block: Block,
}

impl Aligned {
    /// `len` zeroed bytes of their own, in pages of the usual size.
    pub fn zeroed(len: usize) -> Aligned {
        Aligned { block: Block::new(len, false) }
    }
    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: the block's bytes are initialised and live as long as the mapping that it holds;
        // `&mut self` is needed to write them.
        unsafe { std::slice::from_raw_parts(self.block.start, self.block.len) }
    }
    /// The bytes, to write.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and a room gives each byte out once.
        unsafe { std::slice::from_raw_parts_mut(self.block.start, self.block.len) }
    }
}

/// Bytes aligned to 64 that nobody writes any more: a clone refers to the same ones.
#[derive(Clone)]
pub struct Fixed {
    block: Block,
}

impl Fixed {
    /// A part of a mapped file, which stays mapped as long as any clone lives; none if it is not
    /// in the file, or begins off the grid.
    pub fn of_map(map: &Arc<Mmap>, part: Range<usize>) -> Option<Fixed> {
        let bytes = map.get(part)?;
        let (start, len) = (bytes.as_ptr().cast_mut(), bytes.len());
        let holder: Arc<dyn Send + Sync> = map.clone();
        start.addr().is_multiple_of(LINE).then_some(Fixed { block: Block { start, len, holder } })
    }
    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: the block's bytes are initialised and live as long as the mapping that it holds;
        // no `Aligned` refers to them, so nothing writes them. That others may change a mapped file
        // is the caveat of whoever maps one.
        unsafe { std::slice::from_raw_parts(self.block.start, self.block.len) }
    }
}

impl From<Aligned> for Fixed {
    fn from(written: Aligned) -> Fixed {
        Fixed { block: written.block }
    }
}

/// A part of a mapping.
#[derive(Clone)]
struct Block {
    start: *mut u8,
    len: usize,
    /// What holds the bytes.
    holder: Arc<dyn Send + Sync>,
}
// SAFETY: plain bytes of a mapping that it keeps alive. A room's block is lent piece by piece, each
// byte once, and a piece is written through the `&mut` of an `Aligned` only.
unsafe impl Send for Block {}
// SAFETY: as above; what `Room` counts with is not `Sync`, so neither is a room.
unsafe impl Sync for Block {}

impl Block {
    fn new(len: usize, huge: bool) -> Block {
        let more = if huge { HUGE } else { 0 };
        let map = len.checked_add(more).and_then(|len| MmapMut::map_anon(len).ok());
        // As for every other allocation that fails.
        let mut map = map.unwrap_or_else(|| refused(len));
        let at = map.as_ptr().addr();
        let skip = if huge { at.next_multiple_of(HUGE) - at } else { 0 };
        if huge {
            ask_for_huge_pages(&map);
        }
        // SAFETY: the mapping has `len` bytes and as many more as are skipped.
        let start = unsafe { map.as_mut_ptr().add(skip) };
        Block { start, len, holder: Arc::new(map) }
    }
}

/// A system that has none supplies small ones.
#[cfg(target_os = "linux")]
fn ask_for_huge_pages(map: &MmapMut) {
    let _ = map.advise(memmap2::Advice::HugePage);
}
#[cfg(not(target_os = "linux"))]
fn ask_for_huge_pages(_: &MmapMut) {}

fn refused(len: usize) -> ! {
    let layout = std::alloc::Layout::from_size_align(len, LINE);
    std::alloc::handle_alloc_error(layout.unwrap_or(std::alloc::Layout::new::<u8>()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(room: usize, takes: &[usize]) {
        let room = Room::new(room);
        let mut all: Vec<Aligned> = takes.iter().map(|len| room.take(*len)).collect();
        for (i, one) in all.iter_mut().enumerate() {
            assert!(one.bytes().as_ptr().addr().is_multiple_of(LINE));
            assert!(one.bytes().iter().all(|b| *b == 0), "buffer {i} was given out before");
            one.bytes_mut().fill(i as u8 + 1);
        }
        drop(room);
        for (i, (one, len)) in all.iter().zip(takes).enumerate() {
            assert_eq!(one.bytes(), vec![i as u8 + 1; *len]);
        }
    }

    #[test]
    fn parts_of_a_file_outlive_their_map() {
        let path = std::env::temp_dir().join(format!("rinfer-room-{}", std::process::id()));
        let content: Vec<u8> = (0..9_000u32).map(|i| (i % 251) as u8).collect();
        std::fs::write(&path, &content).unwrap();
        // SAFETY: nobody else has the file.
        let map = Arc::new(unsafe { Mmap::map(&std::fs::File::open(&path).unwrap()) }.unwrap());
        std::fs::remove_file(path).unwrap();
        assert!(Fixed::of_map(&map, 64..9_001).is_none());
        assert!(Fixed::of_map(&map, 32..64).is_none());
        let part = Fixed::of_map(&map, 128..8_000).unwrap();
        drop(map);
        assert_eq!(part.clone().bytes(), &content[128..8_000]);
    }

    #[test]
    fn buffers_do_not_overlap() {
        check(0, &[0, 1, 64]);
        check(1000, &[1, 63, 64, 65, 500]);
        check(3 * HUGE + 5, &[HUGE, 100, 2 * HUGE, 7, HUGE - 200]);
    }
}
