//! A turn with a tool on a real model: it is called, its result is given, and the answer has it.
#![expect(clippy::unwrap_used, reason = "tests")]
use rinfer_engine::load::Load;
use rinfer_engine::model::Model;
use rinfer_engine::request::Finish;
use rinfer_engine::sample::Sampling;
use rinfer_engine::turn::{Ask, ToolChoice};
use rinfer_testkit::shared::model;
use rinfer_text::chat::{Message, Role, Tool};
use rinfer_text::reply::Reply;
use serde_json::{Value, json};

fn reply(model: &Model, ask: &Ask) -> Reply {
    let sampling = Sampling { max_tokens: Some(120), ..Sampling::greedy() };
    let mut turn = model.turn(ask, &sampling).unwrap();
    let deltas: Vec<_> = turn.by_ref().map(Result::unwrap).collect();
    assert_eq!(turn.finish(), Some(Finish::Stop), "{deltas:?}");
    deltas.iter().collect()
}

#[test]
#[ignore = "needs Qwen2.5-Coder-1.5B, which CI does not fetch: --run-ignored all, with RINFER_TEST_MODELS"]
fn the_weather_is_asked_for_and_told() {
    let Some(path) = model("qwen2.5-coder-1.5b-instruct-q4_k_m.gguf") else { return };
    let model = Model::load(path, Load { context: Some(1024), ..Load::default() }).unwrap();
    let parameters = json!({"type": "object", "required": ["city", "unit"],
        "additionalProperties": false, "properties": {
        "city": {"type": "string", "description": "The city", "maxLength": 20},
        "unit": {"type": "string", "enum": ["celsius", "fahrenheit"]}}});
    let tools =
        vec![Tool::function("get_weather", "Tells the current weather in a city", parameters)];
    let question = "What is the weather in Paris now, in degrees Celsius? Use the tool.";
    for choice in [ToolChoice::Auto, ToolChoice::Required] {
        let messages = vec![Message::new(Role::User, question)];
        let mut ask = Ask { messages, tools: tools.clone(), choice, ..Ask::default() };
        let called = reply(&model, &ask);
        println!("{:?}: {called:?}", ask.choice);
        // This model often forgets the tags where it is free to.
        if called.calls.is_empty() && ask.choice == ToolChoice::Auto {
            assert!(called.content.contains("get_weather"), "{called:?}");
            continue;
        }
        let [(name, arguments)] = &called.calls[..] else { panic!("{called:?}") };
        let value: Value = serde_json::from_str(arguments).unwrap();
        assert_eq!((name.as_str(), &value["unit"]), ("get_weather", &json!("celsius")));
        assert!(value["city"].as_str().unwrap().contains("Paris"), "{arguments}");
        ask.messages.push(called.message(|index| format!("call_{index}")));
        let result = json!({"temperature": 17, "unit": "celsius", "sky": "cloudy"});
        ask.messages.push(Message {
            tool_call_id: Some("call_0".into()),
            name: Some("get_weather".into()),
            ..Message::new(Role::Tool, result.to_string())
        });
        // Shown the tool again, it would call it again.
        ask.choice = ToolChoice::None;
        let told = reply(&model, &ask);
        println!("{told:?}");
        assert!(told.calls.is_empty() && told.content.contains("17"), "{told:?}");
    }
}
