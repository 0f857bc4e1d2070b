//! Lists of namespaces that a template changes in place, `append` and `pop(0)`: transformers refuses
//! them, and so does an exact rendering. A lenient one keeps calls that would be lost, and sets the
//! namespace's list anew.
use super::python::LENIENT;

/// The tags that stand for one that changes a list: what a lenient rendering does, else the tag
/// itself. None if it changes none.
pub(super) fn changed(open: &str, inner: &str, close: &str) -> Option<String> {
    let (target, value) = inner.trim().strip_prefix("set ")?.split_once('=')?;
    let call = value.trim().strip_suffix(')')?;
    let (list, method) = call.split_once('(')?;
    let (list, name) = list.rsplit_once('.')?;
    let part =
        |part: &str| !part.is_empty() && part.chars().all(|c| c.is_alphanumeric() || c == '_');
    if !list.contains('.') || !list.split('.').all(part) || method.contains(['(', ')']) {
        return None;
    }
    let sets = match (name, method.trim()) {
        ("append", item) => format!("{{%- set {list} = {list} + [{item}] -%}}"),
        ("pop", "0") => {
            format!("{{%- set {target}= {list}[0] -%}}{{%- set {list} = {list}[1:] -%}}")
        }
        _ => return None,
    };
    let (start, end) = (format!("{open} if {LENIENT} -%}}"), format!("{{%- endif {close}"));
    Some(format!("{start}{sets}{{%- else -%}}{{%-{inner}-%}}{end}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_of_lists() {
        let check = |inner: &str, want: Option<&str>| {
            let got = changed("{%-", inner, "%}");
            let want = want.map(|sets| {
                format!("{{%- if __lenient -%}}{sets}{{%- else -%}}{{%-{inner}-%}}{{%- endif %}}")
            });
            assert_eq!(got, want, "{inner}");
        };
        check(" set _ = ns.a.append(x) ", Some("{%- set ns.a = ns.a + [x] -%}"));
        check(" set y = ns.a.pop(0) ", Some("{%- set y = ns.a[0] -%}{%- set ns.a = ns.a[1:] -%}"));
        for other in [
            " set _ = a.append(x) ",
            " set y = ns.a.pop() ",
            " set y = f(ns.a.append(x)) ",
            " set y = 'a.b.append(x)' ",
            " if ns.a.append(x) ",
            " set y = ns.a.append(x) + 1 ",
        ] {
            check(other, None);
        }
    }
}
