//! What a line asks for: a message to the model, or one of the commands, of which this is the list.

/// A command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    System,
    Set,
    Params,
    Think,
    Json,
    Image,
    Retry,
    Undo,
    Reset,
    Save,
    Load,
    Model,
    Stats,
    Help,
    Quit,
}

/// A command, its name, what it takes, and what it does.
pub struct Command {
    pub verb: Verb,
    pub name: &'static str,
    pub takes: &'static str,
    pub does: &'static str,
}

const fn command(
    verb: Verb,
    name: &'static str,
    takes: &'static str,
    does: &'static str,
) -> Command {
    Command { verb, name, takes, does }
}

/// Every command, in the order in which they are shown.
pub const COMMANDS: [Command; 15] = [
    command(Verb::System, "system", "[TEXT]", "what the model is told first; alone, nothing is"),
    command(Verb::Set, "set", "NAME VALUE", "set a sampling flag: /set temperature 0.7"),
    command(Verb::Params, "params", "", "show what is in force"),
    command(
        Verb::Think,
        "think",
        "[HOW]",
        "auto, on or off; show or fold; alone, the last thoughts",
    ),
    command(Verb::Json, "json", "[FILE|off]", "hold answers to JSON, or to a JSON Schema in FILE"),
    command(Verb::Image, "image", "FILE", "show the model an image, if it sees any"),
    command(Verb::Retry, "retry", "", "another answer to the last message"),
    command(Verb::Undo, "undo", "", "take the last message and its answer back"),
    command(Verb::Reset, "reset", "", "forget the conversation"),
    command(Verb::Save, "save", "FILE", "write the conversation to a file"),
    command(Verb::Load, "load", "FILE", "go on from such a file"),
    command(Verb::Model, "model", "[NAME]", "go on with another model; alone, say which it is"),
    command(Verb::Stats, "stats", "", "tokens and speed of the last answer"),
    command(Verb::Help, "help", "", "this"),
    command(Verb::Quit, "quit", "", "leave, as Ctrl-D"),
];

/// What a line asks for.
#[derive(Debug, PartialEq, Eq)]
pub enum Asked<'a> {
    Nothing,
    Message(&'a str),
    Command(Verb, &'a str),
    /// A command that there is not, and one that may be meant.
    Unknown(&'a str, Option<&'static str>),
}

/// Text in quotes of three, or all of it.
pub fn unquoted(text: &str) -> &str {
    let inner = text.trim().strip_prefix(QUOTES).and_then(|text| text.strip_suffix(QUOTES));
    match inner.filter(|text| !text.contains(QUOTES)) {
        Some(text) => {
            let text = text.strip_prefix('\n').unwrap_or(text);
            text.strip_suffix('\n').unwrap_or(text)
        }
        None => text,
    }
}

/// Whether a text begins with quotes of three that it does not end: `"""`, or `/system """`.
pub fn is_open(text: &str) -> bool {
    let command = text.strip_prefix('/').and_then(|text| text.split_once(' '));
    let text = command.map_or(text, |(_, rest)| rest.trim_start());
    text.starts_with(QUOTES) && text.matches(QUOTES).count() % 2 == 1
}

const QUOTES: &str = "\"\"\"";

/// Tells commands from messages. A message that starts with a slash is written with two.
pub fn asked(line: &str) -> Asked<'_> {
    let Some(command) = line.strip_prefix('/') else {
        let text = unquoted(line);
        return if text.trim().is_empty() { Asked::Nothing } else { Asked::Message(text) };
    };
    if command.starts_with('/') {
        return Asked::Message(command);
    }
    let (name, rest) = command.split_once(char::is_whitespace).unwrap_or((command, ""));
    let called = if name == "exit" { "quit" } else { name };
    match COMMANDS.iter().find(|command| command.name == called) {
        Some(command) => Asked::Command(command.verb, unquoted(rest).trim()),
        None => Asked::Unknown(name, nearest(name)),
    }
}

/// The command that is fewest letters away, if it is near.
fn nearest(name: &str) -> Option<&'static str> {
    let near = |command: &Command| {
        let begun = name.len() > 1 && command.name.starts_with(name);
        (if begun { 0 } else { distance(name, command.name) }, command.name)
    };
    let (letters, command) = COMMANDS.iter().map(near).min()?;
    (letters <= 2 && letters < command.len().min(name.len())).then_some(command)
}

/// Letters to insert, delete, change or swap.
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().take(32).collect(), b.chars().collect());
    let mut rows: Vec<Vec<usize>> = vec![(0..=b.len()).collect()];
    for i in 1..=a.len() {
        let mut row = vec![i];
        for j in 1..=b.len() {
            let change = rows[i - 1][j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut least = change.min(rows[i - 1][j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                least = least.min(rows[i - 2][j - 2] + 1);
            }
            row.push(least);
        }
        rows.push(row);
    }
    rows[a.len()][b.len()]
}

/// What `/help` says.
pub fn help() -> String {
    let line = |command: &Command| {
        let call = format!("/{} {}", command.name, command.takes);
        format!("{call:<17} {}\n", command.does)
    };
    let list: String = COMMANDS.iter().map(line).collect();
    format!(
        "{list}A message that starts with a slash is written with two.\n\
         Alt-Enter, Ctrl-J, or Enter after a \\ begins a new line; so does Enter between\n\
         \"\"\" and \"\"\". Ctrl-C stops an answer, Ctrl-D leaves."
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines() {
        let check = |line: &str, expect: Asked| assert_eq!(asked(line), expect, "{line}");
        check(" \n", Asked::Nothing);
        check(" hi ", Asked::Message(" hi "));
        check("//hi", Asked::Message("/hi"));
        check("/set top-k  7 ", Asked::Command(Verb::Set, "top-k  7"));
        check("/exit", Asked::Command(Verb::Quit, ""));
        check("/system \"\"\"\na\nb\n\"\"\"", Asked::Command(Verb::System, "a\nb"));
        check("\"\"\"\na\n\"\"\"", Asked::Message("a"));
        check("\"\"\"\n\"\"\"", Asked::Nothing);
        check("\"\"\"a\"\"\" b \"\"\"c\"\"\"", Asked::Message("\"\"\"a\"\"\" b \"\"\"c\"\"\""));
        check("/rtery", Asked::Unknown("rtery", Some("retry")));
        check("/sats", Asked::Unknown("sats", Some("stats")));
        check("/par", Asked::Unknown("par", Some("params")));
        check("/frobnicate", Asked::Unknown("frobnicate", None));
        check("/x", Asked::Unknown("x", None));
        check("/", Asked::Unknown("", None));
    }

    #[test]
    fn quotes() {
        for open in ["\"\"\"", "\"\"\"a\nb", "/system \"\"\" a", "\"\"\"a\"\"\" \"\"\""] {
            assert!(is_open(open), "{open}");
        }
        for whole in ["", "a \"\"\"", "\"\"\"a\"\"\"", "/system a \"\"\"", "\"\""] {
            assert!(!is_open(whole), "{whole}");
        }
    }

    #[test]
    fn help_fits() {
        assert!(help().lines().all(|line| line.len() < 80), "{}", help());
        assert!(help().lines().count() < 24);
    }
}
