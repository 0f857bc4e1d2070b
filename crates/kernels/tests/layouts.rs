//! Packed rows come back as the formula at `Layout` says, and take the bytes that formats take.
use half::{bf16, f16};
use rinfer_kernels::Team;
use rinfer_kernels::layout::{Layout, Packed, RowCodes};

mod weights;

/// Element `k` of a row, by the definition.
fn element(layout: Layout, row: &RowCodes, k: usize) -> f32 {
    let sub = k / weights::shape(layout).1;
    let block = k / layout.block();
    let half = |bits: &[u16]| f16::from_bits(bits[block]).to_f32();
    let q = |offset: f32| f32::from(row.q[k]) - offset;
    let s = || half(&row.d) * f32::from(row.s[sub]);
    match layout {
        Layout::F32 => row.f32[k],
        Layout::F16 => f16::from_bits(row.half[k]).to_f32(),
        Layout::Bf16 => bf16::from_bits(row.half[k]).to_f32(),
        Layout::W8 => half(&row.d) * q(128.0),
        Layout::W8F => row.scale[block] * q(128.0),
        Layout::W4 => half(&row.d) * q(8.0),
        Layout::W5 => half(&row.d) * q(16.0),
        Layout::W4M | Layout::W5M => half(&row.d) * q(0.0) + half(&row.m),
        Layout::W2K | Layout::W4K | Layout::W5K => {
            s() * q(0.0) - half(&row.m) * f32::from(row.t[sub])
        }
        Layout::W6K => half(&row.d) * f32::from(row.s[sub] as i8) * q(32.0),
    }
}

fn check(layout: Layout, rows: usize, cols: usize) {
    let packed = Packed::pack(&Team::new(2), layout, rows, cols, |i, codes| {
        weights::row(layout, cols, i, codes);
    });
    let mut got = vec![0.0; cols];
    for i in 0..rows {
        let mut codes = RowCodes::default();
        weights::row(layout, cols, i, &mut codes);
        packed.row(i, &mut got);
        for (k, &got) in got.iter().enumerate() {
            let want = element(layout, &codes, k);
            assert_eq!(got.to_bits(), want.to_bits(), "{layout:?} {rows}x{cols}, row {i}, {k}");
        }
    }
}

#[test]
fn rows_come_back() {
    for layout in Layout::ALL {
        for rows in [1, 15, 16, 17, 40] {
            for blocks in [1, 2, 3] {
                check(layout, rows, blocks * layout.block());
            }
        }
    }
}

/// Bytes of a row of 4096, as GGUF's types hold it.
#[test]
fn sizes_are_the_formats() {
    let blocks = |inputs: usize, bytes: usize| 4096 / inputs * bytes;
    for (layout, bytes) in [
        (Layout::F32, 4096 * 4),
        (Layout::F16, 4096 * 2),
        (Layout::Bf16, 4096 * 2),
        (Layout::W8, blocks(32, 34)),
        (Layout::W4, blocks(32, 18)),
        (Layout::W4M, blocks(32, 20)),
        (Layout::W5, blocks(32, 22)),
        (Layout::W5M, blocks(32, 24)),
        (Layout::W2K, blocks(256, 84)),
        (Layout::W4K, blocks(256, 144)),
        (Layout::W5K, blocks(256, 176)),
        (Layout::W6K, blocks(256, 210)),
    ] {
        assert_eq!(Packed::size(layout, 160, 4096), 160 * bytes, "{layout:?}");
    }
    assert_eq!(Packed::size(Layout::F32, usize::MAX, usize::MAX), usize::MAX);
}

#[test]
#[should_panic(expected = "W4K of 128 inputs")]
fn blocks_are_whole() {
    Packed::pack(&Team::new(1), Layout::W4K, 1, 128, |_, _| {});
}

#[test]
#[should_panic(expected = "W4 of 64")]
fn rows_are_whole() {
    Packed::pack(&Team::new(1), Layout::W4, 1, 64, |_, codes| codes.q.resize(32, 0));
}
