//! Every command in the documentation is one that this program takes.
use super::Cli;
use clap::{Command, CommandFactory, Parser};
use std::path::Path;

/// All pages and the README, by name.
fn pages() -> Vec<(String, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let docs = std::fs::read_dir(root.join("docs")).unwrap().map(|entry| entry.unwrap().path());
    let all = docs.chain([root.join("README.md")]);
    all.map(|path| (path.display().to_string(), std::fs::read_to_string(path).unwrap())).collect()
}

/// The commands of a line of a shell, as words, without variables before and redirections after them.
fn commands(line: &str) -> Vec<Vec<String>> {
    let (mut all, mut word, mut quote) = (vec![Vec::new()], None, None);
    let end = |word: &mut Option<String>, all: &mut Vec<Vec<String>>| {
        all.last_mut().unwrap().extend(word.take());
    };
    for c in line.chars() {
        match (c, quote) {
            (c, Some(open)) if c == open => quote = None,
            ('\'' | '"', None) => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (c, None) if c.is_whitespace() => end(&mut word, &mut all),
            ('#', None) if word.is_none() => break,
            ('|' | ';' | '&' | '<' | '>', None) => {
                end(&mut word, &mut all);
                all.push(vec![c.to_string()]);
            }
            (c, _) => word.get_or_insert_default().push(c),
        }
    }
    end(&mut word, &mut all);
    let plain = |words: Vec<String>| {
        let rest = words.into_iter().skip_while(|w| "|;&".contains(&**w) || w.contains('='));
        rest.collect()
    };
    all.into_iter().map(plain).collect()
}

#[test]
fn lines_of_a_shell() {
    let check = |line: &str, expect: &[&[&str]]| assert_eq!(commands(line), expect, "{line}");
    check("a \"b c\" 'd|e' # f", &[&["a", "b c", "d|e"]]);
    check("A=1 a | b < c; d ''", &[&["a"], &["b"], &["<", "c"], &["d", ""]]);
}

/// Lines in blocks are taken as they are.
#[test]
fn blocks_are_taken() {
    let mut count = 0;
    for (page, text) in pages() {
        let mut shell = false;
        for line in text.lines() {
            if let Some(language) = line.strip_prefix("```") {
                shell = language == "sh";
                continue;
            }
            for words in commands(line).into_iter().filter(|_| shell) {
                let own = words.first().is_some_and(|word| word == "./my-model");
                if !(own && words.len() > 1 || words.first().is_some_and(|word| word == "rinfer")) {
                    continue;
                }
                let taken = Cli::try_parse_from(&words);
                assert!(taken.is_ok(), "{page}: {line}: {}", taken.err().unwrap());
                count += 1;
            }
        }
    }
    assert!(count > 50, "{count}");
}

/// What stands between words has placeholders: its flags are there.
#[test]
fn flags_are_there() {
    let program = Cli::command();
    let known = |command: &Command, flag: &str| {
        let flag = flag.trim_start_matches('-');
        command.get_arguments().chain(program.get_arguments()).any(|argument| {
            argument.get_long() == Some(flag)
                || argument.get_short().is_some_and(|short| flag == short.to_string())
        })
    };
    let mut count = 0;
    for (page, text) in pages() {
        for span in
            text.split('`').filter(|span| span.starts_with("rinfer ") && !span.contains('\n'))
        {
            let mut words = span.split(|c: char| c.is_whitespace() || c == '[' || c == ']').skip(1);
            let name = words.next().unwrap_or_default();
            if name.starts_with("COMMAND") || name.starts_with("NAME") {
                continue;
            }
            let command = program.find_subcommand(name);
            let command = command.unwrap_or_else(|| panic!("{page}: {span}: there is no {name}"));
            for flag in words.filter(|word| word.starts_with('-')) {
                let flag = flag.split('=').next().unwrap();
                assert!(flag == "--help" || known(command, flag), "{page}: {span}: {flag}");
            }
            count += 1;
        }
    }
    assert!(count > 20, "{count}");
}
