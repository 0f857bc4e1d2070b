//! Conversations that later requests may go on from, by the response that ended them. They are kept
//! in memory, the latest of them.
use rinfer_text::chat::{Content, Message};
use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

/// Responses, and bytes of their text, that are kept.
const MOST: usize = 1000;
const BYTES: usize = 64 << 20;

/// The conversations.
#[derive(Default)]
pub struct Store(Mutex<Kept>);

#[derive(Default)]
struct Kept {
    /// Oldest first, each with its size.
    all: VecDeque<(String, usize, Vec<Message>)>,
    bytes: usize,
}

impl Store {
    pub fn put(&self, id: String, said: Vec<Message>) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let bytes = said.iter().map(size).sum();
        kept.bytes += bytes;
        kept.all.push_back((id, bytes, said));
        while kept.all.len() > MOST || kept.bytes > BYTES {
            let Some((_, bytes, _)) = kept.all.pop_front() else { return };
            kept.bytes -= bytes;
        }
    }
    pub fn get(&self, id: &str) -> Option<Vec<Message>> {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.all.iter().rev().find(|(other, ..)| other == id).map(|(_, _, said)| said.clone())
    }
}

fn size(message: &Message) -> usize {
    let text = message.content.as_ref().map(Content::text).unwrap_or_default().len();
    let calls = message.tool_calls.iter().map(|call| call.function.arguments.to_string().len());
    text + calls.sum::<usize>() + message.reasoning_content.as_ref().map_or(0, String::len) + 200
}

#[cfg(test)]
mod tests {
    use super::*;
    use rinfer_text::chat::Role;

    #[test]
    fn the_oldest_make_room() {
        let store = Store::default();
        for i in 0..MOST + 5 {
            store.put(i.to_string(), vec![Message::new(Role::User, "x")]);
        }
        assert!(store.get("4").is_none());
        assert_eq!(store.get("5").unwrap().len(), 1);
        store.put("large".into(), vec![Message::new(Role::User, "x".repeat(BYTES))]);
        assert!(store.get("large").is_none() && store.get("1000").is_none());
        store.put("small".into(), vec![Message::new(Role::User, "x")]);
        assert!(store.get("small").is_some());
    }
}
