//! GGUFs in several files: any of them, or the folder, opens all; what is missing or contradicts itself
//! is named. H1, H3 and H4 are rows of the list of faults that were seen in the field.
use rinfer_formats::{Checkpoint, Gguf, Weights, open};
use rinfer_testkit::gguf_builder::Builder;
use std::path::{Path, PathBuf};

/// A folder that is removed again.
struct Temporary(PathBuf);

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

impl Temporary {
    fn new(name: &str) -> Temporary {
        let path = std::env::temp_dir().join(format!("rinfer-split-{}-{name}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).expect("it is sound");
        Temporary(path)
    }
    fn write(&self, name: &str, file: &Builder) -> PathBuf {
        let path = self.0.join(name);
        std::fs::write(&path, file.build()).expect("it is sound");
        path
    }
}

fn tensor(builder: Builder, i: u8) -> Builder {
    builder.tensor(&format!("t{i}"), &[2], 0, &[i; 8])
}

/// As llama-gguf-split writes part `part` of 3, which has tensors `part` and `part + 10`.
fn part(part: u8) -> Builder {
    let first = || Builder::of("llama").u32("llama.block_count", 2);
    let file = if part == 1 { first() } else { Builder::default() };
    let no = u16::from(part - 1).to_le_bytes();
    let file = file.key("split.no", 2, &no).key("split.count", 2, &3u16.to_le_bytes());
    let file = file.key("split.tensors.count", 5, &6i32.to_le_bytes());
    // Names are in no order.
    tensor(tensor(file, 40 - part), part)
}

fn name(part: u8) -> String {
    format!("m-{part:05}-of-00003.gguf")
}

fn three(test: &str) -> Temporary {
    let folder = Temporary::new(test);
    for i in 1..=3 {
        folder.write(&name(i), &part(i));
    }
    folder
}

fn refused(path: &Path, says: &[&str]) {
    let error = open(path).map(|_| ()).expect_err("a set that is not whole").to_string();
    for part in says {
        assert!(error.contains(part), "{error:?} does not say {part:?}");
    }
}

#[test]
fn h1_any_part_opens_all() {
    let folder = three("h1");
    let paths = [folder.0.clone()].into_iter().chain((1..=3).map(|i| folder.0.join(name(i))));
    for path in paths {
        let Ok(Checkpoint::Gguf(gguf)) = open(&path) else { panic!("{}", path.display()) };
        assert_eq!(gguf.architecture().expect("it is sound"), "llama");
        assert_eq!(gguf.metadata().u32("llama.block_count").expect("it is sound"), Some(2));
        assert_eq!(gguf.names(), ["t39", "t1", "t38", "t2", "t37", "t3"]);
        for i in [1, 2, 3, 37, 38, 39] {
            let tensor = gguf.get(&format!("t{i}")).expect("a tensor");
            assert_eq!(*tensor.bytes, [i; 8]);
            gguf.release(&tensor.bytes);
            assert_eq!(*gguf.get(&format!("t{i}")).expect("a tensor").bytes, [i; 8]);
        }
    }
}

#[test]
fn h3_what_is_missing_is_named() {
    let folder = three("h3");
    std::fs::remove_file(folder.0.join(name(2))).expect("it is sound");
    for path in [folder.0.clone(), folder.0.join(name(1)), folder.0.join(name(3))] {
        refused(&path, &["m-00002-of-00003.gguf", "part 2 of the 3"]);
    }
    std::fs::remove_file(folder.0.join(name(1))).expect("it is sound");
    refused(&folder.0.join(name(3)), &["m-00001-of-00003.gguf"]);
}

#[test]
fn h3_names_say_what_metadata_says() {
    let folder = three("h3-names");
    let odd = folder.write("odd.gguf", &part(2));
    refused(&odd, &["part 2 of a GGUF split into 3", "NAME-00002-of-00003.gguf"]);
    let other = folder.write("m-00002-of-00004.gguf", &part(2));
    refused(&other, &["by its name it is part 2 of 4", "by its metadata part 2 of 3"]);
    folder.write(&name(2), &part(3));
    refused(&folder.0.join(name(1)), &["m-00002", "part 2 of 3", "by its metadata part 3 of 3"]);
    let whole = tensor(Builder::of("llama"), 1);
    let whole = folder.write("w-00001-of-00002.gguf", &whole);
    refused(&whole, &["part 1 of 2", "one whole file"]);
}

#[test]
fn h4_one_of_one_is_a_whole_file() {
    let folder = Temporary::new("h4");
    let file = tensor(Builder::of("llama").u32("split.no", 0).u32("split.count", 1), 1);
    for file in [file, tensor(Builder::of("llama"), 1)] {
        let path = folder.write("m-00001-of-00001.gguf", &file);
        for path in [&path, &folder.0] {
            assert!(matches!(open(path), Ok(Checkpoint::Gguf(gguf)) if gguf.names() == ["t1"]));
        }
    }
}

#[test]
fn parts_that_contradict_each_other() {
    let folder = three("contradict");
    let check = |file: Builder, says: &[&str]| {
        folder.write(&name(2), &file);
        refused(&folder.0.join(name(3)), says);
        folder.write(&name(2), &part(2));
        assert!(open(&folder.0).is_ok());
    };
    let more = |key: &str, value: u32| part(2).u32(key, value);
    check(more("llama.block_count", 3), &["m-00002", "'llama.block_count'", "first file"]);
    check(more("llama.context_length", 3), &["'llama.context_length'"]);
    check(tensor(part(2), 1), &["the tensor 't1' occurs twice"]);
    check(tensor(part(2), 5), &["split.tensors.count", "has 6", "7 tensors"]);
    // The same again is no contradiction.
    folder.write(&name(2), &more("llama.block_count", 2));
    assert!(open(&folder.0).is_ok());
}

#[test]
fn folders_of_several_models() {
    let folder = three("several");
    folder.write("x.gguf", &tensor(Builder::of("llama"), 1));
    refused(&folder.0, &["several", "m-00001-of-00003.gguf, x.gguf"]);
    assert!(Gguf::open(folder.0.join(name(2))).is_ok());
}

#[test]
fn big_endian_is_named() {
    let folder = Temporary::new("endian");
    let file = Builder { version: 3u32.swap_bytes(), ..tensor(Builder::of("llama"), 1) };
    refused(&folder.write("m.gguf", &file), &["big-endian", "little-endian"]);
}
