//! `context_management`: thoughts before older answers are left out, if the request asks for that.
use crate::fields::Fields;
use crate::refusal::Refusal;
use rinfer_text::chat::Message;
use serde_json::Value;

/// Edits a conversation as a request asks.
pub fn read(
    fields: &mut Fields,
    messages: &mut [Message],
    ignored: &mut Vec<String>,
) -> Result<(), Refusal> {
    let Some(mut given) = fields.object("context_management")? else { return Ok(()) };
    let path = given.path("edits");
    for (i, value) in given.list("edits")?.unwrap_or_default().into_iter().enumerate() {
        let mut edit = Fields::of(value, &format!("{path}[{i}]"))?;
        let kind = edit.text("type")?;
        match edit.needed("type", kind)?.as_str() {
            "clear_thinking_20251015" => forget(messages, keep(&mut edit, ignored)?),
            other => {
                let problem = format!("'{other}' is not clear_thinking_20251015: use truncation");
                return Err(Refusal::field(edit.path("type"), problem));
            }
        }
        edit.finish(&[], ignored)?;
    }
    given.finish(&[], ignored)
}

/// How many answers keep their thoughts: the last one, if nothing is said.
fn keep(edit: &mut Fields, ignored: &mut Vec<String>) -> Result<usize, Refusal> {
    if edit.peek("keep").and_then(Value::as_str) == Some("all") {
        edit.value("keep");
        return Ok(usize::MAX);
    }
    let Some(mut keep) = edit.object("keep")? else { return Ok(1) };
    let kind = keep.text("type")?;
    let kind = keep.needed("type", kind)?;
    if kind != "thinking_turns" {
        let problem = format_args!("'{kind}' is not thinking_turns");
        return Err(Refusal::field(keep.path("type"), problem));
    }
    let turns = keep.count("value")?;
    let turns = keep.needed("value", turns)?;
    keep.finish(&[], ignored)?;
    Ok(turns)
}

/// Leaves out the thoughts before all answers but the last few that have any.
fn forget(messages: &mut [Message], keep: usize) {
    let thought = messages.iter_mut().rev().filter(|m| m.reasoning_content.is_some());
    thought.skip(keep).for_each(|message| message.reasoning_content = None);
}

#[cfg(test)]
mod tests {
    use super::*;
    use rinfer_text::chat::Role;
    use serde_json::json;

    /// Which of three answers with thoughts, and one without, keep them.
    fn kept(edits: Value) -> Result<Vec<bool>, String> {
        let thoughts =
            ["a", "b", "", "c"].map(|text| Some(text.to_owned()).filter(|t| !t.is_empty()));
        let mut messages = thoughts.map(|reasoning_content| Message {
            reasoning_content,
            ..Message::new(Role::Assistant, "so")
        });
        let given = json!({"context_management": {"edits": edits}});
        let mut fields = Fields::of(given, "it").unwrap();
        let mut ignored = Vec::new();
        read(&mut fields, &mut messages, &mut ignored).map_err(|refusal| refusal.message)?;
        assert_eq!(ignored, [""; 0]);
        Ok(messages.iter().map(|m| m.reasoning_content.is_some()).collect())
    }

    #[test]
    fn older_thoughts_are_left_out() {
        let clear = |keep: Value| kept(json!([{"type": "clear_thinking_20251015", "keep": keep}]));
        assert_eq!(kept(json!([])), Ok(vec![true, true, false, true]));
        assert_eq!(clear(json!("all")), Ok(vec![true, true, false, true]));
        assert_eq!(clear(json!(null)), Ok(vec![false, false, false, true]));
        let turns = |n| clear(json!({"type": "thinking_turns", "value": n}));
        assert_eq!(turns(2), Ok(vec![false, true, false, true]));
        assert_eq!(turns(9), Ok(vec![true, true, false, true]));
    }

    #[test]
    fn other_edits_are_refused() {
        for (edits, at) in [
            (json!([{"type": "clear_tool_uses_20250919"}]), "edits[0].type"),
            (json!([{"type": "clear_thinking_20251015", "keep": "some"}]), "edits[0].keep"),
            (json!([{"type": "clear_thinking_20251015", "keep": {"type": "x"}}]), "keep.type"),
            (json!([{}]), "edits[0].type"),
            (json!("x"), "edits"),
        ] {
            let refused = kept(edits.clone()).unwrap_err();
            assert!(refused.contains(at), "{edits}: {refused}");
        }
    }
}
