//! The requests in the documentation are answered as they stand, but for the model's name.
use crate::rig::Rig;
use serde_json::Value;

#[test]
fn requests_of_the_recipes_are_answered() {
    let server = Rig::default().start();
    let page = include_str!("../../../../docs/recipes.md");
    let mut count = 0;
    for request in page.split("curl http://127.0.0.1:8080").skip(1).filter(|r| r.starts_with('/')) {
        let Some((head, rest)) = request.split_once(" -d '") else { continue };
        let path = head.split(' ').next().unwrap();
        let (body, _) = rest.split_once("}'\n").unwrap();
        let mut body: Value = serde_json::from_str(&format!("{body}}}")).unwrap();
        assert_eq!(body["model"], "model");
        body["model"] = "scripted".into();
        let answer = server.post(path, &body);
        assert_eq!(
            (answer.status, answer.header("x-rinfer-ignored")),
            (200, None),
            "{path}: {body}"
        );
        count += 1;
    }
    assert_eq!(count, 3);
}
